"""What a membership does in the application's thread: auto-commit, listener, assignment.

    add ──> queue ── work() ──> the first of them ──> the next ──> all are done: True
                       ^               │ has to wait
                       └── next poll <─┴─> until_over(), for who leaves

What a chore has to wait for (an auto-commit before partitions go, a listener of asyncio) is waited
for between polls, not in them: meanwhile no records are handed out, as nobody would commit them.
What the chores are for, and what follows once they are done, `_membership.py` knows.
"""

import functools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._clock import now_ms
from thalweg.coordinator.driver._members import jitter
from thalweg.coordinator.driver._metrics import GroupMetrics
from thalweg.coordinator.driver._offsets import CommittedOffsets
from thalweg.coordinator.driver._waits import Wait, Waiting
from thalweg.coordinator.listener import Listener, tell
from thalweg.coordinator.steps import Assign, AutoCommit, Lose, Revoke
from thalweg.errors import RetriableError, StaleMemberEpochError, UnknownTopicOrPartitionError
from thalweg.structs import TopicPartition

__all__ = ["Chores"]

Chore = AutoCommit | Revoke | Lose | Assign
# An auto-commit before a rebalance is given up after so long: the group is not kept waiting.
_AUTO_COMMIT_LIMIT_MS: Final = 5000.0


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


class Chores:
    """The chores of one membership, done in the order in which they were added.

    Attributes:
        listener: Told of changes of partitions.
        is_at_work: Whether one of them runs now: a listener asks, or a commit's callback.
        was_assigned: Whether the group has said which partitions, until that is taken back.
    """

    def __init__(
        self,
        consumer: Any,
        config: Mapping[str, Any],
        offsets: CommittedOffsets,
        metrics: GroupMetrics,
        spawn: Callable[[Awaitable[object]], Any] | None,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._offsets = offsets
        self._metrics = metrics
        self._spawn = spawn
        self._queue: deque[Chore] = deque()
        self._under_way: _UnderWay | None = None
        self._is_unfinished = False  # the member waits to hear that its chores are done
        self._is_new = False  # an assignment that is not wholly taken yet
        self.listener: Listener | None = None
        self.is_at_work = False
        self.was_assigned = False

    # ------------------------------------------------------------------ what is to be done

    def add(self, chore: Chore) -> None:
        """Takes one more, which `work` does after those before it."""
        self._queue.append(chore)

    def clear(self) -> None:
        """Drops those that have not begun."""
        self._queue.clear()

    def drop_commits(self) -> None:
        """Drops the auto-commits that have not begun."""
        self._queue = deque(each for each in self._queue if not isinstance(each, AutoCommit))

    @property
    def has_more(self) -> bool:
        """Whether there are some that have not begun."""
        return bool(self._queue)

    @property
    def is_waiting(self) -> bool:
        """Whether one of them waits for something."""
        return self._under_way is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, and `work` has said so of all that there was."""
        # What is at work, or waits, is unfinished.
        return not (self._queue or self._is_unfinished)

    @property
    def given_up_ms(self) -> float | None:
        """When what is waited for is given up, if it ever is."""
        return None if self._under_way is None else self._under_way.until_ms

    # ------------------------------------------------------------------ doing it

    def work(self) -> bool:
        """Does what there is, as far as it need not wait.

        Returns:
            Whether all is done now, which the member is to hear; said once. An interruption leaves
            it to the next call.
        """
        if self.is_at_work or self.is_idle:
            return False  # a listener that commits or seeks comes by here again
        self.is_at_work = self._is_unfinished = True
        try:
            while self._is_free() and self._queue:
                self._begin(self._queue.popleft())
        finally:
            self.is_at_work = False
        if self._under_way is not None:
            return False
        self._is_unfinished = False
        if self._is_new:
            self._is_new = False
            self._metrics.rebalance_is_over()
        return True

    def until_over(self, deadline_ms: float) -> Waiting[None]:
        """Waits for what a chore waits for, and gives it up when the time is over."""
        under_way = self._under_way
        if under_way is None:
            return
        limit = min(deadline_ms, under_way.until_ms or deadline_ms)
        if under_way.is_pause:
            yield Wait(None, limit)
        elif under_way.task is None:
            yield from self._offsets.finish(limit)
        else:
            yield Wait(under_way.task, limit)
        if now_ms() >= limit:
            under_way.until_ms = limit

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

    def _wait(self, under_way: _UnderWay) -> None:
        self._under_way = under_way
        self._consumer._hold(True)

    def _begin(self, chore: Chore) -> None:
        self._metrics.rebalance_goes_on()
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
                self.was_assigned = self._is_new = True
                self._offsets.forget(added)
                self._assign(assigned)
                self._tell("on_partitions_assigned", added, None)

    # ------------------------------------------------------------------ auto-commit

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

    # ------------------------------------------------------------------ listener, assignment

    def _tell(
        self,
        what: str,
        partitions: tuple[TopicPartition, ...],
        then: Callable[[], object] | None,
    ) -> None:
        began_ms = now_ms()

        def told() -> None:
            self._metrics.took(what, began_ms)
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

    def _take_away(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._offsets.depart(partitions)
        self._offsets.forget(partitions)
        left = self._consumer.assignment() - set(partitions)
        self._assign(sorted(left))

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer._assign(partitions)
        self._metrics.has(len(partitions))
