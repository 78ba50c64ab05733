"""Which members are near which partitions (KIP-881).

A consumer that reads from a replica of its own rack saves traffic between racks, so partitions go
to members of a rack where a replica is, as long as the balance allows. Where every partition has
a replica in every rack there is nothing to gain, and racks are ignored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from thalweg.coordinator.assignors.abstract import Member
from thalweg.structs import TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]


def member_racks(members: Iterable[Member]) -> dict[str, str]:
    """{member id: its rack} of the members that have one."""
    return {each.member_id: each.metadata.rack_id for each in members if each.metadata.rack_id}


def racks_matter(wanted: Collection[str], replicas: Collection[frozenset[str]]) -> bool:
    """Whether members of these racks would notice who reads which of these partitions."""
    everywhere = frozenset().union(*replicas)
    return not everywhere.isdisjoint(wanted) and any(each != everywhere for each in replicas)


class Racks:
    """The racks of a group's members and partitions, if they matter.

    Attributes:
        matter: False where racks change nothing: then nobody is far from anything.
    """

    def __init__(self, members: Iterable[Member], replicas: ReplicaRacks) -> None:
        found = member_racks(members)
        self.matter = racks_matter(set(found.values()), replicas.values())
        self._members: Mapping[str, str] = found if self.matter else {}
        self._replicas = replicas

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and no replica of the partition is there."""
        rack = self._members.get(member)
        return rack is not None and rack not in self._replicas.get(partition, ())

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack where a replica of the partition is."""
        return self._members.get(member) in self._replicas.get(partition, ())

    def by_fewest_near(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions that few members are near come first; else the order is kept."""
        in_rack: dict[str, int] = {}
        for rack in self._members.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1
        near = {each: sum(in_rack.get(r, 0) for r in self._replicas[each]) for each in partitions}
        return sorted(near, key=near.__getitem__)

    def next_near(
        self, partition: TopicPartition, members: Sequence[str], start: int
    ) -> int | None:
        """The index of the next member that is near, going round from `start`."""
        for step in range(len(members)):
            at = (start + step) % len(members)
            if self.is_near(members[at], partition):
                return at
        return None
