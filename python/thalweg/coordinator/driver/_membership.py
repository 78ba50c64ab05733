"""One membership in a group: runs the member's state machine.

    before_poll ── events ──> member.step ── actions ──> requests to the coordinator
                                                     ├─> heartbeats, repeated by Rust
                                                     └─> _chores.py: commit, listener, assignment
                                                           └─ all are done ──> member.step

The state machine may step in every call that waits. Its chores run only in polls, and when the
member leaves.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.assignors.registry import is_built_in
from thalweg.coordinator.driver._chores import Chores
from thalweg.coordinator.driver._machine import Interruptions, Stepping, make_member
from thalweg.coordinator.driver._monitoring import GroupLog, GroupMetrics
from thalweg.coordinator.driver._native import ConsumerCore, Group, Request, ResponseBody, explained
from thalweg.coordinator.driver._offset_commit import Commits
from thalweg.coordinator.driver._topics import Topics
from thalweg.coordinator.driver._waits import (
    Wait,
    Waiting,
    Work,
    is_long_response,
    now_ms,
    retry_backoff,
    soonest,
)
from thalweg.coordinator.listener import Listener, Spawn
from thalweg.coordinator.steps import (
    CallbacksDone,
    Closed,
    CommitRefused,
    Fail,
    ForgetCoordinator,
    HeartbeatResponded,
    Heartbeats,
    Lose,
    MemberAction,
    MemberEvent,
    OldHeartbeatsDone,
    Polled,
    PollExpired,
    Raise,
    Responded,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.coordinator.topics import Found
from thalweg.errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    MemberIdRequiredError,
    RetriableError,
    for_code,
)
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["Membership"]

log = logging.getLogger("thalweg.coordinator")

_REBALANCING: Final = ("JoinGroup", "SyncGroup")


@dataclass(slots=True)
class _Sent:
    """A request that was sent.

    Attributes:
        action: The action of the member that asked for it.
        retry_at_ms: When to send it again. None while it waits for its response.
        failure: Why it is sent again.
    """

    action: Send
    request: Request[ResponseBody]
    began_ms: float
    retry_at_ms: float | None = None
    failure: KafkaError | None = None


class Membership:
    """The membership of a consumer in its group.

    Attributes:
        group_id: The group.
        is_leaving: Whether the member is leaving the group. After an interruption, another
            `unsubscribe` or `close`, or a poll, continues to leave.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        group_id: str,
        assignors: Sequence[AbstractPartitionAssignor],
        topics: Topics,
        commits: Commits,
        on_response: Callable[[object], object],
        blocks: Callable[[], bool],
        metrics: GroupMetrics,
        spawn: Spawn | None,
        interruptions: Interruptions,
        member_id: str = "",
    ) -> None:
        self._consumer = consumer
        self.group_id = group_id
        self._topics = topics
        self._on_response = on_response
        self._steps = Stepping(
            make_member(config, group_id, assignors, member_id),
            self._do,
            on_response,
            may_be_long=all(map(is_built_in, assignors)),
        )
        self._node: Group = ("coordinator", "group", group_id)
        self._requests: dict[int, _Sent] = {}
        self._notable: deque[HeartbeatResponded] = deque()
        self._awaits_old_heartbeats = False
        self._log = GroupLog(config)
        self._leave_backoff = retry_backoff(config)
        self._interruptions = interruptions
        self._chores = Chores(
            consumer, config, commits, metrics, spawn, self._is_lost, interruptions
        )
        self.is_leaving = False
        self._leave_event: MemberEvent | None = None  # until the member has got it
        self._blocks = blocks
        self._metrics = metrics
        self._raised: dict[type[KafkaError], KafkaError] = {}  # the newest of each class
        self._failed: KafkaError | None = None

    @property
    def listener(self) -> Listener | None:
        """The rebalance listener."""
        return self._chores.listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        self._chores.listener = listener

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Keeps partitions that the user has assigned, when the group takes them away."""
        self._chores.kept = frozenset(partitions)

    def replace(self, partitions: Sequence[TopicPartition]) -> None:
        """Takes the place of an earlier membership, whose partitions are given up as lost."""
        self._consumer._stop_heartbeat()
        self._consumer._hold(False)
        if partitions:
            self._chores.add(Lose(tuple(partitions)))

    # ------------------------------------------------------------------ from poll

    def subscribe(self, topics: frozenset[str] | None, regex: str | None = None) -> None:
        """Subscribes to topics by name, or by a pattern of the broker. None: see `take`."""
        self.leave_at_last()
        self.is_leaving = self._steps.at_once = False
        if topics is not None:
            self._step(Subscribed(topics, regex))

    def take(self, found: Found) -> None:
        """Passes new metadata of the topics to the member."""
        if self._topics.is_pattern:
            self._step(Subscribed(found.names))
        self._step(TopicsChanged(found.partitions, found.racks, found.ids))

    def poll(self) -> float | None:
        """Does the work of a poll. Returns the time of the next call.

        Raises KafkaError: an error of the membership.
        """
        self.leave_at_last()
        self.keep_up()
        if not self._is_blocked():
            self._work()
            chores = self._chores
            if not (chores.has_more or chores.is_waiting or self._steps.unfinished):
                self._step(Polled())
                self._work()
        self._end_leaving()
        if self._failed is not None:
            raise self._failed
        if self._raised:
            raise self._raised.pop(next(iter(self._raised)))
        return soonest(
            [self._steps.next_deadline, self._chores.given_up_ms, self._leave_again_ms()]
        )

    def wait(self) -> float | None:
        """Does the work that calls no callback and takes no partition away.

        Returns:
            The time of the next call.

        Raises:
            KafkaError: If the membership has failed permanently.
        """
        self.keep_up()
        if self._failed is not None:
            raise self._failed
        return self._steps.next_deadline

    def _is_blocked(self) -> bool:
        """Whether polled records block a rebalance, and their partitions are still assigned."""
        return not self.is_leaving and self._blocks() and not self._is_lost()

    def _is_lost(self) -> bool:
        """Whether the membership has ended, so that other members may own the partitions."""
        return isinstance(self._steps.commit_refusal, CommitFailedError)

    def keep_up(self) -> None:
        """Handles responses of the coordinator and deadlines. It runs no callback."""
        with self._interruptions:
            self._keep_up()

    def _keep_up(self) -> None:
        self._steps.finish()
        if self._consumer._poll_expired():
            self._step(PollExpired())
        self._notable += (
            HeartbeatResponded(*told) for told in self._consumer._notable_heartbeats()
        )
        while self._notable and not self._notable[0].is_current:
            self._step(self._notable.popleft())
        self._take_responses()
        self._take_notable()
        if self._awaits_old_heartbeats and not self._consumer._old_heartbeat_is_in_flight():
            self._awaits_old_heartbeats = False
            self._step(OldHeartbeatsDone())
        due = self._steps.next_deadline
        if due is not None and now_ms() >= due:
            self._step(Ticked())

    def _take_notable(self) -> None:
        """Handles the outcomes of heartbeats that the member must know, oldest first."""
        while self._notable and not self._is_reading():
            self._step(self._notable.popleft())

    def _take_responses(self) -> None:
        for token, sent in list(self._requests.items()):
            if sent.retry_at_ms is not None:
                if now_ms() >= sent.retry_at_ms:
                    self._send(sent.action)
            elif sent.request.is_done and is_long_response(sent.request):
                sent.request = self._reading(sent.request)
            elif sent.request.is_done:
                response = self._response(token, sent)
                if sent.action.leaves and self._leaves_again(sent, response):
                    continue
                del self._requests[token]
                self._step(response)

    def _reading(self, request: Request[ResponseBody]) -> Work[ResponseBody]:
        """Reads a long response in the background."""
        work = Work(lambda: request.result(0))
        work.add_done_callback(self._on_response)
        return work

    def _is_reading(self) -> bool:
        return any(isinstance(sent.request, Work) for sent in self._requests.values())

    def _response(self, token: int, sent: _Sent) -> Responded:
        try:
            response = Responded(token, sent.request.result(0))
        except KafkaError as error:
            response = Responded(token, None, error)
        self._log.note_response(sent.action, response)
        if sent.action.api in _REBALANCING and response.body is not None:
            code = response.body["ErrorCode"]
            if not code:
                self._metrics.took(sent.action.api, sent.began_ms)
            elif code != MemberIdRequiredError.errno:
                self._metrics.rebalance_failed()
        return response

    # ------------------------------------------------------------------ actions of the member

    def _step(self, event: MemberEvent) -> None:
        with self._interruptions:
            self._steps.step(event)

    def _work(self) -> None:
        """Runs the chores, as far as they need not wait."""
        with self._interruptions:
            while self._chores.work():
                self._steps.step(CallbacksDone())

    def _do(self, action: MemberAction) -> None:
        self._log.acts(action, self._steps.group_metadata)
        match action:
            case Send():
                self._send(action)
            case Heartbeats():
                self._consumer._heartbeat(action, self._node)
                self._awaits_old_heartbeats = True
            case StopHeartbeats():
                self._consumer._stop_heartbeat()
            case ForgetCoordinator():
                self._consumer._core_client.forget_coordinator("group", self.group_id)
            case WatchTopics():
                self._topics.watch(action.topics, action.ids)
            case Raise():
                # A broker's text may differ each time, and polls raise one error each.
                self._raised[type(action.error)] = self._explained(action.error)
            case Fail():
                self._failed = self._explained(action.error)
            case _:
                self._chores.add(action)

    def _explained(self, error: KafkaError) -> KafkaError:
        return explained(self._consumer._core_client, error, "JoinGroup", self.group_id)

    def _send(self, action: Send) -> None:
        timeout_ms = int(action.timeout_ms)
        if action.heartbeats is not None:
            request = self._consumer._join(action.body, timeout_ms, action.heartbeats, self._node)
        else:
            request = self._consumer._core_client.submit(
                action.api, action.body, self._node, timeout_ms=timeout_ms
            )
        self._requests[action.token] = _Sent(action, request, now_ms())
        if action.api in _REBALANCING:
            self._metrics.rebalance_goes_on()
        request.add_done_callback(self._on_response)

    # ------------------------------------------------------------------ properties

    def has_partitions(self) -> bool:
        """Whether the group has assigned partitions (or none), and the listener was called."""
        return self._chores.was_assigned and not self._chores.is_waiting

    def is_settled(self) -> bool:
        """Whether no change of the assignment is in progress."""
        return self._steps.is_settled and self._chores.is_idle

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the membership, as in commits."""
        return self._steps.group_metadata

    def commit_refusal(self) -> KafkaError | None:
        """Returns why the member cannot commit now, or None."""
        return self._steps.commit_refusal

    def commit_refused(self, code: int, generation: int) -> None:
        """Tells the member that the group has refused a commit. The next poll acts on it."""
        self._step(CommitRefused(code, generation))
        self._on_response(None)  # after a synchronous commit, nothing else causes a before_poll

    # ------------------------------------------------------------------ the end

    def unsubscribe(self, deadline_ms: float) -> Waiting[None]:
        """Gives up the partitions and leaves the group. The consumer may subscribe again."""
        yield from self._leave(Unsubscribed(), deadline_ms)
        self._raised.clear()
        self._chores.was_assigned = False

    def close(self, deadline_ms: float, *, commit: bool) -> Waiting[None]:
        """Gives up the partitions and leaves the group for good. `commit`: with auto-commit."""
        yield from self._leave(Closed(leave=True), deadline_ms, commit=commit)

    def _leave(
        self, event: MemberEvent, deadline_ms: float, *, commit: bool = True
    ) -> Waiting[None]:
        """Leaves the group within the deadline. Errors are logged."""
        self._leave_event, self.is_leaving = event, True
        try:
            self._topics.clear()  # a leaving member needs no new metadata
            self._steps.at_once = True
            if self._steps.unfinished is not None:
                with contextlib.suppress(KafkaError):
                    yield Wait(self._steps.unfinished, deadline_ms)
                self._steps.finish(wait=True)  # it only computes, so it ends soon
            self.keep_up()
            # Ignore the response to a JoinGroup. But that to a report has an epoch that we need.
            self._requests = {
                token: sent
                for token, sent in self._requests.items()
                if sent.action.api not in _REBALANCING
            }
            yield from self._give_up(event, deadline_ms, commit)
            if self._chores.is_at_work and isinstance(event, Closed):
                # The listener closes its own consumer: no later call can run the remaining chores.
                for _ in range(2):  # the listener's own chore, and those that give up the rest
                    self._chores.clear()
                    self._step(CallbacksDone())
            yield from self.until_left(deadline_ms)
        finally:
            if self.is_leaving or isinstance(event, Closed):  # the listener may have subscribed
                # Also after an interruption: heartbeats would keep the member in the group.
                self._consumer._stop_heartbeat()
                self._metrics.left()
        self._end_leaving()

    def leave_at_last(self) -> None:
        """Leaves the group if an interruption ended `unsubscribe` before the member has left."""
        if self._leave_event is not None:
            self._step(self._leave_event)
            self._leave_event = None

    def leave_again(self) -> None:
        """Completes a leave after an interruption, which may have lost a chore or its result."""
        self.leave_at_last()
        for _ in range(2):  # those of now, and those that give up the rest
            self._chores.abandon()
            self._step(CallbacksDone())
        self.replace(sorted(self._consumer.assignment()))

    def _end_leaving(self) -> None:
        """Ends the leaving, unless chores are left.

        Some are left if a listener has unsubscribed: they run after the listener.
        """
        self.is_leaving = self.is_leaving and not self._chores.is_idle

    def until_left(self, deadline_ms: float) -> Waiting[None]:
        """Waits until the group has confirmed that the member leaves, or the time is over."""
        while (found := self._leave_request()) is not None:
            token, sent = found
            if sent.retry_at_ms is not None:
                yield Wait(None, min(sent.retry_at_ms, deadline_ms))
            else:
                with contextlib.suppress(KafkaError):
                    yield Wait(sent.request, deadline_ms)
            self.keep_up()
            if now_ms() >= deadline_ms and self._requests.pop(token, None) is not None:
                self._leave_is_given_up(token, sent)

    def keep_leaving(self) -> float | None:
        """Handles a response to a leave that no call waits for. Returns when to call it next."""
        if self._leave_request() is not None:
            self._take_responses()
        return self._leave_again_ms()

    def _leave_request(self) -> tuple[int, _Sent] | None:
        """Returns the token and the request that ends the membership, while it has no response."""
        found = (each for each in self._requests.items() if each[1].action.leaves)
        return next(found, None)

    def _leave_again_ms(self) -> float | None:
        return soonest(sent.retry_at_ms for sent in self._requests.values())

    def _leaves_again(self, sent: _Sent, response: Responded) -> bool:
        """Plans a retry if the group may not know that the member leaves.

        Otherwise the group would keep its partitions until the session times out.
        """
        error = response.error
        if response.body is not None:
            error = for_code(response.body["ErrorCode"])()
        if not isinstance(error, RetriableError):
            self._leave_backoff.reset()
            return False
        self._do(ForgetCoordinator())
        sent.retry_at_ms = now_ms() + self._leave_backoff.failed()
        sent.failure = error
        log.debug("leaving group %s: %s; trying again", self.group_id, error)
        return True

    def _leave_is_given_up(self, token: int, sent: _Sent) -> None:
        log.warning(
            "a consumer of group %s could not leave the group: %s. Its partitions stay assigned to"
            " it until its session times out.",
            self.group_id,
            sent.failure or "no response in time",
        )
        self._leave_backoff.reset()
        self._step(Responded(token, None, sent.failure or KafkaTimeoutError("no response in time")))

    def _give_up(self, event: MemberEvent, deadline_ms: float, commit: bool) -> Waiting[None]:
        """Gives up all partitions, with the chores for that."""
        self._step(event)
        self._leave_event = None
        if not commit:
            self._chores.drop_commits()
        self._work()
        # If a callback of a commit calls this, the wait ends only after that callback.
        while self._chores.is_waiting and not self._chores.is_at_work:
            with self._interruptions:
                yield from self._chores.until_over(deadline_ms)
            self.keep_up()
            self._work()
