"""The state machine of one group of KIP-848's protocol, the broker's side (`ConsumerGroup`).

    heartbeat ─> a member joins, or changes its subscription ─> group epoch + 1
                        topics change, members leave ──────────────────┘
                 group epoch > assignment epoch? ─> the assignor ─> targets of that epoch
                 reconciliation.py: moves the member one step to its target
              <─ its epoch, and its partitions if they have changed

    Empty ─> Assigning (the group's epoch is newer) ─> Reconciling ─> Stable

Everything is in heartbeats, so a member gets a new target with its next one. requests.py checks a
request on its own, admission.py checks its sender, and roster.py has the members. The broker
responds to minimal heartbeats and commits, and watches sessions, from the view.

Two things differ from Kafka. A group cannot also have members of the classic protocol. And patterns
are resolved at once, in the first assignment, where Kafka resolves them in another thread.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from thalweg.coordinator.assignors.server import ASSIGNORS
from thalweg.coordinator.kip848 import admission, responses
from thalweg.coordinator.kip848.patterns import PatternError
from thalweg.coordinator.kip848.reconciliation import Current, away, reconcile
from thalweg.coordinator.kip848.requests import (
    JOIN,
    LEAVE_FOR_A_WHILE,
    Refusal,
    is_full,
    not_a_pattern,
    owned,
    validate,
)
from thalweg.coordinator.kip848.roster import (
    ConsumerGroupMember,
    ConsumerRoster,
    Topic,
    Visible,
    all_are_visible,
)
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.states import (
    CONSUMER_GROUP,
    ConsumerGroupState,
    ReconciliationState,
    enter,
)
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    GroupAction,
    GroupEvent,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
    TopicsChanged,
    View,
)
from thalweg.errors import GroupIdNotFoundError

__all__ = ["ConsumerGroup", "ConsumerGroupSettings"]

_S = ConsumerGroupState
_UNREVOKED = ReconciliationState.UNREVOKED_PARTITIONS
_FIRST_EPOCH = 1  # before the first subscription, so that the first assignment has 2, as in Kafka


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The broker's options, under Kafka's names (group.consumer.*), with Kafka's defaults.

    Attributes:
        session_timeout_ms: How long a member may send nothing.
        heartbeat_interval_ms: The interval between the heartbeats of a member.
        assignment_interval_ms: The minimum time between two assignments. A member that joins in
            between waits for the next one.
        max_size: The maximum number of members.
        assignors: Names from assignors.server.ASSIGNORS. The first is the default.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")


class ConsumerGroup:
    """One group. Requests go in, responses and views come out.

    Attributes:
        state: See states.CONSUMER_GROUP.
        epoch: The group epoch. It grows whenever the assignment must be computed again.
        assignment_epoch: The epoch of the current target assignment.
    """

    def __init__(
        self,
        group_id: str,
        settings: ConsumerGroupSettings,
        new_id: Callable[[], str],
        topics: TopicsChanged,
        visible: Visible = all_are_visible,
    ) -> None:
        """Creates an empty group.

        Args:
            group_id: Its name.
            settings: The broker's options.
            new_id: Creates member ids for clients that send none.
            topics: The existing topics.
            visible: Says which topics a member may see through its pattern.
        """
        self.group_id = group_id
        self.settings = settings
        self.state = _S.EMPTY
        self.epoch = _FIRST_EPOCH
        self.assignment_epoch = _FIRST_EPOCH
        self.roster = ConsumerRoster(_topics(topics), visible)
        self._new_id = new_id
        self._assigned_at: float | None = None
        self._exists = False
        self._view: View | None = None

    # ------------------------------------------------------------------ in and out

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """Handles an event. Returns the actions to do, in order."""
        match event:
            case Arrived():
                replies: list[GroupAction] = [Reply(event.token, self._response(event, now))]
            case Deleted() if not self.roster.members:
                self._move(_S.DEAD)
                return [Forget()]
            case _:
                self._happened(event, now)
                replies = []
        if not self._exists:
            return [*replies, Forget()]
        return [*self._settle(), *replies]

    def next_deadline(self) -> float | None:
        """Returns when the next member is fenced because it does not give up its partitions."""
        times = (each.revoke_by for each in self.roster.members.values())
        return min((each for each in times if each is not None), default=None)

    def describe(self) -> dict[str, Any]:
        """Returns the group's row in ConsumerGroupDescribe."""
        return responses.description(self)

    def _response(self, request: Arrived, now: float) -> dict[str, Any]:
        try:
            validate(request.version, request.body, self.settings.assignors)
            if request.body["MemberEpoch"] < JOIN:
                return self._leave(request.body)
            return self._heartbeat(request, now)
        except Refusal as refusal:
            return responses.refused(refusal.kind.errno, refusal.message)

    def _happened(self, event: GroupEvent, now: float) -> None:
        match event:
            case SessionExpired(member_id=member_id) if member_id in self.roster.members:
                self._remove(member_id)
            case TopicsChanged() if self.roster.replace_topics(_topics(event)):
                self.epoch += 1
            case Ticked():
                for member in list(self.roster.members.values()):
                    if member.revoke_by is not None and member.revoke_by <= now:
                        self._remove(member.member_id)

    def _settle(self) -> list[GroupAction]:
        """Updates the state from epochs and members. Returns the view if it has changed."""
        state = self._state_now()
        if state is not self.state:
            self._move(state)
        view = responses.view(self)
        if view == self._view:
            return []
        self._view = view
        return [Publish(view)]

    def _state_now(self) -> ConsumerGroupState:
        if not self.roster.members:
            return _S.EMPTY
        if self.epoch > self.assignment_epoch:
            return _S.ASSIGNING
        if all(self.is_reconciled(each) for each in self.roster.members.values()):
            return _S.STABLE
        return _S.RECONCILING

    def _move(self, state: ConsumerGroupState) -> None:
        self.state = enter(CONSUMER_GROUP, self.state, state)

    # ------------------------------------------------------------------ a heartbeat

    def _heartbeat(self, request: Arrived, now: float) -> dict[str, Any]:
        body = request.body
        before = self._speaker(request)
        member = self._told(before, request)
        # Nothing has changed so far. After this line, nothing is refused.
        self._exists = True
        resubscribed = (before.topics, before.regex, before.matching) != (
            member.topics,
            member.regex,
            member.matching,
        )
        self.epoch += resubscribed
        self.roster.put(member)
        self._assign(now)
        member = self._reconcile(member, owned(body), resubscribed, now)
        told = None
        if is_full(body) or member.current.assigned != before.current.assigned:
            told = member.current.assigned
        interval_ms = self.settings.heartbeat_interval_ms
        return responses.heartbeat(member.member_id, member.current.epoch, interval_ms, told)

    def _speaker(self, request: Arrived) -> ConsumerGroupMember:
        """Returns the member that sent the request, or a new one if it joins."""
        member_id = request.body["MemberId"]
        if not self._exists and request.body["MemberEpoch"] != JOIN:
            text = f"Consumer group {self.group_id} not found."
            raise Refusal(GroupIdNotFoundError, text)
        admission.check_size(self.roster, member_id, self.settings.max_size)
        member = admission.find(self.group_id, self.roster, request.body)
        if member is None:
            chosen = member_id or self._new_id()
            return ConsumerGroupMember(
                chosen, request.client_id, request.client_host, request.principal
            )
        # A static member returns and, with version 0, has no member id: the broker chooses it.
        return member if member.member_id else replace(member, member_id=self._new_id())

    def _told(self, member: ConsumerGroupMember, request: Arrived) -> ConsumerGroupMember:
        told = member.told(request)
        if (told.regex, told.principal) == (member.regex, member.principal):
            return told
        try:
            return replace(told, matching=self.roster.matching(told))
        except PatternError as error:
            raise not_a_pattern(told.regex, error) from error

    # ------------------------------------------------------------------ assignment

    def preferred_assignor(self) -> str:
        """Returns the assignor that most members ask for. Of equals: the first in the options."""
        votes = Counter(each.assignor for each in self.roster.members.values() if each.assignor)
        return max(self.settings.assignors, key=lambda name: votes[name])

    def _assign(self, now: float) -> None:
        """Computes the assignment if it is out of date and the last one is old enough."""
        if self.epoch == self.assignment_epoch:
            return
        interval_ms = self.settings.assignment_interval_ms
        if self._assigned_at is not None and now < self._assigned_at + interval_ms:
            return
        topics = {each.topic_id: each.partitions for each in self.roster.subscribed().values()}
        assign = ASSIGNORS[self.preferred_assignor()]
        self.roster.targets = assign(self.roster.for_assignor(), topics)
        self.assignment_epoch = self.epoch
        self._assigned_at = now

    def _reconcile(
        self,
        member: ConsumerGroupMember,
        reported: frozenset[IdPartition] | None,
        resubscribed: bool,
        now: float,
    ) -> ConsumerGroupMember:
        current = self.next_position(member, reported, resubscribed)
        if current == member.current:
            return member
        revoke_by = now + member.rebalance_timeout_ms if current.state is _UNREVOKED else None
        member = replace(member, current=current, revoke_by=revoke_by)
        self.roster.put(member)
        return member

    def next_position(
        self,
        member: ConsumerGroupMember,
        reported: frozenset[IdPartition] | None = None,
        resubscribed: bool = False,
    ) -> Current:
        """Returns the position of a member after a heartbeat that reports these partitions."""
        return reconcile(
            member.current,
            self.roster.target(member, self.assignment_epoch),
            reported,
            lambda each: self.roster.is_free(each, member.member_id),
            resubscribed,
        )

    def is_reconciled(self, member: ConsumerGroupMember) -> bool:
        """Whether a member has reached its target."""
        current = member.current
        return (
            current.state is ReconciliationState.STABLE and current.epoch == self.assignment_epoch
        )

    # ------------------------------------------------------------------ leaving

    def _leave(self, body: Mapping[str, Any]) -> dict[str, Any]:
        member_id, epoch = body["MemberId"], body["MemberEpoch"]
        if not self._exists:
            raise Refusal(GroupIdNotFoundError, f"Group {self.group_id} not found.")
        member = admission.known(self.group_id, self.roster, body)
        if epoch == LEAVE_FOR_A_WHILE:
            self.roster.put(replace(member, current=away(member.current), revoke_by=None))
        else:
            self._remove(member.member_id)
        return responses.heartbeat(member_id, epoch, 0, None)

    def _remove(self, member_id: str) -> None:
        self.roster.remove(member_id)
        self.epoch += 1


def _topics(event: TopicsChanged) -> dict[str, Topic]:
    return {
        name: Topic(event.ids[name], count)
        for name, count in event.partitions.items()
        if name in event.ids
    }
