"""What both sticky assignors do: keep what members have, as far as the balance allows.

Java's AbstractStickyAssignor. It starts over with each assignment, where Java's remembers the
newest generation that it ever saw; that would only differ if a group's generations went back.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from thalweg.coordinator.assignors._claims import Claim, claims_of
from thalweg.coordinator.assignors._constrained import ConstrainedAssignment
from thalweg.coordinator.assignors._general import GeneralAssignment
from thalweg.coordinator.assignors._group import Assigned, BuiltInAssignor, Group
from thalweg.coordinator.assignors._racks import Racks
from thalweg.coordinator.assignors.abstract import Member
from thalweg.structs import TopicPartition


class StickyResult(NamedTuple):
    """An assignment.

    Attributes:
        assigned: {member id: its partitions}.
        moving: {partition: who gets it} of partitions that somebody else has to give up first;
            None if that was not found along the way.
    """

    assigned: Assigned
    moving: Mapping[TopicPartition, str] | None


class AbstractStickyAssignor(BuiltInAssignor):
    """Base class of both; `claim` is where they find what a member had."""

    @abstractmethod
    def claim(self, member: Member) -> Claim:
        """What a member had, and in which generation."""

    def assign_sticky(self, group: Group) -> StickyResult:
        """Assigns a group's partitions."""
        claims = claims_of(group, self.claim)
        racks = Racks(group.members.values(), group.racks)
        if not self._want_the_same(group):
            return StickyResult(GeneralAssignment(group, racks, claims).build(), None)
        constrained = ConstrainedAssignment(group, racks, claims)
        return StickyResult(constrained.build(), constrained.moving)

    def _want_the_same(self, group: Group) -> bool:
        """Java overlooks members that want nothing if it comes to them first, and goes astray."""
        return len({frozenset(each.metadata.topics) for each in group.members.values()}) == 1
