"""A member of a classic group, the consumer's side (`ConsumerCoordinator`, `AbstractCoordinator`).

    Unjoined ── Polled: callbacks, then JoinGroup ──> PreparingRebalance
        ^                                                     │ answered
        │ failed, reset                                       v
        ├────────────────── SyncGroup sent, by the leader with the assignment: CompletingRebalance
        │                                                     │ answered
        └────────────────────── Stable <──────────────────────┘
                                  └─ Polled: callbacks for the new assignment

Nothing that concerns partitions happens outside of Polled (and the CallbacksDone that follows
it), as callbacks run in the application's thread. Requests are sent in any step. What the
application is told is ownership.py's; what the leader does, leader.py's; what error codes mean,
verdict.py's.

A membership that was lost (`generation` -1) while partitions are still owned makes them lost:
they may be somebody else's, so nothing is committed any more.

What is deliberately absent: finding the coordinator, heartbeats and the watch on
max_poll_interval_ms (the driver's, which is told what to repeat), and commits.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.classic import requests
from thalweg.coordinator.classic.assigning import Assignors
from thalweg.coordinator.classic.leader import Leader
from thalweg.coordinator.classic.ownership import Ownership
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.classic.verdict import Verdict, verdict
from thalweg.coordinator.protocol import VERSION_MAX, Assignment
from thalweg.coordinator.states import CLASSIC_MEMBER, MemberState, move
from thalweg.coordinator.steps import (
    Answered,
    CallbacksDone,
    Closed,
    CommitAnswered,
    Fail,
    ForgetCoordinator,
    HeartbeatAnswered,
    Heartbeats,
    MemberAction,
    MemberEvent,
    Polled,
    PollExpired,
    Raise,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    KafkaError,
    KafkaProtocolError,
    MemberIdRequiredError,
    NoError,
    RebalanceInProgressError,
    RetriableError,
    for_code,
)
from thalweg.structs import ConsumerGroupMetadata, TopicPartition
from thalweg.structs import MemberState as ShownState

__all__ = ["ClassicMember", "MemberSettings"]

_NO_GENERATION: Final = -1
_AT_ONCE_MAX: Final = 3  # failures in a row after which even a plain rejoin waits


class ClassicMember:
    """One member. Events go in, actions come out.

    Attributes:
        state: See states.CLASSIC_MEMBER.
        member_id: "" until the coordinator gave one.
        generation: -1 outside of the group.
    """

    def __init__(
        self,
        settings: MemberSettings,
        assignors: Sequence[AbstractPartitionAssignor],
        jitter: Callable[[], float],
    ) -> None:
        """Makes a member that has not joined; `jitter` gives factors for waits (0.8 to 1.2)."""
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation = _NO_GENERATION
        self._settings = settings
        self._assignors = Assignors(assignors)
        self._owned = Ownership(self._assignors.cooperative)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, jitter)
        self._tokens = itertools.count(1)
        self._actions: list[MemberAction] = []
        self._topics: frozenset[str] | None = None
        # The request whose answer is waited for; answers to any other are ignored.
        self._token: int | None = None
        self._retry_at: float | None = None
        self._waits_for_poll = False  # after an error that the application was told
        # The rebalance that runs, or is needed.
        self._rejoin_reason: str | None = None
        self._prepared = False  # what comes before JoinGroup is done
        self._joined_topics: frozenset[str] = frozenset()
        self._protocol = ""
        self._leader = Leader()
        self._synced: Assignment | None = None  # to be told at the next Polled
        # What goes on once the callbacks of the last step are done.
        self._after_callbacks: Callable[[float], None] | None = None
        self._ordered = False  # heartbeats, or a JoinGroup that begins them
        self._beating = False  # what they bring is of this membership

    # ------------------------------------------------------------------ in and out

    def step(self, event: MemberEvent, now: float) -> list[MemberAction]:
        """What an event leads to; the actions are to be done in their order."""
        match event:
            case Closed(leave):
                self._close(leave, now)
            case CallbacksDone():
                self._callbacks_done(now)
            case _ if self.state in (MemberState.FATAL, MemberState.CLOSED):
                pass
            case Subscribed(topics):
                self._topics = topics
            case Unsubscribed():
                self._unsubscribe(now)
            case TopicsChanged(partitions, racks):
                self._leader.known = TopicsOfGroup(partitions, racks)
                self._lead()
            case Polled():
                self._waits_for_poll = False
                self._advance(now)
            case Ticked():
                pass  # a retry may be due, see below
            case Answered():
                self._answered(event, now)
            case HeartbeatAnswered(body, error):
                self._heartbeat_answered(body, error)
            case CommitAnswered(code, generation):
                self._commit_answered(code, generation)
            case PollExpired():
                self._ordered = self._beating = False
                self._reset("max_poll_interval_ms was exceeded", keep_id=False)
        self._maybe_join(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """When it wants a Ticked: a request is to be tried again."""
        return self._retry_at if self._may_join() else None

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the application was told are its own."""
        return self._owned.partitions

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What fences this member's commits and transactions."""
        match self.state:
            case MemberState.STABLE:
                shown = ShownState.STABLE
            case MemberState.PREPARING_REBALANCE | MemberState.COMPLETING_REBALANCE:
                shown = ShownState.REBALANCING
            case _:
                shown = ShownState.UNJOINED
        settings = self._settings
        return ConsumerGroupMetadata(
            settings.group_id, self.generation, self.member_id, settings.group_instance_id, shown
        )

    def commit_refusal(self) -> KafkaError | None:
        """Why a commit cannot succeed now, if so."""
        if self.state is MemberState.STABLE:
            return None
        joining = self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
        if joining or (self.state is MemberState.UNJOINED and self.generation >= 0):
            return RebalanceInProgressError(
                "the group rebalances: poll until it is done, then commit again what is still"
                " assigned"
            )
        return CommitFailedError()

    # ------------------------------------------------------------------ callbacks

    def _run(self, actions: Sequence[MemberAction], after: Callable[[float], None]) -> None:
        """Has the driver run callbacks; `after` follows once they are done."""
        self._actions += actions
        self._after_callbacks = after

    def _callbacks_done(self, now: float) -> None:
        after, self._after_callbacks = self._after_callbacks, None
        if after is not None:
            after(now)

    def _advance(self, now: float) -> None:
        """In the application's thread: one thing that concerns partitions, or JoinGroup."""
        if self._after_callbacks is not None or self._topics is None:
            return
        if self._is_lost():
            self._run(self._owned.given_up(lost=True), self._advance)
        elif self._synced is not None:
            self._take_assignment(self._synced)
            if self._after_callbacks is None:  # not taken: nothing else brings it on
                self._advance(now)
        elif self._is_idle() and (reason := self._needs_rejoin()) is not None:
            self._rejoin_reason = reason
            if not self._prepared:
                self._prepare()

    def _is_lost(self) -> bool:
        return self.generation == _NO_GENERATION and bool(self.assignment)

    def _needs_rejoin(self) -> str | None:
        if self._rejoin_reason is not None:
            return self._rejoin_reason
        if self.state is MemberState.UNJOINED:
            return "the consumer joins"
        if self._topics != self._joined_topics:
            return "the subscription has changed"
        if self._leader.is_outdated():
            return "topics of the group have changed"
        return None

    def _prepare(self) -> None:
        """Before JoinGroup (onJoinPrepare); out of the group there is nothing to give up."""
        member = self.generation != _NO_GENERATION
        callbacks = self._owned.before_join(self._topics or frozenset()) if member else []
        if callbacks:
            self._run(callbacks, self._is_prepared)
        else:
            self._prepared = True

    def _is_prepared(self, now: float) -> None:
        self._prepared = True
        self._advance(now)

    def _take_assignment(self, given: Assignment) -> None:
        """After SyncGroup (onJoinComplete)."""
        self._synced = None
        self._prepared = False
        if any(each.topic not in (self._topics or ()) for each in given.assigned_partitions):
            # Of an older subscription: join again, with what is owned meanwhile.
            self._rejoin_reason = "the assignment is not of the present subscription"
            return
        try:
            self._assignors.tell(self._protocol, given, self.generation)
        except KafkaError as error:
            self._actions.append(Raise(error))  # the partitions are this member's all the same
        callbacks = self._owned.assigned(given.assigned_partitions)
        if any(isinstance(each, Revoke) for each in callbacks):
            # Nobody is given them before this member has joined without them.
            self._rejoin_reason = "partitions were revoked"
        self._run(callbacks, self._advance)

    # ------------------------------------------------------------------ JoinGroup, SyncGroup

    def _may_join(self) -> bool:
        """Whether nothing but time keeps JoinGroup from being sent."""
        ready = self._topics is not None and self._prepared and not self._waits_for_poll
        waits = self._after_callbacks is not None or self._synced is not None or self._is_lost()
        return ready and self._is_idle() and not waits

    def _is_idle(self) -> bool:
        """Whether no rebalance is under way."""
        return self.state in (MemberState.UNJOINED, MemberState.STABLE)

    def _maybe_join(self, now: float) -> None:
        if self._may_join() and (self._retry_at is None or self._retry_at <= now):
            self.state = move(CLASSIC_MEMBER, self.state, MemberState.PREPARING_REBALANCE)
            self._send_join()

    def _send_join(self) -> None:
        topics = self._topics or frozenset()
        self._joined_topics = topics
        self._leader.resign()
        rack = self._settings.client_rack
        try:
            said = self._assignors.said(topics, self.assignment, self.generation, rack)
        except KafkaError as error:
            self._tell(error)
            return
        body = requests.join(self._settings, self.member_id, said, self._rejoin_reason or "")
        # A JoinGroup that waits keeps the session alive by itself; its answer begins them again.
        self._ordered, self._beating = True, False
        beats = requests.heartbeats(self._settings, self.member_id, self.generation)
        self._send("JoinGroup", body, self._settings.join_timeout_ms, beats)

    def _send(
        self, api: str, body: Mapping[str, Any], timeout_ms: float, beats: Heartbeats | None = None
    ) -> None:
        self._retry_at = None
        self._token = next(self._tokens)
        self._actions.append(Send(self._token, api, body, timeout_ms, beats))

    def _answered(self, event: Answered, now: float) -> None:
        if event.token != self._token:
            return  # of a rebalance that was given up
        self._token = None
        if event.body is None:
            self._request_failed(event.error or KafkaError("no answer"), now)
        elif event.body["ErrorCode"] == MemberIdRequiredError.errno:
            self.member_id = event.body["MemberId"]
            self._send_join()
        elif event.body["ErrorCode"] != NoError.errno:
            self._refused(event.body["ErrorCode"], now)
        elif self.state is MemberState.PREPARING_REBALANCE:
            self._joined(event.body)
        else:
            self._sync_answered(event.body)

    def _joined(self, body: Mapping[str, Any]) -> None:
        """Part of the next generation; heartbeats start before the assignment is there."""
        self._protocol = body["ProtocolName"] or ""
        same_type = body.get("ProtocolType") in (None, requests.PROTOCOL_TYPE)
        if not same_type or self._protocol not in self._assignors:
            self._stop_heartbeats()
            chosen = f"the group has chosen {body.get('ProtocolType')} {self._protocol!r}"
            self._tell(InconsistentGroupProtocolError(chosen))
            return
        self.generation, self.member_id = body["GenerationId"], body["MemberId"]
        self.state = move(CLASSIC_MEMBER, self.state, MemberState.COMPLETING_REBALANCE)
        self._ordered = self._beating = True
        self._actions.append(requests.heartbeats(self._settings, self.member_id, self.generation))
        if body["Leader"] != self.member_id:
            self._follow()
            return
        try:
            self._leader.elected(body)
        except KafkaProtocolError as error:
            self._tell(error)
        else:
            self._lead()

    def _follow(self) -> None:
        if self._leader.watched:
            self._leader.watched = frozenset()
            self._actions.append(WatchTopics(frozenset()))
        self._send_sync([])

    def _lead(self) -> None:
        """Decides for the group, once its topics are known."""
        leader = self._leader
        if not leader.is_deciding:
            return
        if leader.watch():
            self._actions.append(WatchTopics(leader.watched))
            return
        try:
            rows = leader.decide(self._assignors, self._protocol)
        except KafkaError as error:
            self._tell(error)
        else:
            self._send_sync(rows)

    def _send_sync(self, rows: Sequence[dict[str, Any]]) -> None:
        body = requests.sync(self._settings, self.member_id, self.generation, self._protocol, rows)
        self._send("SyncGroup", body, self._settings.request_timeout_ms)

    def _sync_answered(self, body: Mapping[str, Any]) -> None:
        try:
            if body.get("ProtocolName") not in (None, self._protocol):
                raise InconsistentGroupProtocolError(f"synced for {body['ProtocolName']!r}")
            # A leader may leave members out, who then have nothing.
            data = body["Assignment"]
            self._synced = Assignment.decode(data) if data else Assignment(VERSION_MAX, [])
        except (KafkaError, UnicodeDecodeError) as error:
            self._tell(error if isinstance(error, KafkaError) else KafkaProtocolError(str(error)))
            return
        self.state = move(CLASSIC_MEMBER, self.state, MemberState.STABLE)
        self._rejoin_reason = None
        self._backoff.reset()

    # ------------------------------------------------------------------ what goes wrong

    def _request_failed(self, error: KafkaError, now: float) -> None:
        """No answer: the coordinator may be another one by now."""
        if isinstance(error, RetriableError):
            self._actions.append(ForgetCoordinator())
            self._retry(now)
        else:
            self._tell(error)

    def _refused(self, code: int, now: float) -> None:
        """An error code in an answer to JoinGroup or SyncGroup."""
        match meaning := verdict(code):
            case Verdict.UNKNOWN | Verdict.STALE:
                self._reset(for_code(code).__name__, keep_id=meaning is Verdict.STALE)
                self._retry(now, at_once=True)
            case Verdict.REBALANCE:
                self._retry(now, at_once=True)
            case Verdict.MOVED:
                self._actions.append(ForgetCoordinator())
                self._retry(now)
            case Verdict.FENCED:
                self._fail()
            case Verdict.WAIT:
                self._retry(now)
            case _:
                self._tell(for_code(code)(f"joining group {self._settings.group_id}"))

    def _retry(self, now: float, at_once: bool = False) -> None:
        """Joins again: after a wait, or at once if that has not failed too often."""
        at_once = at_once and self._backoff.failures < _AT_ONCE_MAX
        wait_ms = self._backoff.failed()
        self._retry_at = None if at_once else now + wait_ms
        self._unjoin()

    def _tell(self, error: KafkaError) -> None:
        """The application hears of it; its next poll tries again."""
        self._actions.append(Raise(error))
        self._waits_for_poll = True
        self._unjoin()

    def _unjoin(self) -> None:
        if self.state is not MemberState.UNJOINED:
            self.state = move(CLASSIC_MEMBER, self.state, MemberState.UNJOINED)

    def _reset(self, reason: str, keep_id: bool) -> None:
        """Out of the group: what is still owned is lost, and told at the next Polled.

        A request in flight is given up. What comes before JoinGroup stays done, so that a reset
        in the middle of a rebalance runs no callbacks twice.
        """
        self.generation = _NO_GENERATION
        if not keep_id:
            self.member_id = ""
        self._token = self._synced = None
        self._leader.resign()
        self._rejoin_reason = reason
        self._stop_heartbeats()
        self._unjoin()

    def _fail(self) -> None:
        self._reset("fenced", keep_id=False)
        self.state = move(CLASSIC_MEMBER, self.state, MemberState.FATAL)
        self._actions.append(
            Fail(
                FencedInstanceIdError(
                    f"another consumer of group {self._settings.group_id} uses group_instance_id"
                    f" {self._settings.group_instance_id!r}"
                )
            )
        )

    # ------------------------------------------------------------------ heartbeats, commits

    def _stop_heartbeats(self) -> None:
        self._beating = False
        if self._ordered:
            self._ordered = False
            self._actions.append(StopHeartbeats())

    def _heartbeat_answered(self, body: Mapping[str, Any] | None, error: KafkaError | None) -> None:
        if not self._beating:
            return  # of an older membership
        if body is not None:
            self._heard(body["ErrorCode"])
        elif isinstance(error, RetriableError):
            self._actions.append(ForgetCoordinator())
        elif error is not None:
            self._actions.append(Raise(error))

    def _commit_answered(self, code: int, generation: int) -> None:
        # A JoinGroup in flight decides by itself whether this member is still one: a reset in
        # the middle of it would make a rebalance out of each rebalance.
        current = generation == self.generation and self.state is MemberState.STABLE
        if current and verdict(code) is not Verdict.TELL:  # which the commit itself raises
            self._heard(code)

    def _heard(self, code: int) -> None:
        """What the group said of the membership, aside of a rebalance."""
        match meaning := verdict(code):
            case Verdict.UNKNOWN | Verdict.STALE:
                self._reset(for_code(code).__name__, keep_id=meaning is Verdict.STALE)
            case Verdict.REBALANCE if self.state is MemberState.STABLE:
                self._rejoin_reason = self._rejoin_reason or "the group rebalances"
            case Verdict.MOVED:
                self._actions.append(ForgetCoordinator())
            case Verdict.FENCED:
                self._fail()
            case Verdict.TELL:
                self._actions.append(Raise(for_code(code)("heartbeat")))

    # ------------------------------------------------------------------ going

    def _unsubscribe(self, now: float) -> None:
        self._topics = None
        self._leader.watched = frozenset()  # the driver looks for nothing any more
        self._give_up(lambda _: self._leave("the consumer unsubscribed"), now)

    def _close(self, leave: bool, now: float) -> None:
        if self.state is MemberState.CLOSED:
            return
        self._topics = None

        def end(_: float) -> None:
            if leave:
                self._leave("the consumer closes")
            self._stop_heartbeats()
            self._token = None
            self.state = move(CLASSIC_MEMBER, self.state, MemberState.CLOSED)

        self._give_up(end, now)

    def _give_up(self, after: Callable[[float], None], now: float) -> None:
        """All partitions; as lost ones if nothing can be committed for them any more."""
        before = self._after_callbacks
        if before is not None:

            def once_done(then: float) -> None:
                before(then)
                if self.state is not MemberState.CLOSED:
                    self._give_up(after, then)

            # A listener is at work, and may commit: this is a member until it is done.
            self._after_callbacks = once_done
            return
        callbacks = self._owned.given_up(lost=self.commit_refusal() is not None)
        if callbacks:
            self._run(callbacks, after)
        else:
            after(now)

    def _leave(self, reason: str) -> None:
        """Tells the group, unless static: such a member may be back (KIP-345). Never retried."""
        settings = self._settings
        member_id, dynamic = self.member_id, settings.group_instance_id is None
        if self.state is not MemberState.FATAL:
            self._reset(reason, keep_id=False)
            self._rejoin_reason = None
        if member_id and dynamic:
            body = requests.leave(settings, member_id, reason)
            token, timeout_ms = next(self._tokens), settings.request_timeout_ms
            self._actions.append(Send(token, "LeaveGroup", body, timeout_ms, leaves=True))
