"""A member's rebalances: the reasons to join again, and the order of callbacks.

    turn ─┬─> the membership was lost: Lose
          ├─> response to SyncGroup (onJoinComplete): Revoke, Assign
          └─> a rebalance is needed (onJoinPrepare): Revoke ──> is_ready for JoinGroup

Turns are in the application's thread, because callbacks run there: one with Polled, and one more
each time that callbacks are done.

If the membership ends (`is_member` is False) while the member owns partitions, these are lost:
other members may own them, so nothing is committed.
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

_IDLE: Final = frozenset({MemberState.UNJOINED, MemberState.STABLE})  # no rebalance in progress


class Rebalance:
    """The rebalance that is in progress, or is needed.

    Attributes:
        owned: The partitions that the application owns.
        topics: The subscribed topics. None: not subscribed.
        reason: Why the member must join again, if known.
        synced: A new assignment that the application does not have yet.
        is_prepared: Whether the callbacks before JoinGroup are done.
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
        """Whether the member owns partitions although its membership has ended."""
        return not self._conversation.is_member and bool(self.owned.partitions)

    def needed(self, state: MemberState) -> str | None:
        """Returns the reason to join, or None. None also while a rebalance is in progress."""
        if state not in _IDLE:
            return None
        if self.reason is not None:
            return self.reason
        if state is MemberState.UNJOINED:
            return "the consumer joins"
        # Usually they are the same object: check this first, as it is fast.
        if self.topics is not self._joined_topics and self.topics != self._joined_topics:
            return "the subscription has changed"
        if self._leader.is_outdated():
            return "topics of the group have changed"
        return None

    def is_ready(self, state: MemberState) -> bool:
        """Whether all callbacks before JoinGroup are done."""
        waits = self.synced is not None or self.is_lost()
        return state in _IDLE and self.topics is not None and self.is_prepared and not waits

    def turn(self, state: MemberState) -> list[MemberAction]:
        """Does the next step for partitions. Returns its callbacks, if any."""
        if self.topics is None:
            return []
        if self.is_lost():
            return self.owned.given_up(lost=True)
        if self.synced is not None and (callbacks := self._take(self.synced)):
            return callbacks
        # Also if the assignment was not accepted: nothing else would start the next join.
        reason = self.needed(state)
        if reason is None:
            return []
        self.reason = reason
        return [] if self.is_prepared else self._prepare()

    def protocols(self, rack: str | None) -> list[dict[str, Any]]:
        """Returns the Protocols of a JoinGroup. A later change of topics needs another join.

        Raises:
            KafkaError: If an assignor raises.
        """
        self._joined_topics = self.topics or frozenset()
        generation = self._conversation.generation
        return self._assignors.said(self._joined_topics, self.owned.partitions, generation, rack)

    def completed(self, given: Assignment) -> None:
        """Takes the response to SyncGroup. The next turn runs its callbacks."""
        self.synced = given
        self.reason = None

    def reset(self, reason: str) -> None:
        """Called when the membership has ended.

        `is_prepared` stays, so that a reset in the middle of a rebalance runs no callback twice.
        """
        self.synced = None
        self.reason = reason

    def _prepare(self) -> list[MemberAction]:
        """Gives up partitions before JoinGroup. Outside the group there are none."""
        self.is_prepared = True
        if not self._conversation.is_member:
            return []
        return self.owned.before_join(self.topics or frozenset())

    def _take(self, given: Assignment) -> list[MemberAction]:
        """Takes the assignment after SyncGroup. Returns no callbacks if it is not accepted."""
        self.synced = None
        self.is_prepared = False
        if any(each.topic not in (self.topics or ()) for each in given.assigned_partitions):
            # It is for an older subscription: join again, with the partitions owned now.
            self.reason = "the assignment is for an older subscription"
            return []
        actions: list[MemberAction] = []
        conversation = self._conversation
        try:
            self._assignors.tell(conversation.protocol, given, conversation.generation)
        except KafkaError as error:
            actions.append(Raise(error))  # the member still gets its partitions
        callbacks = self.owned.assigned(given.assigned_partitions)
        if any(isinstance(each, Revoke) for each in callbacks):
            # Other members get them only after this member has joined without them.
            self.reason = "partitions were revoked"
        return actions + callbacks
