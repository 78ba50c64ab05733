"""The leader of a classic group: knows the group's topics, and has an assignor decide.

JoinGroup answer ── elected() ──> topics unknown? watch() ... TopicsChanged ──> decide()
TopicsChanged ────> is_outdated(): the topics differ from those of its last decision
"""

from collections.abc import Mapping
from typing import Any

from thalweg.coordinator.assignors.abstract import Member
from thalweg.coordinator.assignors.calls import joined
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.classic.assigning import Assignors

__all__ = ["Leader"]


class Leader:
    """What a member knows and does as the leader; idle while it is a follower.

    Attributes:
        known: All topics that this consumer knows of.
        watched: Topics of the group that the driver was asked to look at.
    """

    def __init__(self) -> None:
        self.known = TopicsOfGroup({}, {})
        self.watched: frozenset[str] = frozenset()
        self._members: list[Member] | None = None  # until decided
        self._skip = False
        # What the decision was made of: the group's topics, and what was known of them.
        self._decided: tuple[frozenset[str], TopicsOfGroup] | None = None
        self._agrees_with: TopicsOfGroup | None = None  # asked in each poll: compared once

    def elected(self, body: Mapping[str, Any]) -> None:
        """Takes the members out of a JoinGroup answer.

        Raises:
            KafkaProtocolError: If a member's subscription is none.
        """
        self._members = joined(body["Members"])
        # A static leader that is back finds the assignment in place (KIP-814). As in Java it
        # cannot tell what topics that was made of: a change while it was away shows with the next.
        self._skip = bool(body.get("SkipAssignment"))

    def resign(self) -> None:
        """A rebalance begins, or the membership is lost."""
        self._members = self._decided = None

    @property
    def is_deciding(self) -> bool:
        """Whether it was elected and has not decided."""
        return self._members is not None

    def watch(self) -> bool:
        """Whether topics must be looked at first; what is unknown after that does not exist."""
        topics = self._topics()
        if topics == self.watched or all(each in self.known for each in topics):
            return False
        self.watched = topics
        return True

    def decide(self, assignors: Assignors, protocol: str) -> list[dict[str, Any]]:
        """The Assignments of SyncGroup.

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
        """Whether it would decide about other topics, or other numbers of partitions, today."""
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
