"""Commits offsets: at the application's calls, and automatically.

    commit() ───────> OffsetCommit, and waits for it: a generator of _waits.py
    commit_async() ─> OffsetCommit ──> queue ──> results, reported in order by a later call
    poll() ─────────> auto-commit, when it is due ──┘

The member also gets the errors of the group.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from thalweg._client.arguments import offsets_given
from thalweg.coordinator import offsets as wire
from thalweg.coordinator.commit_future import CommitFuture
from thalweg.coordinator.driver._committed_offsets import (
    MOVED,
    STALE_MEMBER,
    CommittedOffsets,
    GroupMember,
    MovedOnError,
    OffsetRequests,
)
from thalweg.coordinator.driver._marks import Marks
from thalweg.coordinator.driver._monitoring import GroupMetrics
from thalweg.coordinator.driver._native import ConsumerCore, Request, ResponseBody
from thalweg.coordinator.driver._waits import Wait, Waiting, now_ms
from thalweg.errors import (
    BrokerResponseError,
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    StaleMemberEpochError,
    WakeupError,
)
from thalweg.interceptor import notify
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["CommitCallback", "Commits"]

log = logging.getLogger("thalweg.coordinator")

# How often unchanged offsets are committed again. A coordinator deletes offsets that are not
# committed for offsets.retention.minutes, even if a consumer outside the group still uses them.
_REFRESH_MS: Final = 600_000.0

# It gets the offsets, and the response or the error.
CommitCallback = Callable[
    [dict[TopicPartition, OffsetAndMetadata], ResponseBody | KafkaError | None], object
]
# A number that each assignment, seek and reset of a partition changes, if it has returned records.
_Logs = Mapping[TopicPartition, int | None]


@dataclass
class _Commit:
    """An asynchronous commit.

    Attributes:
        offsets: The offsets to commit. Without offsets no request is sent.
        group: The membership in the commit.
        asked_at: The number of departures at the call.
        logs: See `Commits._logs`.
        callback: The application's callback, if any.
        request: The request. None if there is none, or the commit was refused at once.
        began_ms: When it was sent.
        refusal: Why it was refused at once.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata
    asked_at: int
    logs: _Logs
    callback: CommitCallback | None
    request: Request[ResponseBody] | None = None
    began_ms: float = 0.0
    refusal: KafkaError | None = None
    future: CommitFuture = field(default_factory=CommitFuture)

    def is_in_flight(self) -> bool:
        """Whether it waits for its response."""
        return self.request is not None and not self.request.is_done


def _urgency(error: tuple[TopicPartition, type[KafkaError]]) -> tuple[int, TopicPartition]:
    """Returns a sort key: of several errors of a commit, the lowest decides.

    First come errors of the member. Then a coordinator that has moved: a broker refuses single
    partitions, for example of a deleted topic, before it checks that it is the coordinator, so the
    other partitions need a retry. Then errors that no retry can cure.
    """
    where, kind = error
    if issubclass(kind, (*STALE_MEMBER, RebalanceInProgressError)):
        return 0, where
    if issubclass(kind, MOVED):
        return 1, where
    return 3 if issubclass(kind, RetriableError) else 2, where


