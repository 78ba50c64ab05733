"""A member of a classic group, the consumer's side (`ConsumerCoordinator`, `AbstractCoordinator`).

    Unjoined ── Polled: callbacks, then JoinGroup ──> PreparingRebalance
        ^                                                     │ response
        │ failed, reset                                       v
        ├────────────────── SyncGroup sent, by the leader with the assignment: CompletingRebalance
        │                                                     │ response
        └────────────────────── Stable <──────────────────────┘
                                  └─ Polled: callbacks for the new assignment

Partitions change only in Polled, and in the CallbacksDone that follows it, because callbacks run in
the application's thread. Requests are sent in any step.

conversation.py has the requests and their responses, rebalance.py the reasons to join again and the
order of callbacks, leader.py the work of the leader, verdict.py the meaning of error codes, and
refusal.py the texts of errors for the application.

The driver finds the coordinator, sends heartbeats, watches max_poll_interval_ms and commits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.classic.assigning import Assignors
from thalweg.coordinator.classic.conversation import Conversation
from thalweg.coordinator.classic.leader import Leader
from thalweg.coordinator.classic.rebalance import Rebalance
from thalweg.coordinator.classic.refusal import refusal
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.classic.verdict import Verdict, verdict
from thalweg.coordinator.states import CLASSIC_MEMBER, MemberState, MemberTrigger, move
from thalweg.coordinator.steps import (
    CallbacksDone,
    Closed,
    CommitRefused,
    Fail,
    ForgetCoordinator,
    HeartbeatResponded,
    MemberAction,
    MemberEvent,
    Polled,
    PollExpired,
    Raise,
    Responded,
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


class ClassicMember:
    """One member. Events go in, actions come out.

    Attributes:
        state: See states.CLASSIC_MEMBER.
    """

    def __init__(
        self,
        settings: MemberSettings,
        assignors: Sequence[AbstractPartitionAssignor],
        jitter: Callable[[], float],
        member_id: str = "",
    ) -> None:
        """Creates a member that has not joined.

        Args:
            settings: Those of the consumer.
            assignors: In order of preference.
            jitter: Returns factors for waits (0.8 to 1.2).
            member_id: The id of an earlier member, which this one replaces in the group.
        """
        self.state = MemberState.UNJOINED
        self._settings = settings
        self._assignors = Assignors(assignors)
        self._leader = Leader()
        self._conversation = Conversation(settings, jitter)
        self._conversation.member_id = member_id
        self._rebalance = Rebalance(self._assignors, self._leader, self._conversation)
        self._actions: list[MemberAction] = []
        self._waits_for_poll = False  # after an error that the application gets
        # What continues when the callbacks of the last step are done.
        self._after_callbacks: Callable[[], None] | None = None

    # ------------------------------------------------------------------ in and out

    def step(self, event: MemberEvent, now: float) -> list[MemberAction]:
        """Handles an event. Returns the actions to do, in order."""
        match event:
            case Closed(leave):
                self._close(leave)
            case CallbacksDone():
                self._callbacks_done()
            case _ if self.state in (MemberState.FATAL, MemberState.CLOSED):
                pass
            case Subscribed(topics):
                self._rebalance.topics = topics
            case Unsubscribed():
                self._unsubscribe()
            case TopicsChanged(partitions, racks):
                self._leader.known = TopicsOfGroup(partitions, racks)
                self._lead()
            case Polled():
                self._waits_for_poll = False
                self._advance()
            case Ticked():
                pass  # a retry may be due, see below
            case Responded():
                self._responded(event, now)
            # A lost response to a replaced heartbeat says nothing: no response has an assignment.
            case HeartbeatResponded(body, error, is_current) if is_current or error is None:
                self._heartbeat_responded(body, error)
            case CommitRefused(code, generation):
                self._commit_refused(code, generation)
            case PollExpired():
                self._conversation.poll_expired()
                self._reset("max_poll_interval_ms was exceeded", keep_id=False)
        self._maybe_join(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """Returns when it needs a Ticked, to retry a request."""
        return self._conversation.retry_at if self._may_join() else None

    def _move(self, trigger: MemberTrigger) -> None:
        self.state = move(CLASSIC_MEMBER, self.state, trigger)

    # ------------------------------------------------------------------ properties

    @property
    def member_id(self) -> str:
        """The id from the coordinator. Before that: ""."""
        return self._conversation.member_id

    @property
    def generation(self) -> int:
        """The generation of the last join. -1 outside the group."""
        return self._conversation.generation

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the application owns."""
        return self._rebalance.owned.partitions

    @property
    def is_settled(self) -> bool:
        """Whether the application has the group's assignment, and no rebalance is known."""
        rebalance = self._rebalance
        is_told = rebalance.synced is None and rebalance.reason is None
        return self.state is MemberState.STABLE and is_told

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the membership, which fences this member's commits and transactions."""
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
        """Returns why a commit cannot succeed now, or None."""
        if self.state is MemberState.STABLE:
            return None
        joining = self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
        if joining or (self.state is MemberState.UNJOINED and self.generation >= 0):
            return RebalanceInProgressError(
                "the group is rebalancing. Call poll() until it is done, then commit again for the"
                " partitions that are still assigned"
            )
        return CommitFailedError()

    # ------------------------------------------------------------------ callbacks

    def _run(self, callbacks: Sequence[MemberAction], after: Callable[[], None]) -> None:
        """Makes the driver run callbacks. `after` runs when they are done."""
        self._actions += callbacks
        self._after_callbacks = after

    def _callbacks_done(self) -> None:
        after, self._after_callbacks = self._after_callbacks, None
        if after is not None:
            after()

    def _advance(self) -> None:
        """Continues with the next callbacks for the application, unless callbacks are running."""
        if self._after_callbacks is not None:
            return
        callbacks = self._rebalance.turn(self.state)
        if callbacks:
            self._run(callbacks, self._advance)

    # ------------------------------------------------------------------ JoinGroup, SyncGroup

    def _may_join(self) -> bool:
        """Whether JoinGroup may be sent, as soon as the backoff allows."""
        waits = self._waits_for_poll or self._after_callbacks is not None
        return not waits and self._rebalance.is_ready(self.state)

    def _maybe_join(self, now: float) -> None:
        if self._may_join() and self._conversation.is_due(now):
            self._move(MemberTrigger.JOIN)
            self._send_join()

    def _send_join(self) -> None:
        self._leader.resign()
        try:
            protocols = self._rebalance.protocols(self._settings.client_rack)
        except KafkaError as error:
            self._tell(error)
        else:
            self._actions += self._conversation.join(protocols, self._rebalance.reason or "")

    def _responded(self, event: Responded, now: float) -> None:
        if not self._conversation.takes(event.token):
            return  # it belongs to a rebalance that has ended
        if event.body is None:
            self._request_failed(event.error or KafkaError("no response"), now)
        elif (
            event.body["ErrorCode"] == MemberIdRequiredError.errno
            and self.state is MemberState.PREPARING_REBALANCE
        ):
            self._conversation.member_id = event.body["MemberId"]
            self._send_join()
        elif event.body["ErrorCode"] != NoError.errno:
            self._refused(event.body["ErrorCode"], now)
        elif self.state is MemberState.PREPARING_REBALANCE:
            self._joined(event.body)
        else:
            self._synced(event.body)

    def _joined(self, body: Mapping[str, Any]) -> None:
        try:
            beats = self._conversation.joined(body, self._assignors)
        except InconsistentGroupProtocolError as error:
            self._actions += self._conversation.stop()
            self._tell(error)
            return
        self._move(MemberTrigger.JOINED)
        self._actions += beats
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
        self._actions += self._conversation.sync([])

    def _lead(self) -> None:
        """Assigns the partitions of the group when its topics are known."""
        leader = self._leader
        if not leader.is_deciding:
            return
        if leader.watch():
            self._actions.append(WatchTopics(leader.watched))
            return
        try:
            rows = leader.decide(self._assignors, self._conversation.protocol)
        except KafkaError as error:
            self._tell(error)
        else:
            self._actions += self._conversation.sync(rows)

    def _synced(self, body: Mapping[str, Any]) -> None:
        try:
            given = self._conversation.synced(body)
        except KafkaError as error:
            self._tell(error)
            return
        self._move(MemberTrigger.SYNCED)
        self._rebalance.completed(given)

    # ------------------------------------------------------------------ errors

    def _request_failed(self, error: KafkaError, now: float) -> None:
        """Handles a request without a response: the coordinator may have moved."""
        if isinstance(error, RetriableError):
            self._actions.append(ForgetCoordinator())
            self._retry(now)
        else:
            self._tell(error)

    def _refused(self, code: int, now: float) -> None:
        """Handles an error code in a response to JoinGroup or SyncGroup."""
        match meaning := verdict(code):
            case Verdict.UNKNOWN | Verdict.STALE:
                self._reset(for_code(code).__name__, keep_id=meaning is Verdict.STALE)
                self._conversation.failed(now, at_once=True)
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
                self._tell(refusal(code, self._settings, self._assignors.names))

    def _retry(self, now: float, at_once: bool = False) -> None:
        """Joins again: after a wait, or at once if it has not failed too often."""
        self._conversation.failed(now, at_once=at_once)
        self._move(MemberTrigger.FAILED)

    def _tell(self, error: KafkaError) -> None:
        """Passes an error of a join to the application. Its next poll retries."""
        self._actions.append(Raise(error))
        self._waits_for_poll = True
        self._move(MemberTrigger.FAILED)

    def _reset(
        self, reason: str, keep_id: bool, trigger: MemberTrigger = MemberTrigger.ENDED
    ) -> None:
        """Ends the membership. The next Polled reports the owned partitions as lost."""
        self._actions += self._conversation.end(keep_id=keep_id)
        self._rebalance.reset(reason)
        self._leader.resign()
        self._move(trigger)

    def _fail(self) -> None:
        self._reset("fenced", keep_id=False, trigger=MemberTrigger.FENCED)
        self._actions.append(
            Fail(
                FencedInstanceIdError(
                    f"another consumer of group {self._settings.group_id} uses group_instance_id"
                    f" {self._settings.group_instance_id!r} and has replaced this one. Set a"
                    " different group_instance_id for each consumer"
                )
            )
        )

    # ------------------------------------------------------------------ heartbeats, commits

    def _heartbeat_responded(
        self, body: Mapping[str, Any] | None, error: KafkaError | None
    ) -> None:
        if not self._conversation.is_beating:
            return  # it belongs to an older membership
        if body is not None:
            self._heard(body["ErrorCode"])
        elif isinstance(error, RetriableError):
            self._actions.append(ForgetCoordinator())
        elif error is not None:
            self._actions.append(Raise(error))

    def _commit_refused(self, code: int, generation: int) -> None:
        # The response to a JoinGroup in flight decides whether this is still a member. A reset
        # before that response would turn each rebalance into another one.
        current = generation == self.generation and self.state is MemberState.STABLE
        if current and verdict(code) is not Verdict.TELL:  # the commit itself raises these
            self._heard(code)

    def _heard(self, code: int) -> None:
        """Handles an error code in a response to a heartbeat or a commit."""
        match meaning := verdict(code):
            case Verdict.UNKNOWN | Verdict.STALE:
                self._reset(for_code(code).__name__, keep_id=meaning is Verdict.STALE)
            case Verdict.REBALANCE if self.state is MemberState.STABLE:
                self._rebalance.reason = self._rebalance.reason or "the group rebalances"
            case Verdict.MOVED:
                self._actions.append(ForgetCoordinator())
            case Verdict.FENCED:
                self._fail()
            case Verdict.TELL:
                kind, group = for_code(code), self._settings.group_id
                self._actions.append(
                    Raise(kind(f"the heartbeat to group {group!r} failed: {kind.description}"))
                )

    # ------------------------------------------------------------------ going

    def _unsubscribe(self) -> None:
        self._rebalance.topics = None
        self._leader.watched = frozenset()  # the driver no longer looks for topics
        self._give_up(lambda: self._leave("the consumer unsubscribed"))

    def _close(self, leave: bool) -> None:
        if self.state is MemberState.CLOSED:
            return
        self._rebalance.topics = None

        def end() -> None:
            if leave:
                self._leave("the consumer closes")
            self._actions += self._conversation.stop()
            self._move(MemberTrigger.CLOSED)

        self._give_up(end)

    def _give_up(self, after: Callable[[], None]) -> None:
        """Gives up all partitions. They are lost if their offsets can no longer be committed."""
        before = self._after_callbacks
        if before is not None:

            def once_done() -> None:
                before()
                if self.state is not MemberState.CLOSED:
                    self._give_up(after)

            # A listener is running and may commit, so stay a member until it is done.
            self._after_callbacks = once_done
            return
        callbacks = self._rebalance.owned.given_up(lost=self.commit_refusal() is not None)
        if callbacks:
            self._run(callbacks, after)
        else:
            after()

    def _leave(self, reason: str) -> None:
        farewell = self._conversation.leave(reason)  # before the reset, which drops the member id
        if self.state is not MemberState.FATAL:
            self._reset(reason, keep_id=False)
            self._rebalance.reason = None
        self._actions += farewell
