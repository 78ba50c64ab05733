"""Partitioners choose the partition of a record if `send` is not given one.

    your own Partitioner             ──> its partition(), in Python for each record
    DefaultPartitioner, or no option ──> murmur2(key), else sticky, in Rust (KIP-480, KIP-794)

The native core implements the classes below: if you use one of them (not a subclass), no Python
code runs for a record. Their Python methods are for tests and for subclasses. The Python methods
cannot send more records to faster brokers (KIP-794), because they do not see the queues.
"""

import itertools
import random
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from thalweg._core import ClusterMetadata

__all__ = [
    "ConsistentRandomPartitioner",
    "DefaultPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "murmur2",
]

PartitionFunction: TypeAlias = Callable[
    [str, Any, bytes | None, Any, bytes | None, "ClusterMetadata"], int | None
]


class Partitioner(ABC):
    """Base class of partitioners (`org.apache.kafka.clients.producer.Partitioner`).

    A subclass may define `on_new_batch(topic, cluster, prev_partition)`. The producer calls it when
    a record without a key would start a new batch, and then calls `partition` again (KIP-480).
    """

    @abstractmethod
    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        """Returns the partition's ID. If it raises, only this send fails.

        Args:
            topic: The record's topic.
            key: The key given to `send`.
            serialized_key: The key's bytes, or None without a key.
            value: The value given to `send`.
            serialized_value: The value's bytes, or None for a null.
            cluster: The metadata, for example `partitions_for_topic(topic)` and
                `available_partitions_for_topic(topic)` (the partitions with a leader).
        """

    def close(self) -> None:  # noqa: B027 (optional)
        """Called when the producer is closed."""


def _partitions(topic: str, cluster: "ClusterMetadata") -> tuple[list[int], list[int]]:
    """Returns all partitions, and those with a leader, both sorted."""
    known = cluster.partitions_for_topic(topic)
    if not known:
        raise ValueError(
            f"Topic {topic} not found in ClusterMetadata: check its name, or create it"
        )
    return sorted(known), sorted(cluster.available_partitions_for_topic(topic) or ())


class DefaultPartitioner(Partitioner):
    """Chooses murmur2(key) modulo the number of partitions, as the Java client does.

    As a producer's option, it sends records without a key to sticky partitions. Partitions on
    faster brokers get more records (KIP-794). If you call the object in Python, it chooses a random
    partition with a leader for these records, like kafka-python. Call it as
    `partitioner(key, all_partitions, available)`, like kafka-python 2, or call `partition()`.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        """Returns the partition. Raises ValueError if the metadata does not have the topic."""
        return self(serialized_key, *_partitions(topic, cluster))

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """Chooses one of the sorted partition IDs."""
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class StickyPartitioner(DefaultPartitioner):
    """Sends records without a key to one partition until its batch is full (KIP-480).

    As a producer's option, it does the same as DefaultPartitioner: KIP-794 replaced KIP-480.
    """

    def __init__(self) -> None:
        """Starts without a sticky partition for any topic."""
        self._sticky: dict[str, int] = {}
        self._lock = threading.Lock()

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        """Returns the partition. Raises ValueError if the metadata does not have the topic."""
        partitions, available = _partitions(topic, cluster)
        if serialized_key is not None:
            return self(serialized_key, partitions, available)
        with self._lock:
            chosen = self._sticky.get(topic)
            if chosen not in (available or partitions):
                chosen = self._sticky[topic] = random.choice(available or partitions)
            return chosen

    def on_new_batch(self, topic: str, cluster: "ClusterMetadata", prev_partition: int) -> None:
        """Moves the topic to another partition, unless another thread has done so."""
        if not cluster.partitions_for_topic(topic):
            return
        partitions, available = _partitions(topic, cluster)
        with self._lock:
            if self._sticky.get(topic) != prev_partition:
                return
            pool = available or partitions
            others = [each for each in pool if each != prev_partition]
            self._sticky[topic] = random.choice(others or pool)


class RoundRobinPartitioner(Partitioner):
    """Uses each partition with a leader in turn, even for keys (Java's RoundRobinPartitioner)."""

    def __init__(self) -> None:
        """Starts at the first partition of every topic."""
        self._counters: dict[str, itertools.count[int]] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        """Returns the partition. Raises ValueError if the metadata does not have the topic."""
        partitions, available = _partitions(topic, cluster)
        pool = available or partitions
        turn = next(self._counters.setdefault(topic, itertools.count()))
        return pool[turn % len(pool)]


class ConsistentRandomPartitioner(Partitioner):
    """Chooses by the CRC-32 of the key, or at random without a key, as librdkafka does.

    Use it for topics that librdkafka's default partitioner (`consistent_random`) has filled.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        """Returns the partition. Raises ValueError if the metadata does not have the topic."""
        partitions, available = _partitions(topic, cluster)
        if not serialized_key:
            return random.choice(available or partitions)
        return partitions[zlib.crc32(serialized_key) % len(partitions)]


# The partitioners of the native core, by exact class: a subclass is the user's code.
NATIVE: dict[type[Partitioner], str] = {
    DefaultPartitioner: "default",
    StickyPartitioner: "default",
    RoundRobinPartitioner: "round_robin",
    ConsistentRandomPartitioner: "consistent_random",
}


def partition_function(given: Any) -> PartitionFunction | None:
    """Returns the function to call for each record, or None if the native core does it.

    Takes a Partitioner, any object with its method, or kafka-python 2.x's callable
    `f(key_bytes, all_partitions, available_partitions)`.

    Raises:
        TypeError: If it is something else.
    """
    if given is None or isinstance(given, str) or type(given) in NATIVE:
        return None
    method = getattr(given, "partition", None)
    if method is not None:
        return method  # type: ignore[no-any-return]
    if not callable(given):
        raise TypeError(f"expected a Partitioner or a callable, not {given!r}")

    def call(
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: "ClusterMetadata",
    ) -> int | None:
        return given(serialized_key, *_partitions(topic, cluster))  # type: ignore[no-any-return]

    return call


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """Computes Java's MurmurHash2 (`org.apache.kafka.common.utils.Utils.murmur2`).

    Args:
        data: The bytes of a key.

    Returns:
        The hash, 0 to 2**32 - 1. Kafka's partition is `(hash & 0x7fffffff) % partitions`.
    """
    mix, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    result = 0x9747B28C ^ length
    for start in range(0, length & ~3, 4):
        word = int.from_bytes(data[start : start + 4], "little") * mix & mask
        word = (word ^ word >> 24) * mix & mask
        result = (result * mix & mask) ^ word
    tail = data[length & ~3 :]
    if tail:
        result = ((result ^ int.from_bytes(tail, "little")) * mix) & mask
    result = ((result ^ result >> 13) * mix) & mask
    return result ^ result >> 15
