"""Types of the clients' options, for your own annotations.

    from thalweg.typing import CompressionType, ConsumerConfig

    def opened(**options: Unpack[ConsumerConfig]) -> KafkaConsumer[bytes, bytes]: ...

The names that end in `Config` are TypedDicts of all keywords of a client. They do not contain
serializers and deserializers, because these determine a client's own type. `SecretText` is the type
of SASL's secrets. The other names are Literals: `CompressionType` has the values of the option
`compression_type`.
"""

from typing import TYPE_CHECKING, Any

from thalweg._config.option_types import (
    Acks,
    AdminConfig,
    ClientDnsLookup,
    CompressionType,
    ConsumerConfig,
    GroupProtocol,
    IsolationLevel,
    MetadataRecoveryStrategy,
    ProducerConfig,
    SaslOauthbearerAssertionAlgorithm,
    SaslOauthbearerGrantType,
    SaslOauthbearerMetadataAuthenticationType,
    SaslOauthbearerMethod,
    SecretText,
    SecurityProtocol,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
else:
    AbstractEventLoop = Any  # `asyncio` takes long to import

__all__ = [
    "AIOConsumerConfig",
    "AIOProducerConfig",
    "Acks",
    "AdminConfig",
    "ClientDnsLookup",
    "CompressionType",
    "ConsumerConfig",
    "GroupProtocol",
    "IsolationLevel",
    "MetadataRecoveryStrategy",
    "ProducerConfig",
    "SaslOauthbearerAssertionAlgorithm",
    "SaslOauthbearerGrantType",
    "SaslOauthbearerMetadataAuthenticationType",
    "SaslOauthbearerMethod",
    "SecretText",
    "SecurityProtocol",
]


class AIOProducerConfig(ProducerConfig, total=False):
    """Keywords of AIOKafkaProducer."""

    loop: AbstractEventLoop | None
    max_batch_size: int


class AIOConsumerConfig(ConsumerConfig, total=False):
    """Keywords of AIOKafkaConsumer."""

    loop: AbstractEventLoop | None
