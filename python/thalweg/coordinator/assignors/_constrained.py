"""The sticky assignment of a group whose members all want the same topics.

Every member gets `least` partitions, and some get one more. So two passes are enough: members keep
the partitions that they had, up to their share, and then the remaining partitions are dealt out.
"""

from collections import deque
from collections.abc import Iterable

from thalweg.coordinator.assignors._claims import Claims
from thalweg.coordinator.assignors._group import Assigned, Group, partitions_of
from thalweg.coordinator.assignors._java_order import text_order
from thalweg.coordinator.assignors._racks import Racks
from thalweg.structs import TopicPartition


class ConstrainedAssignment:
    """One assignment under construction.

    Attributes:
        assigned: {member id: its partitions}.
        moving: {partition: its new member} of partitions that another member still has.
    """

    def __init__(self, group: Group, racks: Racks, claims: Claims) -> None:
        self.assigned: Assigned = {each: [] for each in group.members}
        self.moving: dict[TopicPartition, str] = {}
        self._group = group
        self._racks = racks
        self._claims = claims
        self._least, extra = divmod(sum(group.topics.values()), len(group.members))
        self._most = self._least + (extra > 0)
        self._extra = extra  # how many members may still get one more than `least`
        self._short: list[str] = []  # members with fewer than `least`
        self._enough: deque[str] = deque()  # members with `least`, which may get one more
        self._given_up: dict[TopicPartition, str] = {}

    def build(self) -> Assigned:
        """Assigns every partition."""
        for member in self.assigned:
            self._keep(member)
        self._short.sort(key=text_order)
        self._enough = deque(sorted(self._enough, key=text_order))
        left: Iterable[TopicPartition] = self._unassigned()
        if self._racks.matter:
            ordered = self._racks.by_fewest_near(left)
            left = self._deal_near(ordered)
        self._deal(left)
        return self.assigned

    def _keep(self, member: str) -> None:
        """Lets a member keep the partitions that it had, up to its share."""
        owned = self._claims.owned[member]
        far = [each for each in owned if self._racks.is_far(member, each)]
        kept = set(owned).difference(far, self._claims.contested)
        had = sorted(kept, key=lambda each: (each.partition, text_order(each.topic)))
        if len(had) < self._least:
            share = len(had)
            self._short.append(member)
        elif len(had) >= self._most and self._extra > 0:
            share = self._most
            self._take_extra()
        else:
            share = self._least
            if self._extra > 0:
                self._enough.append(member)
        self.assigned[member] += had[:share]
        self._given_up.update(dict.fromkeys([*far, *had[share:]], member))

    def _take_extra(self) -> None:
        self._extra -= 1
        if self._extra == 0:
            self._enough.clear()

    def _unassigned(self) -> list[TopicPartition]:
        kept = {each for partitions in self.assigned.values() for each in partitions}
        return [
            partition
            for topic in sorted(self._group.topics, key=text_order)
            for partition in partitions_of(topic, self._group.topics[topic])
            if partition not in kept
        ]

    def _deal_near(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Deals partitions to near members. Returns those that no near member can take."""
        left = []
        turn = 0
        for partition in partitions:
            at = self._racks.next_near(partition, self._short, turn)
            if at is not None:
                turn = self._give_short(partition, at)
                continue
            at = self._racks.next_near(partition, self._enough, 0)
            if at is not None:
                self._give_enough(partition, at)
            else:
                left.append(partition)
        return left

    def _give_short(self, partition: TopicPartition, at: int) -> int:
        """Gives a partition to a member that is short. Returns the index of the next turn."""
        member = self._short[at]
        if self._give(partition, member) >= self._least:
            del self._short[at]
            if self._least < self._most and self._extra > 0:
                self._enough.append(member)
        else:
            at += 1
        return at % len(self._short) if self._short else 0

    def _give_enough(self, partition: TopicPartition, at: int) -> None:
        member = self._enough[at]
        del self._enough[at]
        self._give(partition, member)
        self._take_extra()

    def _deal(self, partitions: Iterable[TopicPartition]) -> None:
        """Deals partitions: first to the short members in turn, then one more to other members."""
        turn = 0
        for partition in partitions:
            if not self._short:
                self._give(partition, self._enough.popleft())
                continue
            turn %= len(self._short)
            member = self._short[turn]
            if self._give(partition, member) < self._least:
                turn += 1
                continue
            del self._short[turn]
            self._enough.append(member)
            if turn == len(self._short):
                turn = 0

    def _give(self, partition: TopicPartition, member: str) -> int:
        """Gives a partition to a member. Returns how many the member then has."""
        owner = self._given_up.get(partition, member)
        if owner != member or partition in self._claims.contested:
            self.moving[partition] = member
        self.assigned[member].append(partition)
        return len(self.assigned[member])
