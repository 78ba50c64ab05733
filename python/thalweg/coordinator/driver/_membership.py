"""One membership in a group: runs the member's state machine.

    before_poll ── events ──> member.step ── actions ──> requests to the coordinator
                                                     ├─> heartbeats, repeated by Rust
                                                     └─> chores, in their order: auto-commit,
                                                         listener, assignment

Chores run in the thread that polls. What one of them has to wait for (an auto-commit before
partitions go, a listener of asyncio) is waited for between polls, not in them: meanwhile no records
are handed out, as nobody would commit them.
"""

import contextlib
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._clock import now_ms, soonest
from thalweg.coordinator.driver._figures import Figures
from thalweg.coordinator.driver._members import jitter, make_member
from thalweg.coordinator.driver._offsets import CommittedOffsets
from thalweg.coordinator.driver._topics import Found, Topics
from thalweg.coordinator.driver._waits import Wait, Waiting
from thalweg.coordinator.listener import Listener, tell
from thalweg.coordinator.steps import (
    Answered,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitAnswered,
    Fail,
    ForgetCoordinator,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
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
    KafkaError,
    MemberIdRequiredError,
    RetriableError,
    StaleMemberEpochError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

__all__ = ["Membership"]

Chore = AutoCommit | Revoke | Lose | Assign
# An auto-commit before a rebalance is given up after so long: the group is not kept waiting.
_AUTO_COMMIT_LIMIT_MS: Final = 5000.0
# Who leaves waits no longer for the answer: without it the session ends all the same.
_LEAVE_LIMIT_MS: Final = 5000.0
_REBALANCING: Final = ("JoinGroup", "SyncGroup")


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request, and when it was sent."""

    api: str
    request: Any
    began_ms: float
    leaves: bool


@dataclass
class _UnderWay:
    """What a chore waits for.

    Attributes:
        is_done: Whether that is over.
        until_ms: When it is given up; None: not before the end.
        task: The listener's; None: it is a commit, or time.
        is_pause: It is time.
        then: What is left to do.
    """

    is_done: Callable[[], bool]
    until_ms: float | None = None
    task: Any = None
    is_pause: bool = False
    then: Callable[[], object] | None = None

    def is_over(self) -> bool:
        """Done, or given up."""
        return self.is_done() or (self.until_ms is not None and now_ms() >= self.until_ms)


class Membership:
    """A consumer's part in its group.

    Attributes:
        listener: Told of changes of partitions.
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
        figures: Figures,
        spawn: Callable[[Awaitable[object]], Any] | None = None,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._on_answer = on_answer
        self._member = make_member(config, assignors)
        self._node = ("coordinator", "group", config["group_id"])
        self._requests: dict[int, _Sent] = {}
        self._chores: deque[Chore] = deque()
        self._at_work = False
        self.is_leaving = False
        self._is_unfinished = False  # the member waits to hear that its chores are done
        self._under_way: _UnderWay | None = None
        self._blocks = blocks
        self._figures = figures
        self._spawn = spawn
        self._was_assigned = False
        self._is_new = False  # an assignment that is not wholly taken yet
        self._raised: deque[KafkaError] = deque()
        self._failed: KafkaError | None = None
        self.listener: Listener | None = None

    # ------------------------------------------------------------------ from poll

    def subscribe(self, topics: frozenset[str], regex: str | None = None) -> None:
        """Subscribes to topics by name, or by a pattern that the broker evaluates."""
        self.is_leaving = False
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
            if not self._chores and self._under_way is None:
                self._step(Polled())
                self._work()
        self._end_leaving()
        if self._failed is not None:
            raise self._failed
        if self._raised:
            raise self._raised.popleft()
        given_up = None if self._under_way is None else self._under_way.until_ms
        return soonest([self._member.next_deadline(), given_up])

    def wait(self) -> float | None:
        """Goes on as far as it takes no callback, and nothing away; the time of the next call.

        Raises:
            KafkaError: The membership has failed for good.
        """
        self.keep_up()
        if self._failed is not None:
            raise self._failed
        return self._member.next_deadline()

    def _is_blocked(self) -> bool:
        """Whether records are in work that must not lose their partitions, and have not yet."""
        if self.is_leaving:
            return False
        lost = isinstance(self._member.commit_refusal(), CommitFailedError)
        return self._blocks() and not lost

    def keep_up(self) -> None:
        """Takes in what the coordinator has said; runs no callback."""
        if self._consumer._poll_expired():
            self._step(PollExpired())
        for body, error in self._consumer._notable_heartbeats():
            self._step(HeartbeatAnswered(body, error))
        for token, sent in list(self._requests.items()):
            if sent.request.is_done:
                del self._requests[token]
                self._step(self._answer(token, sent))
        due = self._member.next_deadline()
        if due is not None and now_ms() >= due:
            self._step(Ticked())

    def _answer(self, token: int, sent: _Sent) -> Answered:
        try:
            answer = Answered(token, sent.request.result(0))
        except KafkaError as error:
            answer = Answered(token, None, error)
        if sent.api in _REBALANCING and answer.body is not None:
            code = answer.body["ErrorCode"]
            if not code:
                self._figures.took(sent.api, sent.began_ms)
            elif code != MemberIdRequiredError.errno:
                self._figures.rebalance_failed()
        return answer

    # ------------------------------------------------------------------ what the member wants

    def _step(self, event: MemberEvent) -> None:
        for action in self._member.step(event, now_ms()):
            self._do(action)

    def _do(self, action: MemberAction) -> None:
        match action:
            case Send():
                self._send(action)
            case Heartbeats():
                self._consumer._heartbeat(*self._plan(action))
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
                self._chores.append(action)

    def _send(self, action: Send) -> None:
        timeout_ms = int(action.timeout_ms)
        if action.heartbeats is not None:
            request = self._consumer._join(action.body, timeout_ms, *self._plan(action.heartbeats))
        else:
            request = self._consumer.client.submit(
                action.api, action.body, self._node, timeout_ms=timeout_ms
            )
        self._requests[action.token] = _Sent(action.api, request, now_ms(), action.leaves)
        if action.api in _REBALANCING:
            self._figures.rebalance_goes_on()
        request.add_done_callback(self._on_answer)

    def _plan(self, beats: Heartbeats) -> tuple[Any, ...]:
        """As the core takes it."""
        interval_ms, limit_ms = int(beats.interval_ms), int(beats.max_poll_interval_ms)
        within = beats.answer_within_ms
        answer_ms = None if within is None else int(within)
        return beats.api, beats.body, self._node, interval_ms, beats.leave, limit_ms, answer_ms

    # ------------------------------------------------------------------ chores

    def _work(self) -> None:
        """Does what is to be done in the application's thread, as far as it need not wait."""
        if self._at_work or not (self._chores or self._under_way or self._is_unfinished):
            return  # a listener that commits or seeks comes by here again
        self._at_work = self._is_unfinished = True
        try:
            while self._is_free() and self._chores:
                self._begin(self._chores.popleft())
        finally:
            self._at_work = False
        if self._under_way is None:
            self._is_unfinished = False
            if self._is_new:
                self._is_new = False
                self._figures.rebalance_is_over()
            self._step(CallbacksDone())
            self._work()

    def _is_free(self) -> bool:
        """Whether nothing is waited for any more."""
        under_way = self._under_way
        if under_way is None:
            return True
        if under_way.task is None:
            self._offsets.tell_outcomes()
        if not under_way.is_over():
            return False
        self._under_way = None
        self._consumer._hold(False)
        if under_way.then is not None:
            under_way.then()  # perhaps to wait for more
        return self._under_way is None

    def _begin(self, chore: Chore) -> None:
        self._figures.rebalance_goes_on()
        match chore:
            case AutoCommit():
                self._auto_commit(self._backoff(), now_ms() + _AUTO_COMMIT_LIMIT_MS)
            case Revoke(partitions):
                then = functools.partial(self._take_away, partitions)
                self._tell("on_partitions_revoked", partitions, then)
            case Lose(partitions):
                then = functools.partial(self._take_away, partitions)
                self._tell("on_partitions_lost", partitions, then)
            case Assign(assigned, added):
                self._was_assigned = self._is_new = True
                self._offsets.forget(added)
                self._assign(assigned)
                self._tell("on_partitions_assigned", added, None)

    def _auto_commit(self, backoff: Backoff, until_ms: float) -> None:
        """Commits, and again after what a retry may cure, until it is to be given up."""
        future = self._offsets.commit_what_moved()
        if future is None:
            return

        commit = _UnderWay(lambda: future.is_done, until_ms)

        def over() -> None:
            again_ms = now_ms() + backoff.failed()
            # Not its own limit: who leaves may have less time.
            if self._may_retry(future.exception) and again_ms < (commit.until_ms or again_ms):
                pause = _UnderWay(lambda: False, again_ms, is_pause=True)
                pause.then = lambda: self._commit_again(pause, again_ms, backoff, until_ms)
                self._wait(pause)

        commit.then = over
        self._wait(commit)

    def _commit_again(
        self, pause: _UnderWay, again_ms: float, backoff: Backoff, until_ms: float
    ) -> None:
        if pause.until_ms == again_ms:  # else it was cut short: the time is over
            self._auto_commit(backoff, until_ms)

    @staticmethod
    def _may_retry(error: BaseException | None) -> bool:
        """Whether another try may succeed, while the group waits."""
        if isinstance(error, StaleMemberEpochError):
            return True  # the new epoch comes by itself, and the next try carries it
        # Of topics that are gone nothing needs to be kept.
        return isinstance(error, RetriableError) and not isinstance(
            error, UnknownTopicOrPartitionError
        )

    def _backoff(self) -> Backoff:
        config = self._config
        return Backoff(config["retry_backoff_ms"], config["retry_backoff_max_ms"], jitter)

    def _tell(
        self,
        what: str,
        partitions: tuple[TopicPartition, ...],
        then: Callable[[], object] | None,
    ) -> None:
        began_ms = now_ms()

        def told() -> None:
            self._figures.took(what, began_ms)
            if then is not None:
                then()

        try:
            task = tell(self.listener, what, partitions, self._spawn)
        except BaseException:
            told()  # interrupted, it is not called again, and its partitions go all the same
            raise
        if task is not None:
            self._wait(_UnderWay(task.done, task=task, then=told))
        else:
            told()

    def _wait(self, under_way: _UnderWay) -> None:
        self._under_way = under_way
        self._consumer._hold(True)

    def _take_away(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._offsets.forget(partitions)
        left = self._consumer.assignment() - set(partitions)
        self._assign(sorted(left))

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer._assign(partitions)
        self._figures.has(len(partitions))

    # ------------------------------------------------------------------ what others ask

    def has_partitions(self) -> bool:
        """Whether the group has said which, and the listener has heard of it."""
        return self._was_assigned and self._under_way is None

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as commits carry it."""
        return self._member.group_metadata()

    def commit_refusal(self) -> KafkaError | None:
        """Why it cannot commit now, if it cannot."""
        return self._member.commit_refusal()

    def commit_answered(self, code: int, generation: int) -> None:
        """The group refused a commit; what follows from that, the next poll does."""
        self._step(CommitAnswered(code, generation))
        self._on_answer(None)  # a synchronous commit: nothing else has the core call before_poll

    # ------------------------------------------------------------------ the end

    def unsubscribe(self, deadline_ms: float) -> Waiting[None]:
        """Gives the partitions up and leaves the group, until it is subscribed again."""
        yield from self._leave(Unsubscribed(), deadline_ms)
        self._raised.clear()
        self._was_assigned = False

    def close(self, deadline_ms: float, *, commit: bool) -> Waiting[None]:
        """The same for good; without `commit` not even auto-commit writes down what was read."""
        yield from self._leave(Closed(leave=True), deadline_ms, commit=commit)

    def _leave(
        self, event: MemberEvent, deadline_ms: float, *, commit: bool = True
    ) -> Waiting[None]:
        """Within a limit; errors are logged."""
        self.is_leaving = True
        self._topics.clear()  # what is found out about topics meanwhile is no news to the member
        self.keep_up()
        # A JoinGroup that waits is of no interest any more; the epoch that a report brings is.
        kept = [each for each in self._requests.items() if each[1].api not in _REBALANCING]
        self._requests = dict(kept)
        try:
            yield from self._give_up(event, deadline_ms, commit)
            if self._at_work and isinstance(event, Closed):
                # Closed by its own listener: after that nothing is left to run what is to be done.
                for _ in range(2):  # the listener's own chore, and those of giving up the rest
                    self._chores.clear()
                    self._step(CallbacksDone())
            yield from self.until_left(deadline_ms)
            self._end_leaving()
        finally:
            # Also if it was interrupted: a static member's would keep it in the group.
            self._consumer._stop_heartbeat()
            self._figures.left()

    def _end_leaving(self) -> None:
        """The membership is given up, unless something of it is left to do.

        So it is for who unsubscribes within a listener: what that has to end goes on after it.
        """
        is_at_it = self._at_work or self._is_unfinished or self._chores or self._under_way
        self.is_leaving = self.is_leaving and bool(is_at_it)

    def until_left(self, deadline_ms: float) -> Waiting[None]:
        """Waits for the answer to LeaveGroup, if one was sent."""
        deadline_ms = min(deadline_ms, now_ms() + _LEAVE_LIMIT_MS)
        for token, sent in list(self._requests.items()):
            if not sent.leaves:
                continue
            with contextlib.suppress(KafkaError):
                yield Wait(sent.request, deadline_ms)
            if self._requests.pop(token, None) is not None:
                self._step(self._answer(token, sent))

    def _give_up(self, event: MemberEvent, deadline_ms: float, commit: bool) -> Waiting[None]:
        """All partitions, with the chores that this takes."""
        self._step(event)
        if not commit:
            self._chores = deque(c for c in self._chores if not isinstance(c, AutoCommit))
        self._work()
        while self._under_way is not None:
            yield from self._until_over(self._under_way, deadline_ms)
            self.keep_up()
            self._work()

    def _until_over(self, under_way: _UnderWay, deadline_ms: float) -> Waiting[None]:
        """Waits for what a chore waits for, and gives it up when the time is over."""
        limit = min(deadline_ms, under_way.until_ms or deadline_ms)
        if under_way.is_pause:
            yield Wait(None, limit)
        elif under_way.task is None:
            yield from self._offsets.finish(limit)
        else:
            yield Wait(under_way.task, limit)
        if now_ms() >= limit:
            under_way.until_ms = limit
