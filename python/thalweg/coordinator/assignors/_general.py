"""The sticky assignment of a group whose members want different topics.

    keep      members keep the partitions that they had and still want
    fill      the remaining partitions go, topic by topic, to the member with the fewest
    balance   partitions move from members with more to members with fewer, while that helps

The balance moves new partitions before old ones. If moving old ones made the assignment no fairer,
it undoes these moves.
"""

from collections.abc import Sequence

from thalweg.coordinator.assignors._balance import Balance
from thalweg.coordinator.assignors._claims import Claims
from thalweg.coordinator.assignors._group import Assigned, Group, partitions_of
from thalweg.coordinator.assignors._holdings import Holdings
from thalweg.coordinator.assignors._java_order import text_order
from thalweg.coordinator.assignors._racks import Racks
from thalweg.structs import TopicPartition


class GeneralAssignment:
    """One assignment under construction."""

    def __init__(self, group: Group, racks: Racks, claims: Claims) -> None:
        self._group = group
        self._racks = racks
        self._claims = claims
        self._wanted = {
            each: group.topics.keys() & member.metadata.topics
            for each, member in group.members.items()
        }
        self._wanting: dict[str, set[str]] = {topic: set() for topic in group.topics}
        for member, topics in self._wanted.items():
            for topic in topics:
                self._wanting[topic].add(member)

    def build(self) -> Assigned:
        """Assigns every partition that a member wants."""
        assigned, revoked = self._keep()
        holdings = Holdings(assigned)
        is_new = holdings.most() == 0
        left = [each for each in self._partitions() if each not in holdings.owner]
        self._fill(holdings, left)
        movable = {each: found for each, found in assigned.items() if self._can_change(each, found)}
        if movable:
            assigned |= self._balance(movable, [] if revoked else left, is_new)
        return assigned

    def _keep(self) -> tuple[Assigned, bool]:
        """Returns the partitions that members keep, and whether a member must give up any."""
        kept = {
            member: [
                each
                for each in owned
                if each.topic in self._wanted[member] and not self._racks.is_far(member, each)
            ]
            for member, owned in self._claims.owned.items()
        }
        return kept, any(len(kept[each]) < len(had) for each, had in self._claims.owned.items())

    def _partitions(self) -> list[TopicPartition]:
        """Returns all partitions, first those of topics that few members want."""
        topics = sorted(
            self._group.topics, key=lambda each: (len(self._wanting[each]), text_order(each))
        )
        return [
            each for topic in topics for each in partitions_of(topic, self._group.topics[topic])
        ]

    def _fill(self, holdings: Holdings, partitions: Sequence[TopicPartition]) -> None:
        """Gives each partition to the member with the fewest that wants it, if possible near."""
        if self._racks.matter:
            partitions = [each for each in partitions if not self._give(holdings, each, near=True)]
        for partition in partitions:
            self._give(holdings, partition, near=False)

    def _give(self, holdings: Holdings, partition: TopicPartition, near: bool) -> bool:
        wanting = self._wanting[partition.topic]
        for member in holdings.by_size():
            if member in wanting and not (near and self._racks.is_far(member, partition)):
                holdings.give(partition, member)
                return True
        return False

    def _can_change(self, member: str, has: Sequence[TopicPartition]) -> bool:
        """Whether the balance could give a partition to a member, or take one from it."""
        wanted = sum(self._group.topics[topic] for topic in self._wanted[member])
        return len(has) < wanted or any(self._is_shared(each) for each in has)

    def _is_shared(self, partition: TopicPartition) -> bool:
        return len(self._wanting[partition.topic]) > 1

    def _balance(self, assigned: Assigned, new: Sequence[TopicPartition], is_new: bool) -> Assigned:
        """Balances the assignment. Returns the original if balancing does not improve it.

        Args:
            assigned: The partitions of the members that the balance may change.
            new: Partitions to move first, as no member gives them up.
            is_new: Whether no member had any partition, so there is nothing to preserve.
        """
        before = Holdings({each: list(found) for each, found in assigned.items()})
        holdings = Holdings(assigned)
        outdated = self._claims.outdated
        balance = Balance(holdings, self._group.topics, self._wanted, self._wanting, outdated)
        balance.run([each for each in new if self._is_shared(each)])
        moved = balance.run([each for each in self._partitions() if self._is_shared(each)])
        if moved and not is_new and holdings.unfairness() >= before.unfairness():
            return before.assigned
        return assigned
