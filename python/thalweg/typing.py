"""Types of the clients' options, for your own annotations: TypedDicts of all keywords.

    from thalweg.typing import ConsumerConfig

    def opened(**options: Unpack[ConsumerConfig]) -> KafkaConsumer[bytes, bytes]: ...

They do not contain serializers and deserializers, because these determine a client's own type.
"""

from thalweg._config.option_types import AdminConfig, ConsumerConfig, ProducerConfig

__all__ = ["AdminConfig", "ConsumerConfig", "ProducerConfig"]
