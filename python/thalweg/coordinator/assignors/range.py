"""The range assignor: each member gets a run of each topic's partitions (`RangeAssignor`).

    t: 0 1 2 3 4 5 6      A: 0 1 2    B: 3 4    C: 5 6

Topics with the same members and the same number of partitions are divided in the same way: a member
gets the same partition numbers of each, and can join them (co-partitioning). With racks (KIP-881),
members first get near partitions, still with the same numbers in such topics. Then runs of the
remaining partitions follow.
"""

from collections.abc import Callable, Sequence

from thalweg.coordinator.assignors._group import Assigned, BuiltInAssignor, Group, partitions_of
from thalweg.coordinator.assignors._java_order import text_order
from thalweg.coordinator.assignors._racks import ReplicaRacks, member_racks, racks_matter
from thalweg.structs import TopicPartition

__all__ = ["RangePartitionAssignor"]


class _Topic:
    """A topic during the assignment: its remaining partitions, and the room of each member."""

    def __init__(
        self, name: str, count: int, members: dict[str, str | None], replicas: ReplicaRacks
    ) -> None:
        self.name = name
        self.count = count
        self.members = members
        self.left = partitions_of(name, count)
        self._least, self._with_one_more = divmod(count, len(members))
        self._got = dict.fromkeys(members, 0)
        self._replicas = {each: replicas[each] for each in self.left}
        wanted = {rack for rack in members.values() if rack is not None}
        self.racks_matter = racks_matter(wanted, self._replicas.values())

    def alike(self) -> tuple[tuple[tuple[str, str | None], ...], int]:
        """Returns a key that is equal for topics to divide in the same way."""
        return tuple(self.members.items()), self.count

    def room(self, member: str) -> int:
        """Returns how many more partitions a member may get."""
        return max(0, self._least + (self._with_one_more > 0) - self._got[member])

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        """Whether a replica is in the member's rack. Without a rack, every partition is near."""
        rack = self.members[member]
        return rack is None or rack in self._replicas[partition]

    def give(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Notes that a member got these partitions."""
        self._got[member] += len(partitions)
        if self._got[member] > self._least:
            self._with_one_more -= 1
        gone = set(partitions)
        self.left = [each for each in self.left if each not in gone]


class RangePartitionAssignor(BuiltInAssignor):
    """Gives each member a run of each topic's partitions."""

    name = "range"

    def assign_group(self, group: Group) -> Assigned:
        """Returns {member id: its partitions}."""
        assigned: Assigned = {each: [] for each in group.members}
        topics = _topics(group)
        by_rack = any(each.racks_matter for each in topics)
        if by_rack:
            _assign_near(topics, assigned)
        for topic in topics:
            _assign_run(topic, lambda member, partition: True, assigned)
        if by_rack:
            for partitions in assigned.values():
                partitions.sort(key=lambda each: (text_order(each.topic), each.partition))
        return assigned


def _topics(group: Group) -> list[_Topic]:
    racks = member_racks(group.members.values())
    members: dict[str, dict[str, str | None]] = {name: {} for name in group.topics}
    for each in group.sorted_members():
        for name in each.metadata.topics:
            if name in members:
                members[name][each.member_id] = racks.get(each.member_id)
    return [_Topic(name, count, members[name], group.racks) for name, count in group.topics.items()]


def _assign_near(topics: Sequence[_Topic], assigned: Assigned) -> None:
    """Gives near partitions to members, for topics that are divided in the same way together."""
    together: dict[object, list[_Topic]] = {}
    for topic in topics:
        together.setdefault(topic.alike(), []).append(topic)
    for alike in together.values():
        if len(alike) > 1:
            _assign_alike(alike, assigned)
        elif alike[0].racks_matter:
            _assign_run(alike[0], alike[0].is_near, assigned)


def _assign_run(
    topic: _Topic, may_get: Callable[[str, TopicPartition], bool], assigned: Assigned
) -> None:
    """Divides the remaining partitions of a topic into runs."""
    for member in topic.members:
        fitting = [each for each in topic.left if may_get(member, each)][: topic.room(member)]
        if fitting:
            topic.give(member, fitting)
            assigned[member] += fitting


def _assign_alike(topics: Sequence[_Topic], assigned: Assigned) -> None:
    """Gives each partition number to the first member that is near it in all of the topics."""
    members = list(topics[0].members)
    for number in range(topics[0].count):
        member = next((each for each in members if _all_near(topics, each, number)), None)
        if member is None:
            continue
        for topic in topics:
            partition = TopicPartition(topic.name, number)
            topic.give(member, [partition])
            assigned[member].append(partition)
        if not any(topic.room(member) for topic in topics):
            members.remove(member)


def _all_near(topics: Sequence[_Topic], member: str, number: int) -> bool:
    return all(
        topic.is_near(member, TopicPartition(topic.name, number)) and topic.room(member) > 0
        for topic in topics
    )
