"""Which partitions a rebalance moved from whom to whom, so that none is moved to no purpose.

If partition 1 of a topic went from A to B and now partition 2 of it should go from B to A, it is
better to send partition 1 back.
"""

from thalweg.coordinator.assignors._java_order import bucket, bucket_count, partition_hash
from thalweg.structs import TopicPartition


class _Partitions:
    """A set whose `first` is what a Java `HashSet` would show first.

    Java's set keeps the buckets of its largest moment, so that moment is remembered.
    """

    def __init__(self) -> None:
        self._found: dict[TopicPartition, int] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, partition: TopicPartition) -> None:
        self._found[partition] = partition_hash(partition)
        self._most = max(self._most, len(self._found))

    def remove(self, partition: TopicPartition) -> None:
        del self._found[partition]

    def first(self) -> TopicPartition:
        buckets = bucket_count(self._most)
        return min(self._found, key=lambda each: bucket(self._found[each], buckets))


class Movements:
    """All moves of one assignment, by topic and by the pair (from, to)."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], _Partitions] = {}

    def note(self, partition: TopicPartition, old: str, new: str) -> None:
        """A partition was moved; two moves in a row count as one, there and back as none."""
        source = old
        if partition in self._moved:
            source = self._forget(partition)
        if source != new:
            self._moved[partition] = (source, new)
            same = self._by_pair.setdefault((partition.topic, source, new), _Partitions())
            same.add(partition)

    def _forget(self, partition: TopicPartition) -> str:
        """Takes a move out; returns from where it was."""
        source, target = self._moved.pop(partition)
        pair = (partition.topic, source, target)
        self._by_pair[pair].remove(partition)
        if not self._by_pair[pair]:
            del self._by_pair[pair]
        return source

    def to_move(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        """Which partition of the topic should move if this one is to go from `old` to `new`."""
        source = self._moved[partition][0] if partition in self._moved else old
        opposite = self._by_pair.get((partition.topic, new, source))
        return partition if opposite is None else opposite.first()
