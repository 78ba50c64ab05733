"""One membership in a group: runs the member's state machine.

    before_poll ── events ──> member.step ── actions ──> requests to the coordinator
                                                     ├─> heartbeats, repeated by Rust
                                                     └─> _chores.py: commit, listener, assignment
                                                           └─ all are done ──> member.step

The member steps wherever a call waits. Its chores are done only in polls, and by who leaves.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._background import Work, is_long_answer
from thalweg.coordinator.driver._chores import Chores
from thalweg.coordinator.driver._clock import now_ms, soonest
from thalweg.coordinator.driver._group_log import GroupLog
from thalweg.coordinator.driver._look import Found
from thalweg.coordinator.driver._members import is_built_in, jitter, make_member
from thalweg.coordinator.driver._metrics import GroupMetrics
from thalweg.coordinator.driver._offsets import CommittedOffsets
from thalweg.coordinator.driver._stepping import Stepping
from thalweg.coordinator.driver._topics import Topics
from thalweg.coordinator.driver._waits import Wait, Waiting
from thalweg.coordinator.listener import Listener
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
    KafkaError,
    KafkaTimeoutError,
    MemberIdRequiredError,
    RetriableError,
    for_code,
)
from thalweg.structs import ConsumerGroupMetadata

__all__ = ["Membership"]

log = logging.getLogger("thalweg.coordinator")

_REBALANCING: Final = ("JoinGroup", "SyncGroup")


@dataclass(slots=True)
class _Sent:
    """A request, and when it was sent.

    Attributes:
        action: What the member asked for.
        retry_at_ms: When to send it again; None while its answer is waited for.
        failure: Why it is sent again.
    """

    action: Send
    request: Any
    began_ms: float
    retry_at_ms: float | None = None
    failure: KafkaError | None = None


class Membership:
    """A consumer's part in its group.

    Attributes:
        is_leaving: Whether the membership is given up, until all that this takes is done. If it
            is interrupted, another `unsubscribe` or `close` goes on with it, and so do polls.
    """

    def __init__(
        self,
        consumer: Any,
        config: Mapping[str, Any],
        assignors: Sequence[AbstractPartitionAssignor],
        topics: Topics,
        offsets: CommittedOffsets,
        on_answer: Callable[[Any], object],
        blocks: Callable[[], bool],
        metrics: GroupMetrics,
        spawn: Callable[[Awaitable[object]], Any] | None = None,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._topics = topics
        self._on_answer = on_answer
        self._steps = Stepping(
            make_member(config, assignors),
            self._do,
            on_answer,
            may_be_long=all(map(is_built_in, assignors)),
        )
        self._node = ("coordinator", "group", config["group_id"])
        self._requests: dict[int, _Sent] = {}
        self._log = GroupLog(config)
        self._leave_backoff = Backoff(
            config["retry_backoff_ms"], config["retry_backoff_max_ms"], jitter
        )
        self._chores = Chores(consumer, config, offsets, metrics, spawn)
        self.is_leaving = False
        self._blocks = blocks
        self._metrics = metrics
        self._raised: deque[KafkaError] = deque()
        self._failed: KafkaError | None = None

    @property
    def listener(self) -> Listener | None:
        """Told of changes of partitions."""
        return self._chores.listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        self._chores.listener = listener

    # ------------------------------------------------------------------ from poll

    def subscribe(self, topics: frozenset[str], regex: str | None = None) -> None:
        """Subscribes to topics by name, or by a pattern that the broker evaluates."""
        self.is_leaving = self._steps.at_once = False
        self._step(Subscribed(topics, regex))

    def take(self, found: Found) -> None:
        """What is known of the topics has changed."""
        if self._topics.is_pattern:
            self._step(Subscribed(found.names))
        self._step(TopicsChanged(found.partitions, found.racks, found.ids))

    def poll(self) -> float | None:
        """Goes on with the membership; the time of the next call.

        Raises:
            KafkaError: What is wrong with the membership.
        """
        self.keep_up()
        if not self._is_blocked():
            self._work()
            chores = self._chores
            if not (chores.has_more or chores.is_waiting or self._steps.under_way):
                self._step(Polled())
                self._work()
        self._end_leaving()
        if self._failed is not None:
            raise self._failed
        if self._raised:
            raise self._raised.popleft()
        return soonest(
            [self._steps.next_deadline, self._chores.given_up_ms, self._leave_again_ms()]
        )

    def wait(self) -> float | None:
        """Goes on as far as it takes no callback, and nothing away; the time of the next call.

        Raises:
            KafkaError: The membership has failed for good.
        """
        self.keep_up()
        if self._failed is not None:
            raise self._failed
        return self._steps.next_deadline

    def _is_blocked(self) -> bool:
        """Whether records are in work that must not lose their partitions, and have not yet."""
        if self.is_leaving or not self._blocks():
            return False
        return not isinstance(self._steps.commit_refusal, CommitFailedError)

    def keep_up(self) -> None:
        """Takes in what the coordinator has said; runs no callback."""
        self._steps.finish()
        if self._consumer._poll_expired():
            self._step(PollExpired())
        for body, error in self._consumer._notable_heartbeats():
            self._step(HeartbeatAnswered(body, error))
        self._take_answers()
        due = self._steps.next_deadline
        if due is not None and now_ms() >= due:
            self._step(Ticked())

    def _take_answers(self) -> None:
        for token, sent in list(self._requests.items()):
            if sent.retry_at_ms is not None:
                if now_ms() >= sent.retry_at_ms:
                    self._send(sent.action)
            elif sent.request.is_done and is_long_answer(sent.request):
                sent.request = self._reading(sent.request)
            elif sent.request.is_done:
                answer = self._answer(token, sent)
                if sent.action.leaves and self._leaves_again(sent, answer):
                    continue
                del self._requests[token]
                self._step(answer)

    def _reading(self, request: Any) -> Work[Any]:
        """A long answer, read in the background."""
        work: Work[Any] = Work(lambda: request.result(0))
        work.add_done_callback(self._on_answer)
        return work

    def _answer(self, token: int, sent: _Sent) -> Answered:
        try:
            answer = Answered(token, sent.request.result(0))
        except KafkaError as error:
            answer = Answered(token, None, error)
        if answer.body is not None:
            self._log.answered(sent.action, answer.body)
        if sent.action.api in _REBALANCING and answer.body is not None:
            code = answer.body["ErrorCode"]
            if not code:
                self._metrics.took(sent.action.api, sent.began_ms)
            elif code != MemberIdRequiredError.errno:
                self._metrics.rebalance_failed()
        return answer

    # ------------------------------------------------------------------ what the member wants

    def _step(self, event: MemberEvent) -> None:
        self._steps.step(event)

    def _work(self) -> None:
        """Does what is to be done in the application's thread, as far as it need not wait."""
        while self._chores.work():
            self._step(CallbacksDone())

    def _do(self, action: MemberAction) -> None:
        self._log.acts(action, self._steps.group_metadata)
        match action:
            case Send():
                self._send(action)
            case Heartbeats():
                self._consumer._heartbeat(action, self._node)
            case StopHeartbeats():
                self._consumer._stop_heartbeat()
            case ForgetCoordinator():
                self._consumer.client.forget_coordinator("group", self._config["group_id"])
            case WatchTopics():
                self._topics.watch(action.topics, action.ids)
            case Raise():
                if repr(action.error) not in map(repr, self._raised):
                    self._raised.append(action.error)
            case Fail():
                self._failed = action.error
            case _:
                self._chores.add(action)

    def _send(self, action: Send) -> None:
        timeout_ms = int(action.timeout_ms)
        if action.heartbeats is not None:
            request = self._consumer._join(action.body, timeout_ms, action.heartbeats, self._node)
        else:
            request = self._consumer.client.submit(
                action.api, action.body, self._node, timeout_ms=timeout_ms
            )
        self._requests[action.token] = _Sent(action, request, now_ms())
        if action.api in _REBALANCING:
            self._metrics.rebalance_goes_on()
        request.add_done_callback(self._on_answer)

    # ------------------------------------------------------------------ what others ask

    def has_partitions(self) -> bool:
        """Whether the group has said which, and the listener has heard of it."""
        return self._chores.was_assigned and not self._chores.is_waiting

    def is_settled(self) -> bool:
        """Whether no partitions are about to come."""
        return self._steps.is_settled and self._chores.is_idle

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as commits carry it."""
        return self._steps.group_metadata

    def commit_refusal(self) -> KafkaError | None:
        """Why it cannot commit now, if it cannot."""
        return self._steps.commit_refusal

    def commit_answered(self, code: int, generation: int) -> None:
        """The group refused a commit; what follows from that, the next poll does."""
        self._step(CommitAnswered(code, generation))
        self._on_answer(None)  # a synchronous commit: nothing else has the core call before_poll

    # ------------------------------------------------------------------ the end

    def unsubscribe(self, deadline_ms: float) -> Waiting[None]:
        """Gives the partitions up and leaves the group, until it is subscribed again."""
        yield from self._leave(Unsubscribed(), deadline_ms)
        self._raised.clear()
        self._chores.was_assigned = False

    def close(self, deadline_ms: float, *, commit: bool) -> Waiting[None]:
        """The same for good; without `commit` not even auto-commit writes down what was read."""
        yield from self._leave(Closed(leave=True), deadline_ms, commit=commit)

    def _leave(
        self, event: MemberEvent, deadline_ms: float, *, commit: bool = True
    ) -> Waiting[None]:
        """Within a limit; errors are logged."""
        self.is_leaving = True
        self._topics.clear()  # what is found out about topics meanwhile is no news to the member
        self._steps.at_once = True
        if self._steps.under_way is not None:
            with contextlib.suppress(KafkaError):
                yield Wait(self._steps.under_way, deadline_ms)
            self._steps.finish(wait=True)  # it only computes: that soon ends
        self.keep_up()
        # A JoinGroup that waits is of no interest any more; the epoch that a report brings is.
        self._requests = {
            token: sent
            for token, sent in self._requests.items()
            if sent.action.api not in _REBALANCING
        }
        try:
            yield from self._give_up(event, deadline_ms, commit)
            if self._chores.is_at_work and isinstance(event, Closed):
                # Closed by its own listener: after that nothing is left to run what is to be done.
                for _ in range(2):  # the listener's own chore, and those of giving up the rest
                    self._chores.clear()
                    self._step(CallbacksDone())
            yield from self.until_left(deadline_ms)
            self._end_leaving()
        finally:
            # Also if it was interrupted: a static member's would keep it in the group.
            self._consumer._stop_heartbeat()
            self._metrics.left()

    def _end_leaving(self) -> None:
        """The membership is given up, unless something of it is left to do.

        So it is for who unsubscribes within a listener: what that has to end goes on after it.
        """
        self.is_leaving = self.is_leaving and not self._chores.is_idle

    def until_left(self, deadline_ms: float) -> Waiting[None]:
        """Waits until the group has heard that the member leaves, or the time is over."""
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
        """Takes answers to what was not waited for; the time of the next call."""
        if self._leave_request() is not None:
            self._take_answers()
        return self._leave_again_ms()

    def _leave_request(self) -> tuple[int, _Sent] | None:
        """The request that ends the membership, with its token, while it is not answered."""
        found = (each for each in self._requests.items() if each[1].action.leaves)
        return next(found, None)

    def _leave_again_ms(self) -> float | None:
        return soonest(sent.retry_at_ms for sent in self._requests.values())

    def _leaves_again(self, sent: _Sent, answer: Answered) -> bool:
        """Plans another try if the group may not have heard that the member leaves.

        Without one the group keeps its partitions for it until the session ends.
        """
        error = answer.error
        if answer.body is not None:
            error = for_code(answer.body["ErrorCode"])()
        if not isinstance(error, RetriableError):
            self._leave_backoff.reset()
            return False
        self._do(ForgetCoordinator())
        sent.retry_at_ms = now_ms() + self._leave_backoff.failed()
        sent.failure = error
        log.debug("leaving group %s: %s; trying again", self._config["group_id"], error)
        return True

    def _leave_is_given_up(self, token: int, sent: _Sent) -> None:
        log.warning(
            "consumer of group %s could not tell the group that it leaves: %s. The group keeps its"
            " partitions for it until its session times out.",
            self._config["group_id"],
            sent.failure or "no answer in time",
        )
        self._leave_backoff.reset()
        self._step(Answered(token, None, sent.failure or KafkaTimeoutError("no answer in time")))

    def _give_up(self, event: MemberEvent, deadline_ms: float, commit: bool) -> Waiting[None]:
        """All partitions, with the chores that this takes."""
        self._step(event)
        if not commit:
            self._chores.drop_commits()
        self._work()
        while self._chores.is_waiting:
            yield from self._chores.until_over(deadline_ms)
            self.keep_up()
            self._work()
