"""Chores: the actions of a member in the application's thread (auto-commit, listener, assignment).

    add ──> queue ── work() ──> the first chore ──> the next ──> all are done: True
                       ^               │ must wait
                       └── next poll <─┴─> until_over(), when the member leaves

A chore may have to wait: for an auto-commit before partitions are given up, or for an asyncio
listener. It waits between polls, not in them. In the meantime polls return no records, because
these records would not be in the commit. `_membership.py` adds the chores, and continues after
them.
"""

import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._machine import Interruptions
from thalweg.coordinator.driver._monitoring import GroupMetrics
from thalweg.coordinator.driver._native import ConsumerCore
from thalweg.coordinator.driver._offset_commit import Commits
from thalweg.coordinator.driver._waits import Wait, Waiting, now_ms, retry_backoff
from thalweg.coordinator.listener import Listener, ListenerTask, Spawn, tell
from thalweg.coordinator.steps import Assign, AutoCommit, Lose, Revoke
from thalweg.errors import RetriableError, StaleMemberEpochError, UnknownTopicOrPartitionError
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["Chores", "heard"]

log = logging.getLogger("thalweg.coordinator")

Chore = AutoCommit | Revoke | Lose | Assign
# The limit of an auto-commit before a rebalance, so that the group need not wait longer.
_AUTO_COMMIT_LIMIT_MS: Final = 5000.0


@dataclass
class _Awaited:
    """Something that a chore waits for.

    Attributes:
        is_done: Whether it is done.
        until_ms: When to give up waiting. None: never.
        task: The task of a listener. None: a commit or a pause.
        is_pause: Whether it is a pause before a retry.
        then: The rest of the chore.
    """

    is_done: Callable[[], bool]
    until_ms: float | None = None
    task: ListenerTask | None = None
    is_pause: bool = False
    then: Callable[[], object] | None = None

    def is_over(self) -> bool:
        """Whether it is done, or its time is over."""
        return self.is_done() or (self.until_ms is not None and now_ms() >= self.until_ms)


