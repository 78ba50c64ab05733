"""Who owned what: what members of a sticky group say they had, made free of contradictions.

Each member claims partitions and says in which generation it had them (KIP-341, KIP-792). Of two
claims to a partition the newer one holds; of two claims of one generation neither, and neither
keeps it.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from thalweg.coordinator.assignors._group import Group
from thalweg.coordinator.assignors.abstract import Member
from thalweg.structs import TopicPartition

NO_GENERATION: Final = -1


class Claim(NamedTuple):
    """What one member says.

    Attributes:
        partitions: What it had.
        generation: When; None if it does not say.
    """

    partitions: list[TopicPartition]
    generation: int | None = None


class Claims(NamedTuple):
    """What all members say.

    Attributes:
        owned: {member id: partitions that exist and that are its own}, for every member.
        contested: Partitions that two members of one generation claimed.
        outdated: {partition: who had it last}, of claims older than the newest generation.
    """

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]
    outdated: dict[TopicPartition, str]


def claims_of(group: Group, read: Callable[[Member], Claim]) -> Claims:
    """What the members of a group claim.

    Args:
        group: The group.
        read: Finds what a member claims in its subscription.
    """
    claims = {each: read(member) for each, member in group.members.items()}
    settled = _Settled(group)
    for member, claim in claims.items():
        settled.add(member, claim)
    return Claims(settled.owned, settled.contested, _outdated(claims))


class _Settled:
    """Claims settled one after the other."""

    def __init__(self, group: Group) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}
        self.contested: set[TopicPartition] = set()
        self._group = group
        self._last: dict[TopicPartition, str] = {}

    def add(self, member: str, claim: Claim) -> None:
        """Takes one member's claim."""
        self.owned[member] = []
        generation = _number(claim.generation)
        for partition in claim.partitions:
            # Java checks the topic only, and goes astray over partitions that a topic lost.
            if not 0 <= partition.partition < self._group.topics.get(partition.topic, 0):
                continue
            other = self._last.get(partition)
            # The other one's generation is that of its subscription, also where its claim, in
            # the user data of the eager sticky assignor, has one of its own. As Java has it.
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
    """The newest of the claims that are older than the newest generation of all."""
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
