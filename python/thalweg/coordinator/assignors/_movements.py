"""The moves of one rebalance, to avoid useless moves.

If partition 1 of a topic has moved from A to B, and partition 2 should now move from B to A, it is
better to move partition 1 back.
"""

from thalweg.coordinator.assignors._java_order import bucket, bucket_count, partition_hash
from thalweg.structs import TopicPartition


class _Partitions:
    """A set whose `first` is the first element of the same Java `HashSet`.

    Java's set never gets fewer buckets, so this set remembers its largest size.
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
    """All moves of one assignment, by topic, old member and new member."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], _Partitions] = {}

    def note(self, partition: TopicPartition, old: str, new: str) -> None:
        """Notes a move. Two moves of a partition count as one, a move and its return as none."""
        source = old
        if partition in self._moved:
            source = self._forget(partition)
        if source != new:
            self._moved[partition] = (source, new)
            same = self._by_pair.setdefault((partition.topic, source, new), _Partitions())
            same.add(partition)

    def _forget(self, partition: TopicPartition) -> str:
        """Removes a move. Returns the member that it started from."""
        source, target = self._moved.pop(partition)
        pair = (partition.topic, source, target)
        self._by_pair[pair].remove(partition)
        if not self._by_pair[pair]:
            del self._by_pair[pair]
        return source

    def to_move(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        """Returns the partition to move so that the topic gives one from `old` to `new`."""
        source = self._moved[partition][0] if partition in self._moved else old
        opposite = self._by_pair.get((partition.topic, new, source))
        return partition if opposite is None else opposite.first()