class Commits:
    """Commits the offsets of one consumer.

    Args:
        consumer: The core's consumer.
        config: Its options.
        member: Its membership.
        requests: Sends its requests.
        marks: Its marked records.
        committed: Its lookups of committed offsets.
        metrics: Counts the commits.
        wake: Ends the poll that runs a callback. An asyncio consumer has None.

    Attributes:
        departures: How many times the group has taken partitions away.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        member: GroupMember,
        requests: OffsetRequests,
        marks: Marks,
        committed: CommittedOffsets,
        metrics: GroupMetrics,
        wake: Callable[[], None] | None,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._member = member
        self._requests = requests
        self._marks = marks
        self._committed = committed
        self._metrics = metrics
        self._wake = wake
        self._on_commit = notify(config["interceptor_classes"], "on_commit")
        self._auto = config["enable_auto_commit"] and config["group_id"] is not None
        self._is_periodic = True
        self._auto_commit_due_ms: float = now_ms() + config["auto_commit_interval_ms"]
        # What this consumer has committed, with the `_logs` at the commit.
        self._last: dict[TopicPartition, tuple[OffsetAndMetadata, int | None]] = {}
        self._refresh_due_ms = now_ms() + _REFRESH_MS
        self._queue: deque[_Commit] = deque()
        self._departed_at: dict[TopicPartition, int] = {}
        self.departures = 0

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forgets partitions that are assigned or revoked: other members may commit for them."""
        self._marks.forget(partitions)
        self._committed.forget(partitions)
        if self._last:
            for each in partitions:
                self._last.pop(each, None)

    # ------------------------------------------------------------------ auto-commit

    def poll(self) -> float | None:
        """Does what is due, without waiting. Returns the time of the next call."""
        due = self._auto_commit()
        self.tell_outcomes()
        return due

    def _auto_commit(self) -> float | None:
        if not (self._auto and self._is_periodic):
            return None
        if now_ms() >= self._auto_commit_due_ms:
            self._auto_commit_due_ms = now_ms() + self._config["auto_commit_interval_ms"]
            if self._member.commit_refusal() is None:
                if now_ms() >= self._refresh_due_ms:
                    self._refresh_due_ms = now_ms() + _REFRESH_MS
                    self._last.clear()
                self.commit_what_moved()
        return self._auto_commit_due_ms

    def end_auto_commit(self, *, last: bool) -> None:
        """Ends periodic auto-commits, as the consumer closes. `last`: whether one more follows."""
        self._is_periodic = False
        self._auto = self._auto and last

    def commit_what_moved(self) -> CommitFuture | None:
        """Starts to commit the positions that have changed, if auto-commit is on."""
        moved = self.what_moved() if self._auto else None
        return self._begin_commit(moved, None) if moved else None

    def what_moved(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what auto-commit would write now: positions or marks."""
        if self._config["auto_commit_marks"]:
            return self.new_marks()
        return self._not_committed(self._consumer._positions())

    def _not_committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        last = self._last
        same = {where for where, at in offsets.items() if where in last and last[where][0] == at}
        if same:  # after a reset, the log of this offset may be a new one, without a commit
            logs = self._logs(same)
            same = {where for where in same if last[where][1] == logs[where]}
        return {where: at for where, at in offsets.items() if where not in same}

    def _logs(self, partitions: Collection[TopicPartition]) -> _Logs:
        asked = list(partitions)
        rows = self._consumer._handed_out(asked)
        return {where: row and row[0] for where, row in zip(asked, rows, strict=True)}

    def commit_marked(self, timeout_ms: int) -> Waiting[None]:
        """Commits the marked records that are not committed yet, and waits as `commit`."""
        self._requests.group_id()
        yield from self.commit(self.new_marks(), timeout_ms)

    def new_marks(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what `commit_marked` would write now.

        Like a commit of positions, it leaves out partitions without a valid position. One that was
        read in a topic that was deleted and created again is not valid.
        """
        return self._not_committed(self._marks.of(self._consumer._positions()))

    # ------------------------------------------------------------------ committing

    def depart(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes that the group takes partitions away: other members may now commit for them."""
        self.departures += 1
        for each in partitions:
            self._departed_at[each] = self.departures

    def refuse_departed(self, partitions: Iterable[TopicPartition], asked_at: int) -> None:
        """Raises CommitFailedError if the group took a partition away after `asked_at`."""
        gone = sorted(each for each in partitions if self._departed_at.get(each, 0) > asked_at)
        if gone:
            names = ", ".join(f"{each.topic}-{each.partition}" for each in gone)
            raise CommitFailedError(
                f"this consumer gave up {names} before the commit succeeded, and other members may"
                " have committed later offsets since. Commit again for the partitions that are"
                " still assigned."
            )

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        timeout_ms: int,
        asked_at: int | None = None,
    ) -> Waiting[None]:
        """Commits and waits. Before that, it finishes earlier asynchronous commits.

        With asyncio, other tasks may poll during the call, so a rebalance may happen between two
        attempts.

        Args:
            offsets: The offsets. None: the positions.
            timeout_ms: How long to retry.
            asked_at: The value of `departures` at the application's call. None: now.
        """
        self._requests.group_id()
        asked_at = self.departures if asked_at is None else asked_at
        chosen = self._chosen(offsets)
        logs = self._logs(chosen)
        deadline = now_ms() + timeout_ms
        yield from self.finish(deadline)
        if not chosen:
            return

        stale: ConsumerGroupMetadata | None = None

        def once(until_ms: float) -> Waiting[None]:
            nonlocal stale
            self._refuse()
            self.refuse_departed(chosen, asked_at)
            group = self._member.group_metadata()
            if group == stale:
                raise MovedOnError("the new epoch of the member is not known yet")
            began_ms = now_ms()
            response = yield Wait(self._requests.commit(group, chosen), until_ms)
            error = self._judged(response, group)
            if isinstance(error, MovedOnError):
                stale = group
            if error is not None:
                raise error
            self._metrics.took("commit", began_ms)

        yield from self._requests.retry(
            once, max(0, int(deadline - now_ms())), "committing offsets", "OffsetCommit"
        )
        self._note_committed(chosen, asked_at, logs)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        callback: CommitCallback | None,
    ) -> CommitFuture:
        """Commits without waiting. A later call reports the result."""
        self._requests.group_id()
        return self._begin_commit(self._chosen(offsets), callback)

    def _begin_commit(
        self,
        chosen: dict[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None,
    ) -> CommitFuture:
        callback = callback or self._config["default_offset_commit_callback"]
        group = self._member.group_metadata()
        commit = _Commit(chosen, group, self.departures, self._logs(chosen), callback)
        if chosen:
            commit.refusal = self._member.commit_refusal()
            if commit.refusal is None:
                commit.began_ms = now_ms()
                commit.request = self._requests.commit(group, chosen)
                commit.request.add_done_callback(self._member.reenter)
        self._queue.append(commit)
        return commit.future

    def _refuse(self) -> None:
        error = self._member.commit_refusal()
        if error is not None:
            raise error

    def _chosen(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is not None:
            return offsets_given(offsets)
        return self._consumer._positions()

    def _judged(self, response: ResponseBody, group: ConsumerGroupMetadata) -> KafkaError | None:
        """Returns the error that decides the result of a commit. The member gets group errors."""
        errors = wire.commit_errors(response)
        if not errors:
            return None
        if any(issubclass(kind, MOVED) for kind in errors.values()):
            self._requests.forget_coordinator()
        where, kind = min(errors.items(), key=_urgency)
        if issubclass(kind, (*STALE_MEMBER, RebalanceInProgressError)):
            self._member.commit_refused(kind.errno, group.generation_id)
        if issubclass(kind, StaleMemberEpochError) and group.member_id:
            return MovedOnError("the group has a newer epoch for this member")
        if issubclass(kind, STALE_MEMBER):
            return _commit_failed(kind, member=bool(group.member_id))
        return kind(f"committing the offset of {where.topic}-{where.partition}: {kind.description}")

    def _note_committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], asked_at: int, logs: _Logs
    ) -> None:
        for where, at in offsets.items():
            # Otherwise the partition went meanwhile, and another member may have committed since.
            if self._departed_at.get(where, 0) <= asked_at:
                self._last[where] = at, logs[where]
        if self._on_commit is not None:
            self._on_commit(dict(offsets))

    def finish(self, deadline_ms: float, *, give_up: bool = False) -> Waiting[None]:
        """Waits for the results of the asynchronous commits made so far, and reports them.

        A callback may commit again. It does not wait for that commit: if the group refuses all
        commits, this would never end.

        Args:
            deadline_ms: When to end the wait.
            give_up: Whether to report then also the commits without a result. Otherwise a later
                call reports them.
        """
        last = self._queue[-1].future if self._queue else None
        while last is not None and not last.is_done:
            is_over = now_ms() >= deadline_ms
            self.tell_outcomes(give_up=give_up and is_over)
            if is_over and not give_up:
                return
            if not last.is_done:
                # `tell_outcomes` reads and reports the result, here or in another call.
                with contextlib.suppress(KafkaError):
                    yield Wait(self._queue[0].request, deadline_ms)

    def tell_outcomes(self, *, give_up: bool = False) -> None:
        """Reports the known results, in the order of the commits. `give_up`: reports all."""
        for _ in range(len(self._queue)):
            # A callback may have reported the others, by a call that it made.
            if not self._queue or (self._queue[0].is_in_flight() and not give_up):
                return
            self._tell(self._queue.popleft())

    def abandon(self) -> None:
        """Fails the commits that callbacks made during the close. It calls no callback."""
        while self._queue:
            error = IllegalStateError("the consumer was closed before this commit was sent")
            self._queue.popleft().future.complete(None, error)

    def _tell(self, commit: _Commit) -> None:
        response, error = self._outcome(commit)
        if error is not None:
            log.warning(
                "an asynchronous commit of group %s failed: %s", self._config["group_id"], error
            )
        elif commit.request is not None:
            self._metrics.took("commit", commit.began_ms)
        try:
            if error is None:
                self._note_committed(commit.offsets, commit.asked_at, commit.logs)
        finally:  # also if an interceptor was interrupted
            commit.future.complete(response, error)
        if commit.callback is None:
            return
        try:
            commit.callback(commit.offsets, response if error is None else error)
        except Exception as raised:
            if isinstance(raised, WakeupError) and self._wake is not None:
                # The poll that runs the callback must end, or the next one, unless the consumer is
                # closed or freed.
                with contextlib.suppress(IllegalStateError, ReferenceError):
                    self._wake()
            else:
                log.exception("the callback of a commit raised")

    def _outcome(self, commit: _Commit) -> tuple[ResponseBody | None, KafkaError | None]:
        if commit.request is None:
            return (None, commit.refusal) if commit.refusal else ({"Topics": []}, None)
        try:
            response = commit.request.result(0)
        except KafkaError as failed:
            return None, failed
        error = self._judged(response, commit.group)
        if isinstance(error, MovedOnError):  # only the application can send it again
            error = StaleMemberEpochError(
                "the group has a newer epoch for this member: commit again"
            )
        return response, error


def _commit_failed(kind: type[BrokerResponseError], *, member: bool) -> CommitFailedError:
    """Returns an error that says why a commit was refused permanently, and what to do."""
    if member:
        return CommitFailedError(
            f"the group continued without this consumer ({kind.message}). Other members now have"
            " its partitions and continue from the last committed offsets. The next poll() joins"
            " the group again. If polls were too far apart, raise max_poll_interval_ms or lower"
            " max_poll_records."
        )
    return CommitFailedError(
        f"this consumer is not a member of the group ({kind.message}). The group has active"
        " members, so only they may commit. Use another group_id with assign(), or commit while no"
        " other consumer is subscribed in the group."
    )
