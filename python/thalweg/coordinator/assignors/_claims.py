"""Claims: the partitions that members of a sticky group say they had, without contradictions.

Each member claims partitions, and the generation in which it had them (KIP-341, KIP-792). Of two
claims to a partition, the newer one counts. If both are of the same generation, neither counts, and
neither member keeps the partition.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from thalweg.coordinator.assignors._group import Group
from thalweg.coordinator.assignors.abstract import Member
from thalweg.structs import TopicPartition

NO_GENERATION: Final = -1


class Claim(NamedTuple):
    """The claim of one member.

    Attributes:
        partitions: The partitions that it had.
        generation: The generation in which it had them. None: unknown.
    """

    partitions: list[TopicPartition]
    generation: int | None = None


class Claims(NamedTuple):
    """The claims of all members.

    Attributes:
        owned: {member id: existing partitions that it owns}, for every member.
        contested: Partitions that two members of one generation claim.
        outdated: {partition: its last owner}, from claims older than the newest generation.
    """

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]
    outdated: dict[TopicPartition, str]


def claims_of(group: Group, read: Callable[[Member], Claim]) -> Claims:
    """Returns the claims of the members of a group.

    Args:
        group: The group.
        read: Reads the claim of a member from its subscription.
    """
    claims = {each: read(member) for each, member in group.members.items()}
    settled = _Settled(group)
    for member, claim in claims.items():
        settled.add(member, claim)
    return Claims(settled.owned, settled.contested, _outdated(claims))


class _Settled:
    """The owned and contested partitions, as claims are added one by one."""

    def __init__(self, group: Group) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}
        self.contested: set[TopicPartition] = set()
        self._group = group
        self._last: dict[TopicPartition, str] = {}

    def add(self, member: str, claim: Claim) -> None:
        """Adds the claim of a member."""
        self.owned[member] = []
        generation = _number(claim.generation)
        for partition in claim.partitions:
            # Java checks only the topic. It fails if a topic has fewer partitions than before.
            if not 0 <= partition.partition < self._group.topics.get(partition.topic, 0):
                continue
            other = self._last.get(partition)
            # As in Java, the other member's generation is that of its subscription, even if its
            # claim (the user data of the eager sticky assignor) has a generation.
            if other is None or generation > self._subscribed_in(other):
                self._take(partition, member, other)
                self.owned[member].append(partition)
            elif generation == self._subscribed_in(other):
                self._take(partition, member, other)
                self.contested.add(partition)

    def _subscribed_in(self, member: str) -> int:
        return max(self._group.members[member].metadata.generation_id, NO_GENERATION)

    def _take(self, partition: TopicPartition, member: str, other: str | None) -> None:
        if other is not None and partition in self.owned[other]:
            self.owned[other].remove(partition)
        self._last[partition] = member


def _number(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation


def _outdated(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Returns, for each partition, the newest claim that is older than the newest generation."""
    newest = max([NO_GENERATION, *(_number(each.generation) for each in claims.values())])
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member, claim in claims.items():
        generation = _number(claim.generation)
        if generation >= newest:
            continue
        for partition in claim.partitions:
            if partition not in found or generation > found[partition][0]:
                found[partition] = (generation, member)
    return {partition: member for partition, (_, member) in found.items()}
