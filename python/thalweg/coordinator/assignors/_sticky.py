"""The base of both sticky assignors (Java's AbstractStickyAssignor).

They keep the partitions that members had, as far as the balance allows. Java's class also remembers
the newest generation that it has seen. That would only differ if the generations of a group
decreased.
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
    """The result of a sticky assignment.

    Attributes:
        assigned: {member id: its partitions}.
        moving: {partition: its new member} of partitions that another member must give up first.
            None if the algorithm did not compute it.
    """

    assigned: Assigned
    moving: Mapping[TopicPartition, str] | None


class AbstractStickyAssignor(BuiltInAssignor):
    """Base class of both sticky assignors. They differ in where a member's claim is."""

    @abstractmethod
    def claim(self, member: Member) -> Claim:
        """Returns the partitions that a member had, and in which generation."""

    def assign_sticky(self, group: Group) -> StickyResult:
        """Assigns the partitions of a group."""
        claims = claims_of(group, self.claim)
        racks = Racks(group.members.values(), group.racks)
        if not self._want_the_same(group):
            return StickyResult(GeneralAssignment(group, racks, claims).build(), None)
        constrained = ConstrainedAssignment(group, racks, claims)
        return StickyResult(constrained.build(), constrained.moving)

    def _want_the_same(self, group: Group) -> bool:
        """Whether all members want the same topics.

        Java overlooks members without topics if they come first, and then fails.
        """
        return len({frozenset(each.metadata.topics) for each in group.members.values()}) == 1
