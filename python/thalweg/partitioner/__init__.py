"""Which partition a record goes to, if `send` was not told.

    given partition ──> that one
    a Partitioner of the user's own ──> its partition()            (Python, per record)
    DefaultPartitioner (or none set) ──> murmur2(key), else sticky (in Rust; KIP-480, KIP-794)

The classes below name strategies that the native core implements: setting
one of them itself (not a subclass) costs no Python per record. They work in Python as well,
for tests and as bases of one's own.

What is deliberately absent: load awareness (KIP-794) in the Python forms, which cannot see
the queues.
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

    A subclass may define `on_new_batch(topic, cluster, prev_partition)`; it is called when a
    record without a key would open a new batch, and `partition` is then asked again (KIP-480).
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
        """The partition's id; whatever it raises fails that send alone.

        Args:
            topic: The record's topic.
            key: As given to `send`.
            serialized_key: Its bytes, None for no key.
            value: As given to `send`.
            serialized_value: Its bytes, None for a null.
            cluster: `partitions_for_topic(topic)`, `available_partitions_for_topic(topic)`
                (those with a leader), ...
        """

    def close(self) -> None:  # noqa: B027 (optional)
        """Called when the producer is closed."""


def _partitions(topic: str, cluster: "ClusterMetadata") -> tuple[list[int], list[int]]:
    """All partitions and those with a leader, both sorted."""
    known = cluster.partitions_for_topic(topic)
    if not known:
        raise ValueError(f"Topic {topic} not found in ClusterMetadata")
    return sorted(known), sorted(cluster.available_partitions_for_topic(topic) or ())


class DefaultPartitioner(Partitioner):
    """murmur2(key) modulo the number of partitions, as the Java client; without a key, any.

    Set on a producer, records without a key go to sticky partitions chosen by load (KIP-794).
    Called in Python they go to a random partition with a leader, as in kafka-python; and
    `partitioner(key, all_partitions, available)` is kafka-python 2.x's call.
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
        """Raises ValueError if the topic is not in the cluster's metadata."""
        return self(serialized_key, *_partitions(topic, cluster))

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """Picks from sorted partition ids."""
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class StickyPartitioner(DefaultPartitioner):
    """Keyless records stay on one partition until its batch is full (KIP-480).

    Set on a producer it is the same as DefaultPartitioner, whose KIP-794 replaced it.
    """

    def __init__(self) -> None:
        """Starts without a choice for any topic."""
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
        """Raises ValueError if the topic is not in the cluster's metadata."""
        partitions, available = _partitions(topic, cluster)
        if serialized_key is not None:
            return self(serialized_key, partitions, available)
        with self._lock:
            chosen = self._sticky.get(topic)
            if chosen not in (available or partitions):
                chosen = self._sticky[topic] = random.choice(available or partitions)
            return chosen

    def on_new_batch(self, topic: str, cluster: "ClusterMetadata", prev_partition: int) -> None:
        """Moves the topic on to another partition, unless another thread has done so."""
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
    """Every partition with a leader in turn, keys or not (Java's RoundRobinPartitioner)."""

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
        """Raises ValueError if the topic is not in the cluster's metadata."""
        partitions, available = _partitions(topic, cluster)
        pool = available or partitions
        turn = next(self._counters.setdefault(topic, itertools.count()))
        return pool[turn % len(pool)]


class ConsistentRandomPartitioner(Partitioner):
    """CRC-32 of the key, or random without one: librdkafka's `consistent_random`.

    For topics whose keys were placed by librdkafka's default.
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
        """Raises ValueError if the topic is not in the cluster's metadata."""
        partitions, available = _partitions(topic, cluster)
        if not serialized_key:
            return random.choice(available or partitions)
        return partitions[zlib.crc32(serialized_key) % len(partitions)]


# The strategies of the native core, by exact class: a subclass is the user's own code.
NATIVE: dict[type[Partitioner], str] = {
    DefaultPartitioner: "default",
    StickyPartitioner: "default",
    RoundRobinPartitioner: "round_robin",
    ConsistentRandomPartitioner: "consistent_random",
}


def partition_function(given: Any) -> PartitionFunction | None:
    """The function to call per record; None if the native core has the strategy.

    Takes a Partitioner, any object with its method, or kafka-python 2.x's callable
    `f(key_bytes, all_partitions, available_partitions)`.

    Raises:
        TypeError: If it is none of them.
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
    """MurmurHash2 as the Java client has it (`org.apache.kafka.common.utils.Utils.murmur2`).

    Args:
        data: The bytes of a key.

    Returns:
        The hash in 0 .. 2**32 - 1; Kafka's partition is `(hash & 0x7fffffff) % partitions`.
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
