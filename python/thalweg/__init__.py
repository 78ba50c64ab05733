"""thalweg: Kafka for Python on a Rust core, with a Spark data source and an embedded broker.

    from thalweg import KafkaProducer, KafkaConsumer, KafkaAdminClient, TopicPartition

The names are kafka-python's. A name is loaded at its first use (PEP 562): `import thalweg` reads no
other module, and no native code runs until you create a client.
"""

from thalweg._version import __version__

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from thalweg._config.secret import Secret
    from thalweg.admin import IsolationLevel, KafkaAdminClient, OffsetSpec
    from thalweg.broker import EmbeddedBroker
    from thalweg.config import IgnoredOptionWarning, InsecureConnectionWarning
    from thalweg.consumer import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
        ConsumerRecord,
        KafkaConsumer,
    )
    from thalweg.interceptor import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from thalweg.producer import (
        BatchMetadata,
        FutureBatchMetadata,
        FutureRecordMetadata,
        KafkaProducer,
        RecordMetadata,
    )
    from thalweg.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
    from thalweg.structs import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PreparedTransaction,
        SubscriptionPattern,
        TopicPartition,
        TopicPartitionReplica,
    )
    from thalweg.tables import RecordTable

__all__ = [
    "AsyncConsumerRebalanceListener",
    "BatchMetadata",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "DefaultSerializer",
    "Deserializer",
    "EmbeddedBroker",
    "FutureBatchMetadata",
    "FutureRecordMetadata",
    "IgnoredOptionWarning",
    "InsecureConnectionWarning",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PreparedTransaction",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordMetadata",
    "RecordTable",
    "Secret",
    "Serializer",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicPartitionReplica",
    "__version__",
]

# Where each name lives; read by __getattr__ at its first use.
_HOMES = {
    "AsyncConsumerRebalanceListener": "coordinator.listener",
    "BatchMetadata": "producer",
    "ConsumerGroupMetadata": "structs",
    "ConsumerInterceptor": "interceptor",
    "ConsumerRebalanceListener": "coordinator.listener",
    "ConsumerRecord": "consumer",
    "DefaultSerializer": "serializer",
    "Deserializer": "serializer",
    "EmbeddedBroker": "broker",
    "FutureBatchMetadata": "producer",
    "FutureRecordMetadata": "producer",
    "IgnoredOptionWarning": "config",
    "InsecureConnectionWarning": "config",
    "IsolationLevel": "admin",
    "JsonSerializer": "serializer",
    "KafkaAdminClient": "admin",
    "KafkaConsumer": "consumer",
    "KafkaProducer": "producer",
    "OffsetAndMetadata": "structs",
    "OffsetAndTimestamp": "structs",
    "PreparedTransaction": "structs",
    "OffsetSpec": "admin",
    "ProducerInterceptor": "interceptor",
    "ProducerRecord": "interceptor",
    "RecordMetadata": "structs",
    "RecordTable": "tables",
    "Secret": "_config.secret",
    "Serializer": "serializer",
    "SubscriptionPattern": "structs",
    "TopicPartition": "structs",
    "TopicPartitionReplica": "structs",
}
_MODULES = (
    "admin",
    "aio",
    "auth",
    "broker",
    "config",
    "consumer",
    "coordinator",
    "errors",
    "interceptor",
    "metrics",
    "partitioner",
    "producer",
    "serializer",
    "structs",
    "tables",
    "typing",
)


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"thalweg.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"thalweg.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
