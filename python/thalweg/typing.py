"""Types of the clients' options, for annotations of one's own: TypedDicts of all keywords.

    from thalweg.typing import ConsumerConfig

    def opened(**options: Unpack[ConsumerConfig]) -> KafkaConsumer[bytes, bytes]: ...

Serializers and deserializers are not among them: a client's own type follows from those.
"""

from thalweg._config_types import AdminConfig, ConsumerConfig, ProducerConfig

__all__ = ["AdminConfig", "ConsumerConfig", "ProducerConfig"]
