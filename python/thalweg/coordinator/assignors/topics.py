"""The topics of a group, as the leader passes them to an assignor."""

from collections.abc import Iterable, Mapping

from thalweg.structs import TopicPartition

_NOWHERE: frozenset[str] = frozenset()


class TopicsOfGroup:
    """The number of partitions and the racks of topics: the `cluster` argument of assignors.

    Args:
        partitions: {topic: number of partitions}.
        racks: {partition: racks of its replicas}, as far as brokers have racks.
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
        """Returns a copy with only these topics."""
        chosen = {each: self._partitions[each] for each in sorted(topics) if each in self}
        return TopicsOfGroup(chosen, self._racks)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Returns all topics of the group."""
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns all partition ids, or None if the topic is not known."""
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns all partition ids, because leaders do not matter for an assignment."""
        return self.partitions_for_topic(topic)

    def replica_racks(self, partition: TopicPartition) -> frozenset[str]:
        """Returns the racks of a partition's replicas."""
        return self._racks.get(partition, _NOWHERE)