class Chores:
    """The chores of one membership, in the order in which they were added.

    Args:
        consumer: The core's consumer.
        config: Its options.
        commits: Its commits.
        metrics: Counts and times the callbacks.
        spawn: Starts the tasks of an asyncio listener.
        is_lost: Whether the membership has ended, so that other members may own the partitions.
        interruptions: Gets what the listener raises and Python must not ignore, such as a Ctrl-C.

    Attributes:
        listener: The rebalance listener.
        is_at_work: Whether a chore runs now, so that a listener or commit callback is the caller.
        was_assigned: Whether the group has assigned partitions (or none) since the subscription.
        kept: The partitions that the user has assigned, perhaps while a listener ran.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        commits: Commits,
        metrics: GroupMetrics,
        spawn: Spawn | None,
        is_lost: Callable[[], bool],
        interruptions: Interruptions,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._commits = commits
        self._metrics = metrics
        self._spawn = spawn
        self._is_lost = is_lost
        self._interruptions = interruptions
        self._queue: deque[Chore] = deque()
        self._awaited: _Awaited | None = None
        self._is_unfinished = False  # whether the member still waits for its chores
        self._is_new = False  # whether a new assignment is not complete yet
        self.listener: Listener | None = None
        self.is_at_work = False
        self.was_assigned = False
        self.kept: frozenset[TopicPartition] = frozenset()

    # ------------------------------------------------------------------ the queue

    def add(self, chore: Chore) -> None:
        """Adds a chore at the end of the queue."""
        self._queue.append(chore)

    def clear(self) -> None:
        """Drops the chores that have not begun."""
        self._queue.clear()

    def abandon(self) -> None:
        """Drops all chores, also one that waits: what it waits for may be lost."""
        self._queue.clear()
        # An interruption may have prevented that `work` notes its own end.
        self.is_at_work = self._is_unfinished = False
        self._awaited = None
        self._consumer._hold(False)

    def drop_commits(self) -> None:
        """Drops the auto-commits that have not begun."""
        self._queue = deque(each for each in self._queue if not isinstance(each, AutoCommit))

    @property
    def has_more(self) -> bool:
        """Whether there are chores that have not begun."""
        return bool(self._queue)

    @property
    def is_waiting(self) -> bool:
        """Whether a chore waits for something."""
        return self._awaited is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, and `work` has reported that all chores are done."""
        # A chore that runs or waits is unfinished.
        return not (self._queue or self._is_unfinished)

    @property
    def given_up_ms(self) -> float | None:
        """When the current wait ends without success, or None."""
        return None if self._awaited is None else self._awaited.until_ms

    # ------------------------------------------------------------------ running the chores

    def work(self) -> bool:
        """Does the chores, as far as they need not wait.

        Returns:
            True once when all chores are done: the caller must tell the member. After an
            interruption, a later call returns it.
        """
        if self.is_at_work or self.is_idle:
            return False  # a listener that commits or seeks calls this again
        self.is_at_work = self._is_unfinished = True
        try:
            while self._is_free() and self._queue:
                self._begin(self._queue.popleft())
        finally:
            self.is_at_work = False
        if self._awaited is not None:
            return False
        self._is_unfinished = False
        if self._is_new:
            self._is_new = False
            self._metrics.rebalance_is_over()
        return True

    def until_over(self, deadline_ms: float) -> Waiting[None]:
        """Waits until the current wait is over, and ends it at the deadline."""
        awaited = self._awaited
        if awaited is None:
            return
        limit = min(deadline_ms, awaited.until_ms or deadline_ms)
        if awaited.is_pause:
            yield Wait(None, limit)
        elif awaited.task is None:
            yield from self._commits.finish(limit)
        else:
            yield Wait(None, limit, awaited.task)
        if now_ms() >= limit:
            awaited.until_ms = limit

    def _is_free(self) -> bool:
        """Whether no chore waits. It continues a chore whose wait is over."""
        awaited = self._awaited
        if awaited is None:
            return True
        if awaited.task is None:
            self._commits.tell_outcomes()
        if not awaited.is_over():
            return False
        self._awaited = None
        self._consumer._hold(False)
        if awaited.then is not None:
            awaited.then()  # it may wait again
        return self._awaited is None

    def _wait(self, awaited: _Awaited) -> None:
        self._awaited = awaited
        self._consumer._hold(True)

    def _begin(self, chore: Chore) -> None:
        self._metrics.rebalance_goes_on()
        match chore:
            case AutoCommit():
                self._auto_commit(retry_backoff(self._config), now_ms() + _AUTO_COMMIT_LIMIT_MS)
            case Revoke(partitions) | Lose(partitions):
                # The membership may have ended since, for example during the auto-commit.
                is_lost = isinstance(chore, Lose) or (bool(partitions) and self._is_lost())
                what = "on_partitions_lost" if is_lost else "on_partitions_revoked"
                self._tell(what, partitions, functools.partial(self._take_away, partitions))
            case Assign(assigned, added):
                self.was_assigned = self._is_new = True
                self._commits.forget(added)
                self._assign(assigned)
                self._tell("on_partitions_assigned", added, None)

    # ------------------------------------------------------------------ auto-commit

    def _auto_commit(self, backoff: Backoff, until_ms: float) -> None:
        """Commits, and retries after retriable errors until the time is over."""
        future = self._commits.commit_what_moved()
        if future is None:
            return

        commit = _Awaited(lambda: future.is_done, until_ms)

        def over() -> None:
            again_ms = now_ms() + backoff.failed()
            # The limit of the wait, not of the auto-commit: a leaving member may have less time.
            if self._may_retry(future.exception) and again_ms < (commit.until_ms or again_ms):
                pause = _Awaited(lambda: False, again_ms, is_pause=True)
                pause.then = lambda: self._commit_again(pause, again_ms, backoff, until_ms)
                self._wait(pause)

        commit.then = over
        self._wait(commit)

    def _commit_again(
        self, pause: _Awaited, again_ms: float, backoff: Backoff, until_ms: float
    ) -> None:
        if pause.until_ms == again_ms:  # otherwise the pause was ended early: no time is left
            self._auto_commit(backoff, until_ms)

    @staticmethod
    def _may_retry(error: BaseException | None) -> bool:
        """Whether a retry may succeed while the group waits."""
        if isinstance(error, StaleMemberEpochError):
            return True  # the new epoch arrives without a poll, and the retry uses it
        # Offsets of deleted topics need not be kept.
        return isinstance(error, RetriableError) and not isinstance(
            error, UnknownTopicOrPartitionError
        )

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
            wake = None if self._spawn is not None else self._consumer.wakeup
            task = tell(self.listener, what, partitions, self._spawn, wake)
        except BaseException as error:
            told()  # an interrupted listener is not called again, and its partitions still go
            self._interruptions.harmless = error
            raise
        if task is not None:
            self._wait(_Awaited(task.done, task=task, then=told))
        else:
            told()

    def _take_away(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._commits.depart(partitions)
        gone = set(partitions) - self.kept
        self._commits.forget(gone)
        left = self._consumer.assignment() - gone
        self._assign(sorted(left))

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer._assign(partitions)
        self._metrics.has(len(partitions))


async def heard(told: Awaitable[object]) -> None:
    """Awaits what an asyncio listener returned. Logs what it raises."""
    import asyncio

    try:
        await told
    except Exception:
        log.exception("a rebalance listener raised. The rebalance continues")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # A task that the listener has cancelled and awaited, not the listener's own.
        log.exception("a rebalance listener raised. The rebalance continues")
