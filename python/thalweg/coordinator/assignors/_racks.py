"""Racks: which members are near which partitions (KIP-881).

A consumer that reads from a replica in its own rack saves traffic between racks. So, as far as the
balance allows, a partition goes to a member in a rack that has a replica. If every partition has a
replica in every rack, racks are ignored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from thalweg.coordinator.assignors.abstract import Member
from thalweg.structs import TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]


def member_racks(members: Iterable[Member]) -> dict[str, str]:
    """Returns {member id: its rack} of the members that have a rack."""
    return {each.member_id: each.metadata.rack_id for each in members if each.metadata.rack_id}


def racks_matter(wanted: Collection[str], replicas: Collection[frozenset[str]]) -> bool:
    """Whether the assignment of these partitions affects the traffic of members in these racks."""
    everywhere = frozenset().union(*replicas)
    return not everywhere.isdisjoint(wanted) and any(each != everywhere for each in replicas)


class Racks:
    """The racks of a group's members and partitions, if they matter.

    Attributes:
        matter: Whether racks make a difference. If not, no member is far from any partition.
    """

    def __init__(self, members: Iterable[Member], replicas: ReplicaRacks) -> None:
        found = member_racks(members)
        self.matter = racks_matter(set(found.values()), replicas.values())
        self._members: Mapping[str, str] = found if self.matter else {}
        self._replicas = replicas

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and no replica of the partition is in it."""
        rack = self._members.get(member)
        return rack is not None and rack not in self._replicas.get(partition, ())

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack with a replica of the partition."""
        return self._members.get(member) in self._replicas.get(partition, ())

    def by_fewest_near(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Sorts partitions by the number of near members, fewest first. The sort is stable."""
        in_rack: dict[str, int] = {}
        for rack in self._members.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1
        near = {each: sum(in_rack.get(r, 0) for r in self._replicas[each]) for each in partitions}
        return sorted(near, key=near.__getitem__)

    def next_near(
        self, partition: TopicPartition, members: Sequence[str], start: int
    ) -> int | None:
        """Returns the index of the next near member, from `start` and around the end, or None."""
        for step in range(len(members)):
            at = (start + step) % len(members)
            if self.is_near(members[at], partition):
                return at
        return None
