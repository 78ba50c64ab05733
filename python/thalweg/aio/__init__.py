"""Clients for asyncio with aiokafka's names, on the native core of the other clients.

    from thalweg.aio import AIOKafkaProducer

A name is loaded at its first use (PEP 562), so importing this package loads no native code.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from thalweg.aio.batch import BatchBuilder
    from thalweg.aio.consumer import (
        AIOKafkaConsumer,
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
        ConsumerRecord,
    )
    from thalweg.aio.errors import IllegalOperation
    from thalweg.aio.producer import AIOKafkaProducer, RecordFuture
    from thalweg.errors import ConsumerStoppedError
    from thalweg.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "AsyncConsumerRebalanceListener",
    "BatchBuilder",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordFuture",
    "TopicPartition",
]

# Where each name lives; read by __getattr__ at its first use.
_HOMES = {
    "AIOKafkaConsumer": "aio.consumer",
    "AIOKafkaProducer": "aio.producer",
    "AsyncConsumerRebalanceListener": "coordinator.listener",
    "BatchBuilder": "aio.batch",
    "ConsumerRebalanceListener": "coordinator.listener",
    "ConsumerRecord": "aio.consumer",
    "ConsumerStoppedError": "errors",
    "IllegalOperation": "aio.errors",
    "OffsetAndMetadata": "structs",
    "OffsetAndTimestamp": "structs",
    "RecordFuture": "aio.producer",
    "TopicPartition": "structs",
}
# What to use in place of the names of aiokafka that do not exist here.
_ABSENT = {
    "AIOKafkaAdminClient": "use thalweg.KafkaAdminClient, and call it with asyncio.to_thread()",
    "AIOKafkaClient": "each client has its own connections, and takes no client object",
}
_MODULES = ("abc", "batch", "consumer", "errors", "helpers", "producer", "structs")


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"thalweg.aio.{name}")
    home = _HOMES.get(name)
    if home is None:
        hint = f": {_ABSENT[name]}" if name in _ABSENT else ""
        raise AttributeError(f"module 'thalweg.aio' has no attribute {name!r}{hint}")
    found = getattr(importlib.import_module(f"thalweg.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
