"""Small immutable values under aiokafka's names, for `from thalweg.aio.structs import ...`."""

from thalweg._core import ConsumerRecord
from thalweg.structs import (
    BrokerMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionMetadata,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]
