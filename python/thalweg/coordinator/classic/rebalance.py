"""A member's rebalances, the application's side: why it joins again, and what it is told when.

    turn ─┬─> the membership was lost: Lose
          ├─> SyncGroup is answered (onJoinComplete): Revoke, Assign
          └─> a rebalance is needed (onJoinPrepare): Revoke ──> is_ready for JoinGroup

Turns are in the application's thread, as callbacks run there: one with Polled, and one more each
time that callbacks are done.

A membership that was lost (`is_member` no more) while partitions are still owned makes them lost:
they may be somebody else's, so nothing is committed any more.
"""

from typing import Any, Final

from thalweg.coordinator.classic.assigning import Assignors
from thalweg.coordinator.classic.conversation import Conversation
from thalweg.coordinator.classic.leader import Leader
from thalweg.coordinator.classic.ownership import Ownership
from thalweg.coordinator.protocol import Assignment
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import MemberAction, Raise, Revoke
from thalweg.errors import KafkaError

__all__ = ["Rebalance"]

_IDLE: Final = frozenset({MemberState.UNJOINED, MemberState.STABLE})  # none is under way


class Rebalance:
    """The one that runs, or is needed.

    Attributes:
        owned: What the application has.
        topics: What it is subscribed to; None: nothing.
        reason: Why the member joins again, if that was said.
        synced: The assignment, until it is told.
        is_prepared: Whether what comes before JoinGroup was told.
    """

    def __init__(self, assignors: Assignors, leader: Leader, conversation: Conversation) -> None:
        self.owned = Ownership(assignors.cooperative)
        self.topics: frozenset[str] | None = None
        self.reason: str | None = None
        self.synced: Assignment | None = None
        self.is_prepared = False
        self._assignors = assignors
        self._leader = leader
        self._conversation = conversation
        self._joined_topics: frozenset[str] = frozenset()

    def is_lost(self) -> bool:
        """Whether partitions are owned of a membership that has ended."""
        return not self._conversation.is_member and bool(self.owned.partitions)

    def needed(self, state: MemberState) -> str | None:
        """Why to join, if there is a reason and none is under way."""
        if state not in _IDLE:
            return None
        if self.reason is not None:
            return self.reason
        if state is MemberState.UNJOINED:
            return "the consumer joins"
        # Mostly they are the same object, which is compared at once.
        if self.topics is not self._joined_topics and self.topics != self._joined_topics:
            return "the subscription has changed"
        if self._leader.is_outdated():
            return "topics of the group have changed"
        return None

    def is_ready(self, state: MemberState) -> bool:
        """Whether the application was told all that it must hear before JoinGroup."""
        waits = self.synced is not None or self.is_lost()
        return state in _IDLE and self.topics is not None and self.is_prepared and not waits

    def turn(self, state: MemberState) -> list[MemberAction]:
        """One thing that concerns partitions: the callbacks for it, if there are any."""
        if self.topics is None:
            return []
        if self.is_lost():
            return self.owned.given_up(lost=True)
        if self.synced is not None and (callbacks := self._take(self.synced)):
            return callbacks
        # Also if what was synced is not taken: nothing else would bring the next join on.
        reason = self.needed(state)
        if reason is None:
            return []
        self.reason = reason
        return [] if self.is_prepared else self._prepare()

    def protocols(self, rack: str | None) -> list[dict[str, Any]]:
        """Those of a JoinGroup; from now on another subscription makes the member join again.

        Raises:
            KafkaError: If an assignor raises.
        """
        self._joined_topics = self.topics or frozenset()
        generation = self._conversation.generation
        return self._assignors.said(self._joined_topics, self.owned.partitions, generation, rack)

    def completed(self, given: Assignment) -> None:
        """SyncGroup is answered; the next turn tells."""
        self.synced = given
        self.reason = None

    def reset(self, reason: str) -> None:
        """The membership has ended.

        What comes before JoinGroup stays done, so that a reset in the middle of a rebalance runs
        no callbacks twice.
        """
        self.synced = None
        self.reason = reason

    def _prepare(self) -> list[MemberAction]:
        """Before JoinGroup; out of the group there is nothing to give up."""
        self.is_prepared = True
        if not self._conversation.is_member:
            return []
        return self.owned.before_join(self.topics or frozenset())

    def _take(self, given: Assignment) -> list[MemberAction]:
        """After SyncGroup; no callbacks if the assignment is not taken."""
        self.synced = None
        self.is_prepared = False
        if any(each.topic not in (self.topics or ()) for each in given.assigned_partitions):
            # Of an older subscription: join again, with what is owned meanwhile.
            self.reason = "the assignment is not of the present subscription"
            return []
        actions: list[MemberAction] = []
        conversation = self._conversation
        try:
            self._assignors.tell(conversation.protocol, given, conversation.generation)
        except KafkaError as error:
            actions.append(Raise(error))  # the partitions are this member's all the same
        callbacks = self.owned.assigned(given.assigned_partitions)
        if any(isinstance(each, Revoke) for each in callbacks):
            # Nobody is given them before this member has joined without them.
            self.reason = "partitions were revoked"
        return actions + callbacks
