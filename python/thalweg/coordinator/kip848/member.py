"""One consumer in a group of KIP-848's protocol (`ConsumerMembershipManager` in Java).

    Unsubscribed ─> Joining ─> Reconciling ─> Acknowledging ─> Stable
                       ^           ^  give up, or take  │         │ the broker has a new target
                       │           └────────────────────┴─────────┘
       Fenced, Stale ──┘ partitions are lost; it joins again      PrepareLeaving ─> Leaving

The broker's responses have the target assignment of the member. The member first gives up
partitions and reports that, then takes new ones and reports that. A report is a full heartbeat,
which reports.py sends until it gets a response. The native core sends the minimal heartbeats.

The member takes no partition while a report or a repeat of it is in flight: the broker would read
in it that the member does not have the partition, and could give it to another member at once.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final

from thalweg.coordinator.kip848 import heartbeats
from thalweg.coordinator.kip848.heartbeats import ConsumerMemberSettings, Verdict
from thalweg.coordinator.kip848.reports import Reports
from thalweg.coordinator.kip848.topic_ids import IdPartition, id_partitions
from thalweg.coordinator.states import (
    CONSUMER_MEMBER,
    ConsumerMemberState,
    ConsumerMemberTrigger,
    move,
)
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    Fail,
    HeartbeatResponded,
    Lose,
    MemberAction,
    MemberEvent,
    OldHeartbeatsDone,
    Polled,
    PollExpired,
    Raise,
    Responded,
    Revoke,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from thalweg.structs import ConsumerGroupMetadata, MemberState, TopicPartition

__all__ = ["ConsumerMember", "ConsumerMemberSettings"]

_S, _T = ConsumerMemberState, ConsumerMemberTrigger
_IN_GROUP: Final = frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
_MEMBER: Final = _IN_GROUP | {_S.JOINING}
_LOST: Final = frozenset({_S.FENCED, _S.STALE, _S.FATAL})
_NONE: frozenset[IdPartition] = frozenset()


class _Running(Enum):
    """Which callbacks the application is running."""

    REVOKE = auto()
    ASSIGN = auto()
    LOSE = auto()


class ConsumerMember:
    """The membership of one consumer. Events go in, actions come out.

    Attributes:
        state: See states.CONSUMER_MEMBER.
        member_id: The id, for the consumer's lifetime.
        generation: The member epoch. -1 outside the group.
    """

    def __init__(self, settings: ConsumerMemberSettings, jitter: Callable[[], float]) -> None:
        """Creates an unsubscribed member. `jitter` returns factors for waits (0.8 to 1.2)."""
        self.state = _S.UNSUBSCRIBED
        self._reports = Reports(settings, jitter)
        self._settings = settings
        self._topics: frozenset[str] | None = None
        self._regex: str | None = None
        self._owned = _NONE
        self._giving_up = _NONE
        self._target = _NONE
        self._names: dict[str, str] = {}
        self._existing: frozenset[str] = frozenset()
        self._unknown_ids: frozenset[str] = frozenset()
        self._told_anything = False  # whether the listener got an assignment since the join
        self._was_lost = False
        self._running: _Running | None = None
        self._tells_group = True
        self._leave_token: int | None = None
        self._is_closed = False

    # ------------------------------------------------------------------ properties

    @property
    def member_id(self) -> str:
        """The member id. With version 0 of the protocol, the broker may choose it."""
        return self._reports.member_id

    @property
    def generation(self) -> int:
        """The member epoch. -1 outside the group."""
        return self._reports.epoch if self._reports.epoch > 0 else -1

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that it owns, sorted."""
        return self._partitions(self._owned)

    @property
    def is_settled(self) -> bool:
        """Whether the application has the group's assignment, and no rebalance is known."""
        return self.state is _S.STABLE

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the membership, with the member epoch as the generation."""
        in_group = self.state in _IN_GROUP
        shown = MemberState.STABLE if self.state is _S.STABLE else MemberState.REBALANCING
        return ConsumerGroupMetadata(
            self._settings.group_id,
            self.generation,
            self.member_id,
            self._settings.instance_id,
            shown if in_group else MemberState.UNJOINED,
        )

    def commit_refusal(self) -> KafkaError | None:
        """Returns why a commit would fail now, or None.

        The broker accepts commits during a rebalance. STALE_MEMBER_EPOCH means that the broker has
        a newer epoch. Retry the commit only after a response has brought that epoch, so that
        `generation` has changed since the commit was sent.
        """
        if self.state in _LOST or (self.state is _S.JOINING and self._was_lost):
            return CommitFailedError(
                "the group gave this consumer's partitions to other members, because its heartbeats"
                " did not arrive in time, or it did not poll within max_poll_interval_ms. Call"
                " poll() to join the group again. If polls were too far apart, raise"
                " max_poll_interval_ms or lower max_poll_records"
            )
        if self.state is _S.JOINING:
            return RebalanceInProgressError(
                "the consumer is joining its group. Call poll() until it has joined, then commit"
                " again"
            )
        if self.generation < 0:
            return CommitFailedError(
                "the consumer is not a member of its group. Call subscribe() and poll() to join it"
            )
        return None

    def next_deadline(self) -> float | None:
        """Returns when it needs a Ticked."""
        reports = self.state in _MEMBER or self.state is _S.PREPARE_LEAVING
        return self._reports.retry_at if reports else None

    # ------------------------------------------------------------------ in and out

    def step(self, event: MemberEvent, now: float) -> list[MemberAction]:
        """Handles an event. Returns the actions to do, in order."""
        match event:
            case Subscribed() if not self._is_closed:
                return self._subscribed(event)
            case TopicsChanged():
                self._topics_changed(event)
            case Polled() if self._running is None:
                return self._polled()
            case CallbacksDone():
                return self._callbacks_done()
            case Responded(token=token) if token == self._leave_token:
                self._leave_token = None
                return self._outside()
            case Responded(token=token) if token == self._reports.token:
                return self._heard(event, now)
            case HeartbeatResponded():
                return self._heard(event, now)
            case OldHeartbeatsDone():
                return self._repeats_done()
            case Ticked() if self._reports.is_due(now) and self.state in _MEMBER:
                return self._report()
            case Ticked() if self._reports.is_due(now) and self.state is _S.PREPARE_LEAVING:
                return self._reports.again()
            case PollExpired() if self.state in _MEMBER:
                return self._lost(_T.POLL_EXPIRED)
            case Unsubscribed():
                return self._leave(tells_group=True)
            case Closed(leave=leave):
                self._is_closed = True  # a listener may still subscribe
                return self._leave(tells_group=leave)
        return []

    def _move(self, trigger: ConsumerMemberTrigger) -> None:
        self.state = move(CONSUMER_MEMBER, self.state, trigger)

    # ------------------------------------------------------------------ joining

    def _subscribed(self, event: Subscribed) -> list[MemberAction]:
        # An empty pattern takes an earlier one back.
        regex = "" if event.regex is None and self._regex is not None else event.regex
        unchanged = (event.topics, regex) == (self._topics, self._regex)
        self._topics, self._regex = event.topics, regex
        if self.state is _S.UNSUBSCRIBED:
            return self._join()
        return [] if unchanged or self.state not in _MEMBER else self._report()

    def _join(self) -> list[MemberAction]:
        self._move(_T.JOIN)
        self._owned = self._target = _NONE
        self._told_anything = False
        self._reports.leave()
        return self._report()

    def _report(self) -> list[MemberAction]:
        """Reports everything to the broker. The response contains everything, too."""
        return self._reports.send((self._topics or frozenset(), self._regex), self._owned)

    # ------------------------------------------------------------------ responses

    def _heard(self, response: Responded | HeartbeatResponded, now: float) -> list[MemberAction]:
        is_report = isinstance(response, Responded)
        is_current = isinstance(response, HeartbeatResponded) and response.is_current
        if self.state is _S.PREPARE_LEAVING:
            return self._heard_last(response, now)
        if self.state not in _MEMBER:
            return []
        if self.state is _S.JOINING and not (is_report or is_current):
            return []  # to a heartbeat of an earlier membership
        error = heartbeats.reason(response.body, response.error)
        match heartbeats.verdict(error):
            case Verdict.NONE if response.body is not None:
                return self._took(response.body, is_report=is_report, is_current=is_current)
            case Verdict.FATAL:
                return self._lost(_T.FAILED, error)
            case Verdict.REJOIN if self.state is not _S.JOINING:
                return self._lost(_T.FENCED)
            case _ if self._reports.token is not None and not is_report:
                return []  # wait for the response to the report that is in flight
            case Verdict.REJOIN:
                self._reports.leave()
                return self._reports.failed(now)
            case Verdict.LOOK_UP:
                return self._reports.failed(now, look_up=True)
            case Verdict.RAISE:
                return [*self._reports.failed(now), Raise(error)]
        return self._reports.failed(now)

    def _heard_last(
        self, response: Responded | HeartbeatResponded, now: float
    ) -> list[MemberAction]:
        """Handles a response while leaving: the last commits need the newest epoch."""
        error = heartbeats.reason(response.body, response.error)
        verdict = heartbeats.verdict(error)
        match verdict:
            case Verdict.NONE if response.body is not None and self.generation > 0:
                self._reports.epoch = max(self._reports.epoch, response.body["MemberEpoch"])
            case Verdict.REJOIN | Verdict.FATAL:
                self._reports.leave()
            case Verdict.RETRY | Verdict.LOOK_UP | Verdict.RAISE if isinstance(response, Responded):
                return self._reports.failed(now, look_up=verdict is Verdict.LOOK_UP)
        return []

    def _took(
        self, body: Mapping[str, Any], *, is_report: bool, is_current: bool
    ) -> list[MemberAction]:
        if body["MemberEpoch"] < self._reports.epoch:  # overtaken by a later response
            return self._report() if is_report else []
        told = body["Assignment"]
        if told is not None:
            self._target = id_partitions(told["TopicPartitions"])
        actions = self._reports.took(body, is_report=is_report, is_current=is_current)
        return actions + self._settle_if_clean()

    def _repeats_done(self) -> list[MemberAction]:
        settles = self._reports.repeats_done() and self.state in _MEMBER
        return self._settle_if_clean() if settles else []

    def _settle_if_clean(self) -> list[MemberAction]:
        if not self._reports.is_clean or self._running is not None:
            return []
        self._was_lost = False
        return self._settle()

    def _settle(self) -> list[MemberAction]:
        if self._target != self._owned or not self._told_anything:
            self._move(_T.TARGET)
            return []
        self._move(_T.SETTLED)
        return self._look_up(())

    # ------------------------------------------------------------------ partitions

    def _polled(self) -> list[MemberAction]:
        """Handles a poll, in which callbacks may run."""
        match self.state:
            case _S.FENCED | _S.STALE if self._owned:
                return self._lose()
            case _S.FENCED | _S.STALE if self._topics is not None:
                return self._join()
            case _S.RECONCILING:
                return self._reconcile()
        return []

    def _reconcile(self) -> list[MemberAction]:
        """Gives up partitions first, and takes new ones after the broker has the report."""
        if self._owned - self._target:
            return self._give_up(self._owned - self._target)
        missing = self._target - self._owned
        added = frozenset(each for each in missing if each.topic_id in self._names)
        actions = self._look_up({each.topic_id for each in missing - added})
        if self._reports.is_clean and (added or not (missing or self._told_anything)):
            self._running = _Running.ASSIGN
            self._told_anything = True
            self._owned |= added
            actions.append(Assign(self._partitions(self._owned), self._partitions(added)))
        return actions

    def _give_up(self, partitions: frozenset[IdPartition]) -> list[MemberAction]:
        """Gives up partitions, those of deleted topics first, as lost.

        Their offsets must not be committed: a new topic of the same name has other offsets.
        """
        self._running = _Running.REVOKE
        self._giving_up = partitions
        dead = frozenset(each for each in partitions if each.topic_id not in self._existing)
        actions: list[MemberAction] = [Lose(self._partitions(dead))] if dead else []
        if partitions - dead:
            actions += [AutoCommit(), Revoke(self._partitions(partitions - dead))]
        return actions

    def _look_up(self, topic_ids: Iterable[str]) -> list[MemberAction]:
        """Asks for topics whose id is not known yet. It asks once for the same set of ids."""
        unknown = frozenset(topic_ids)
        if unknown == self._unknown_ids:
            return []
        self._unknown_ids = unknown
        return [WatchTopics(frozenset(), unknown)]

    def _topics_changed(self, event: TopicsChanged) -> None:
        self._existing = frozenset(event.ids.values())
        owned = {each.topic_id for each in self._owned}
        kept = {key: name for key, name in self._names.items() if key in owned}
        self._names = kept | {topic_id: name for name, topic_id in event.ids.items()}
        self._unknown_ids -= self._names.keys()

    def _partitions(self, partitions: Iterable[IdPartition]) -> tuple[TopicPartition, ...]:
        """Returns partitions by topic name. The names of all owned partitions are known."""
        names = self._names
        return tuple(sorted(TopicPartition(names[i], partition) for i, partition in partitions))

    def _callbacks_done(self) -> list[MemberAction]:
        running, self._running = self._running, None
        if running is _Running.REVOKE:
            self._owned -= self._giving_up
        elif running is _Running.LOSE:
            self._owned = _NONE
        match self.state:
            case _S.RECONCILING if running is _Running.ASSIGN and not self._owned:
                return self._settle()  # an empty assignment: there is nothing to report
            case _S.RECONCILING:
                self._move(_T.REPORT)
                return self._report()
            case _S.FENCED | _S.STALE:
                return self._polled()  # callbacks ran in the application's poll: it is back
            case _S.PREPARE_LEAVING:
                return self._prepare_leaving()
            case _S.FATAL if self._owned:
                return self._lose()
        return []

    # ------------------------------------------------------------------ the end of a membership

    def _lost(
        self, trigger: ConsumerMemberTrigger, error: KafkaError | None = None
    ) -> list[MemberAction]:
        """Ends the membership. Other members get the partitions, so nothing may be committed."""
        self._move(trigger)
        self._was_lost = True
        self._reports.leave()
        actions: list[MemberAction] = [StopHeartbeats()]
        if self._running is None and self.state is _S.FATAL and self._owned:
            actions += self._lose()
        if self._running is None and self.state is _S.FENCED and not self._owned:
            actions += self._polled()
        return actions if error is None else [*actions, Fail(error)]

    def _lose(self) -> list[MemberAction]:
        self._running = _Running.LOSE
        return [Lose(self._partitions(self._owned))]

    def _leave(self, *, tells_group: bool) -> list[MemberAction]:
        self._topics = None
        self._unknown_ids = frozenset()  # the driver no longer looks for topics
        self._regex = "" if self._regex is not None else None
        self._tells_group = tells_group
        if self.state in {_S.UNSUBSCRIBED, _S.FATAL, _S.PREPARE_LEAVING, _S.LEAVING}:
            return []
        lost = self.state in {_S.FENCED, _S.STALE}
        self._tells_group = tells_group and not lost
        self._move(_T.GIVE_UP)
        return self._prepare_leaving()

    def _prepare_leaving(self) -> list[MemberAction]:
        """Gives everything up, as long as it is a member: what is read is committed."""
        if self._running is not None:
            return []
        if self._owned and self.generation < 0:
            return self._lose()
        if self._owned:
            return self._give_up(self._owned)
        actions: list[MemberAction] = [StopHeartbeats()]
        if not self._tells_group:
            return actions + self._outside()
        self._move(_T.LEAVE)
        self._leave_token, request = self._reports.leave_request()
        self._reports.leave()
        return [*actions, request]

    def _outside(self) -> list[MemberAction]:
        """Joins again if the application has subscribed since the member left."""
        self._reports.leave()
        if self._topics is not None:
            return self._join()
        self._move(_T.LEFT)
        return []
