"""The topics of a group, as its leader tells them to an assignor."""

from collections.abc import Iterable, Mapping

from thalweg.structs import TopicPartition

_NOWHERE: frozenset[str] = frozenset()


class TopicsOfGroup:
    """Partition counts and racks of topics: the cluster that assignors are given.

    Args:
        partitions: {topic: how many partitions it has}.
        racks: The racks of each partition's replicas, as far as brokers have racks.
    """

    def __init__(
        self,
        partitions: Mapping[str, int],
        racks: Mapping[TopicPartition, frozenset[str]] | None = None,
    ) -> None:
        self._partitions = dict(partitions)
        given = racks or {}
        self._racks = {each: given[each] for each in sorted(given) if each.topic in partitions}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicsOfGroup):
            return NotImplemented
        return (self._partitions, self._racks) == (other._partitions, other._racks)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, topic: object) -> bool:
        return topic in self._partitions

    def only(self, topics: Iterable[str]) -> "TopicsOfGroup":
        """The same for some of the topics."""
        chosen = {each: self._partitions[each] for each in sorted(topics) if each in self}
        return TopicsOfGroup(chosen, self._racks)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """All topics of the group."""
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """All partition ids; None if the topic is not known."""
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The same: leaders do not matter to assignments."""
        return self.partitions_for_topic(topic)

    def replica_racks(self, partition: TopicPartition) -> frozenset[str]:
        """The racks where replicas of a partition are."""
        return self._racks.get(partition, _NOWHERE)
