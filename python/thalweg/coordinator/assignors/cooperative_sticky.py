"""The cooperative sticky assignor (`CooperativeStickyAssignor`, KIP-429).

Members keep reading while they join, so a partition must not move directly to another member:

    A has p0 p1 p2, and B joins
    first assignment     A: p0 p1    B:       p2 should move, so neither A nor B gets it yet
    A revokes p2 and therefore joins again
    second assignment    A: p0 p1    B: p2
"""

import struct
from collections.abc import Sequence

from thalweg.coordinator.assignors._claims import NO_GENERATION, Claim
from thalweg.coordinator.assignors._group import Assigned, Group
from thalweg.coordinator.assignors._sticky import AbstractStickyAssignor
from thalweg.coordinator.assignors.abstract import Member, RebalanceProtocol
from thalweg.coordinator.protocol import Assignment
from thalweg.structs import TopicPartition

__all__ = ["CooperativeStickyAssignor"]


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """Assigns as the sticky assignor, but moves a partition only after its owner gave it up."""

    name = "cooperative-sticky"

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def supported_protocols(self) -> Sequence[RebalanceProtocol]:
        """Returns both protocols, so that a group can change to this assignor member by member."""
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def claim(self, member: Member) -> Claim:
        """Reads the claim from the subscription, or an older member's generation from user data."""
        said = member.metadata
        if said.generation_id >= 0:
            return Claim(said.owned_partitions, said.generation_id)
        if said.user_data is None:
            return Claim(said.owned_partitions)
        if len(said.user_data) < 4:
            return Claim(said.owned_partitions, NO_GENERATION)
        return Claim(said.owned_partitions, struct.unpack(">i", said.user_data[:4])[0])

    def assign_group(self, group: Group) -> Assigned:
        """Returns {member id: its partitions}."""
        assigned, moving = self.assign_sticky(group)
        if moving is None:
            moving = _moving(group, assigned)
        return {
            member: [each for each in found if moving.get(each) != member]
            for member, found in assigned.items()
        }

    def user_data(self) -> bytes:
        """Returns the generation, for leaders that do not know the field of the subscription."""
        return struct.pack(">i", self._generation)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remembers the generation."""
        self._generation = generation


def _moving(group: Group, assigned: Assigned) -> dict[TopicPartition, str]:
    """Returns {partition: its new member} of partitions that another member gives up."""
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member, found in assigned.items():
        owned = set(group.members[member].metadata.owned_partitions)
        added.update((each, member) for each in found if each not in owned)
        given_up |= owned.difference(found)
    return {each: member for each, member in added.items() if each in given_up}
