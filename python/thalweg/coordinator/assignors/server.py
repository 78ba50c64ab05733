"""The broker's assignors, for KIP-848's protocol.

    ASSIGNORS["uniform"]   as balanced as subscriptions allow, with as few moves as possible
    ASSIGNORS["range"]     contiguous ranges, with the same numbers in topics that match

They are pure functions of the members, in any order, and of the topics' numbers of partitions. They
ignore topics that do not exist.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from thalweg.coordinator.kip848.topic_ids import IdPartition

__all__ = ["ASSIGNORS", "AssignedMember", "assign_range", "assign_uniform"]

Assignment = dict[str, frozenset[IdPartition]]
_Came = dict[str, tuple[str, IdPartition]]  # member -> who would pass it which partition


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member, as an assignor gets it.

    Attributes:
        topic_ids: The ids of the subscribed topics.
        instance_id: The id of a static member.
        partitions: Its target assignment so far.
    """

    topic_ids: frozenset[str]
    instance_id: str | None = None
    partitions: frozenset[IdPartition] = frozenset()


Members = Mapping[str, AssignedMember]


def assign_range(members: Members, topics: Mapping[str, int]) -> Assignment:
    """Assigns contiguous ranges of each topic's partitions (`RangeAssignor` of Kafka's broker).

    Topics with the same subscribers and the same number of partitions are divided in the same way,
    so that members can join them. Static members come first, sorted by instance id: they keep their
    place when they return with another member id.
    """
    order = sorted(members, key=lambda each: _place(each, members[each]))
    found: dict[str, list[IdPartition]] = {member_id: [] for member_id in members}
    for topic_id, count in sorted(topics.items()):
        subscribers = [each for each in order if topic_id in members[each].topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(count, len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + quota + (index < extra)
            found[member_id] += [IdPartition(topic_id, each) for each in range(start, end)]
            start = end
    return {member_id: frozenset(each) for member_id, each in found.items()}


def _place(member_id: str, member: AssignedMember) -> tuple[bool, str]:
    instance_id = member.instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_uniform(members: Members, topics: Mapping[str, int]) -> Assignment:
    """Balances as far as subscriptions allow, with as few moves as possible (`UniformAssignor`).

    In the result, no member has two partitions more than a member that could take one of them,
    directly or through a chain of members.
    """
    balance = _Balance(members, topics)
    if len({member.topic_ids for member in members.values()}) == 1:
        balance.cut_to_quotas()
    balance.fill()
    balance.even_out()
    return {member_id: frozenset(each) for member_id, each in balance.loads.items()}


class _Balance:
    """An assignment under construction. `loads` is always valid, but may not be complete."""

    def __init__(self, members: Members, topics: Mapping[str, int]) -> None:
        self.members = members
        self.topics = topics
        self.order = sorted(members)
        taken: set[IdPartition] = set()
        self.loads: dict[str, set[IdPartition]] = {}
        for member_id in self.order:
            member = members[member_id]
            kept = {
                each
                for each in member.partitions
                if each.topic_id in member.topic_ids
                and each.partition < topics.get(each.topic_id, 0)
            }
            self.loads[member_id] = kept - taken
            taken |= kept
        self.subscribers = {
            topic_id: [each for each in self.order if topic_id in members[each].topic_ids]
            for topic_id in sorted(topics)
        }

    def cut_to_quotas(self) -> None:
        """Removes the surplus of every member at once. It needs equal subscriptions."""
        topic_ids = self.members[self.order[0]].topic_ids
        total = sum(count for topic_id, count in self.topics.items() if topic_id in topic_ids)
        quota, extra = divmod(total, len(self.order))
        for member_id in sorted(self.order, key=lambda each: (-len(self.loads[each]), each)):
            load = self.loads[member_id]
            if len(load) > quota:
                self.loads[member_id] = set(sorted(load)[: quota + (extra > 0)])
                extra -= extra > 0

    def fill(self) -> None:
        """Gives free partitions to the members with the fewest. Topics of few subscribers first."""
        taken = {each for load in self.loads.values() for each in load}
        for topic_id, subscribers in sorted(
            self.subscribers.items(), key=lambda each: (len(each[1]), each[0])
        ):
            heap = [(len(self.loads[each]), each) for each in subscribers]
            heapq.heapify(heap)
            for partition in range(self.topics[topic_id] if heap else 0):
                each = IdPartition(topic_id, partition)
                if each not in taken:
                    load, member_id = heap[0]
                    self.loads[member_id].add(each)
                    heapq.heapreplace(heap, (load + 1, member_id))

    def even_out(self) -> None:
        """Passes partitions on until no chain of members makes the assignment more even.

        The member with the most partitions gives first. If it finds no taker, it settles everybody
        it reaches: none of them has two partitions less than another. No chain leads out of the
        settled members, and later givers have no more partitions than they had, so no later chain
        ends at one of them either. Each member is settled once.
        """
        unsettled = set(self.order)
        while unsettled:
            giver = min(unsettled, key=lambda each: (-len(self.loads[each]), each))
            came, taker = self._taker_for(giver, unsettled)
            if taker is None:
                unsettled -= {giver, *came}
                continue
            for source, target, partition in _path(came, giver, taker):
                self.loads[source].remove(partition)
                self.loads[target].add(partition)

    def _taker_for(self, giver: str, unsettled: Set[str]) -> tuple[_Came, str | None]:
        """The nearest member with at least two partitions less, and how all so far were reached."""
        came: _Came = {}
        queue = deque([giver])
        enough = len(self.loads[giver]) - 2
        searched: set[str] = set()
        while queue:
            source = queue.popleft()
            last = {each.topic_id: each for each in sorted(self.loads[source])}
            new = last.keys() - searched
            searched |= new
            reached = {taker for topic_id in new for taker in self.subscribers[topic_id]}
            near = sorted(
                (reached & unsettled) - came.keys() - {giver},
                key=lambda each: (len(self.loads[each]), each),
            )
            for taker in near:
                offered = [last[each] for each in last if each in self.members[taker].topic_ids]
                came[taker] = source, max(offered)
                if len(self.loads[taker]) <= enough:
                    return came, taker
                queue.append(taker)
        return came, None


def _path(came: _Came, giver: str, taker: str) -> list[tuple[str, str, IdPartition]]:
    path = []
    while taker != giver:
        source, partition = came[taker]
        path.append((source, taker, partition))
        taker = source
    return path


ASSIGNORS: Final[Mapping[str, Callable[[Members, Mapping[str, int]], Assignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
