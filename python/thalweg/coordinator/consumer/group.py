"""One group of KIP-848's protocol, the broker's side (`ConsumerGroup` and what moves it in Kafka).

    heartbeat ─> a member comes, or subscribes to something else ─> group epoch + 1
                        topics change, members go ──────────────────────┘
                 group epoch > assignment epoch? ─> the assignor ─> targets of that epoch
                 reconciliation.py: the member one step nearer to its target
              <─ its epoch, and what it may read if that has changed

    Empty ─> Assigning (the group's epoch is ahead) ─> Reconciling ─> Stable

All is said in heartbeats, so a member learns of a new target with its next one. What is checked
of a request alone is requests.py, who may speak is admission.py, the members are roster.py. Plain
heartbeats, session deadlines and commits are answered elsewhere, by what the view says.

What is deliberately absent: members of the classic protocol in the same group; the delay of
patterns, which Kafka resolves in another thread: here they are in the first assignment.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from thalweg.coordinator.assignors.server import ASSIGNORS
from thalweg.coordinator.consumer import admission, answers
from thalweg.coordinator.consumer.patterns import PatternError
from thalweg.coordinator.consumer.reconciliation import Current, away, reconcile
from thalweg.coordinator.consumer.requests import (
    JOIN,
    LEAVE_FOR_A_WHILE,
    Refusal,
    is_full,
    not_a_pattern,
    owned,
    validate,
)
from thalweg.coordinator.consumer.roster import ConsumerGroupMember, ConsumerRoster, Topic
from thalweg.coordinator.consumer.topic_ids import IdPartition
from thalweg.coordinator.states import (
    CONSUMER_GROUP,
    ConsumerGroupState,
    ReconciliationState,
    move,
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
_FIRST_EPOCH = 1  # of a group that nobody has subscribed in; Kafka's first assignment has epoch 2


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The broker's options, under Kafka's names (group.consumer.*), with Kafka's defaults.

    Attributes:
        session_timeout_ms: How long a member may be silent.
        heartbeat_interval_ms: How often members are to be heard.
        assignment_interval_ms: How often an assignment is computed, at most: who comes meanwhile
            waits for the next one.
        max_size: Members of one group.
        assignors: Names, out of assignors.server.ASSIGNORS; the first is the default.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")


class ConsumerGroup:
    """One group. Requests go in, answers and views come out.

    Attributes:
        state: See states.CONSUMER_GROUP.
        epoch: Grows whenever the assignment has to be computed anew.
        assignment_epoch: Of the assignment that members are on their way to.
    """

    def __init__(
        self,
        group_id: str,
        settings: ConsumerGroupSettings,
        new_id: Callable[[], str],
        topics: TopicsChanged,
    ) -> None:
        """Makes an empty group; `new_id` makes whole member ids, for clients that have none."""
        self.group_id = group_id
        self.settings = settings
        self.state = _S.EMPTY
        self.epoch = _FIRST_EPOCH
        self.assignment_epoch = _FIRST_EPOCH
        self.roster = ConsumerRoster(_topics(topics))
        self._new_id = new_id
        self._assigned_at: float | None = None
        self._exists = False
        self._view: View | None = None

    # ------------------------------------------------------------------ in and out

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """Takes an event; what is to be done, in this order."""
        match event:
            case Arrived():
                replies: list[GroupAction] = [Reply(event.token, self._answer(event, now))]
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
        """When the next member is fenced that does not give up what it must."""
        times = (each.revoke_by for each in self.roster.members.values())
        return min((each for each in times if each is not None), default=None)

    def describe(self) -> dict[str, Any]:
        """The group's row of a ConsumerGroupDescribe answer."""
        return answers.description(self)

    def _answer(self, request: Arrived, now: float) -> dict[str, Any]:
        try:
            validate(request.version, request.body, self.settings.assignors)
            if request.body["MemberEpoch"] < JOIN:
                return self._leave(request.body)
            return self._heartbeat(request, now)
        except Refusal as refusal:
            return answers.refused(refusal.kind.errno, refusal.message)

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
        """The state that follows from epochs and members, and the view if it is another one."""
        state = self._state_now()
        if state is not self.state:
            self._move(state)
        view = answers.view(self)
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
        self.state = move(CONSUMER_GROUP, self.state, state)

    # ------------------------------------------------------------------ a heartbeat

    def _heartbeat(self, request: Arrived, now: float) -> dict[str, Any]:
        body = request.body
        before = self._speaker(request)
        member = self._told(before, request)
        # Nothing was changed so far; from here on nothing is refused.
        self._exists = True
        resubscribed = (before.topics, before.regex) != (member.topics, member.regex)
        self.epoch += resubscribed
        self.roster.put(member)
        self._assign(now)
        member = self._reconcile(member, owned(body), resubscribed, now)
        told = None
        if is_full(body) or member.current.assigned != before.current.assigned:
            told = member.current.assigned
        interval_ms = self.settings.heartbeat_interval_ms
        return answers.heartbeat(member.member_id, member.current.epoch, interval_ms, told)

    def _speaker(self, request: Arrived) -> ConsumerGroupMember:
        """The member that says this; a new one if it joins."""
        member_id = request.body["MemberId"]
        if not self._exists and request.body["MemberEpoch"] != JOIN:
            text = f"Consumer group {self.group_id} not found."
            raise Refusal(GroupIdNotFoundError, text)
        admission.check_size(self.roster, member_id, self.settings.max_size)
        member = admission.find(self.group_id, self.roster, request.body)
        if member is None:
            chosen = member_id or self._new_id()
            return ConsumerGroupMember(chosen, request.client_id, request.client_host)
        # A static member in the place of the one that is away, by the old broker's naming.
        return member if member.member_id else replace(member, member_id=self._new_id())

    def _told(self, member: ConsumerGroupMember, request: Arrived) -> ConsumerGroupMember:
        told = member.told(request.body, request.client_id, request.client_host)
        if told.regex == member.regex:
            return told
        try:
            return replace(told, matching=self.roster.matching(told.regex))
        except PatternError as error:
            raise not_a_pattern(told.regex, error) from error

    # ------------------------------------------------------------------ assignment

    def preferred_assignor(self) -> str:
        """The one that most members ask for; among equals the first of the broker's list."""
        votes = Counter(each.assignor for each in self.roster.members.values() if each.assignor)
        return max(self.settings.assignors, key=lambda name: votes[name])

    def _assign(self, now: float) -> None:
        """Computes the assignment, if it is not up to date and the last one is old enough."""
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
        """Where a heartbeat with these partitions brings a member."""
        return reconcile(
            member.current,
            self.roster.target(member, self.assignment_epoch),
            reported,
            lambda each: self.roster.is_free(each, member.member_id),
            resubscribed,
        )

    def is_reconciled(self, member: ConsumerGroupMember) -> bool:
        """Whether a member is where the assignment wants it."""
        current = member.current
        return (
            current.state is ReconciliationState.STABLE and current.epoch == self.assignment_epoch
        )

    # ------------------------------------------------------------------ going

    def _leave(self, body: Mapping[str, Any]) -> dict[str, Any]:
        member_id, epoch = body["MemberId"], body["MemberEpoch"]
        if not self._exists:
            raise Refusal(GroupIdNotFoundError, f"Group {self.group_id} not found.")
        member = admission.known(self.group_id, self.roster, body)
        if epoch == LEAVE_FOR_A_WHILE:
            self.roster.put(replace(member, current=away(member.current), revoke_by=None))
        else:
            self._remove(member.member_id)
        return answers.heartbeat(member_id, epoch, 0, None)

    def _remove(self, member_id: str) -> None:
        self.roster.remove(member_id)
        self.epoch += 1


def _topics(event: TopicsChanged) -> dict[str, Topic]:
    return {
        name: Topic(event.ids[name], count)
        for name, count in event.partitions.items()
        if name in event.ids
    }
