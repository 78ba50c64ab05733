"""The leader of a classic group: finds the group's topics, and runs the assignor.

JoinGroup response ── elected() ──> topics unknown? watch() ... TopicsChanged ──> decide()
TopicsChanged ────> is_outdated(): the topics differ from those of the last assignment
"""

from collections.abc import Mapping
from typing import Any

from thalweg.coordinator.assignors.abstract import Member
from thalweg.coordinator.assignors.calls import joined
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.classic.assigning import Assignors

__all__ = ["Leader"]


class Leader:
    """The state of a member as the leader. It is idle while the member is a follower.

    Attributes:
        known: All topics whose metadata this consumer has.
        watched: Topics of the group that the driver was asked to look up.
    """

    def __init__(self) -> None:
        self.known = TopicsOfGroup({}, {})
        self.watched: frozenset[str] = frozenset()
        self._members: list[Member] | None = None  # None after the assignment
        self._skip = False
        # The input of the last assignment: the group's topics, and their metadata.
        self._decided: tuple[frozenset[str], TopicsOfGroup] | None = None
        self._agrees_with: TopicsOfGroup | None = None  # `known` at the last comparison

    def elected(self, body: Mapping[str, Any]) -> None:
        """Takes the members from a JoinGroup response.

        Raises:
            KafkaProtocolError: If a member's subscription cannot be read.
        """
        self._members = joined(body["Members"])
        # For a returning static leader the assignment already exists (KIP-814). As in Java, it
        # does not know which topics that assignment is for: it notices a change of topics during
        # its absence only with the next change.
        self._skip = bool(body.get("SkipAssignment"))

    def resign(self) -> None:
        """Called when a rebalance begins, or the membership is lost."""
        self._members = self._decided = None

    @property
    def is_deciding(self) -> bool:
        """Whether it was elected, and has not made the assignment yet."""
        return self._members is not None

    def watch(self) -> bool:
        """Whether topics must be looked up first. Topics that are still unknown do not exist."""
        topics = self._topics()
        if topics == self.watched or all(each in self.known for each in topics):
            return False
        self.watched = topics
        return True

    def decide(self, assignors: Assignors, protocol: str) -> list[dict[str, Any]]:
        """Returns the Assignments of SyncGroup.

        Raises:
            KafkaError: If the assignor raises.
        """
        members, topics = self._members or [], self._topics()
        self._members = None
        known = self.known.only(topics)
        self._decided = topics, known
        self._agrees_with = self.known
        return [] if self._skip else assignors.decide(protocol, known, members)

    def is_outdated(self) -> bool:
        """Whether the topics of the last assignment, or their partitions, have changed."""
        if self._decided is None or self.known is self._agrees_with:
            return False
        topics, known = self._decided
        if known != self.known.only(topics):
            return True
        self._agrees_with = self.known
        return False

    def _topics(self) -> frozenset[str]:
        members = self._members or ()
        return frozenset(topic for each in members for topic in each.metadata.topics)
