"""Committed offsets: looks them up for new partitions, and commits.

    poll() ──> OffsetFetch for partitions that need it ──> set_committed
           ├─> auto-commit, when due
           └─> results of asynchronous commits, reported in order
    commit(), fetch() wait, as generators of _waits.py; each attempt is a new request

A commit has the membership of the moment when it is sent. The member also gets errors of the group.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from thalweg._client.arguments import offsets_given
from thalweg.coordinator import offsets as wire
from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.commit_future import CommitFuture
from thalweg.coordinator.driver._clock import now_ms, soonest
from thalweg.coordinator.driver._marks import Marks
from thalweg.coordinator.driver._members import jitter
from thalweg.coordinator.driver._metrics import GroupMetrics
from thalweg.coordinator.driver._offset_requests import OffsetRequests
from thalweg.coordinator.driver._waits import Wait, Waiting
from thalweg.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    RebalanceInProgressError,
    RetriableError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from thalweg.interceptor import notify
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["CommittedOffsets"]

_T = TypeVar("_T")

log = logging.getLogger("thalweg.coordinator")

_MOVED: Final = (NotCoordinatorError, CoordinatorNotAvailableError)
# How often unchanged offsets are committed again. A coordinator deletes offsets that are not
# committed for offsets.retention.minutes, even if a consumer outside the group still uses them.
_REFRESH_MS: Final = 600_000.0
_STALE_MEMBER: Final = (
    FencedInstanceIdError,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)


class _Member(Protocol):
    """The part of the membership that commits need."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...
    def commit_refusal(self) -> KafkaError | None: ...
    def commit_answered(self, code: int, generation: int) -> None: ...
    def keep_up(self) -> None: ...
    def reenter(self, _: object = None) -> None: ...


class _MovedOnError(RetriableError):
    """The member's epoch has changed since the commit was sent. Retry with the new epoch."""


@dataclass
class _Commit:
    """An asynchronous commit.

    Attributes:
        offsets: The offsets to commit. Without offsets no request is sent.
        group: The membership in the commit.
        callback: The application's callback, if any.
        request: The request. None if there is none, or the commit was refused at once.
        began_ms: When it was sent.
        refusal: Why it was refused at once.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata
    callback: Callable[[Any, Any], object] | None
    request: Any = None
    began_ms: float = 0.0
    refusal: KafkaError | None = None
    future: CommitFuture = field(default_factory=CommitFuture)

    def is_under_way(self) -> bool:
        """Whether it waits for its answer."""
        return self.request is not None and not self.request.is_done


def _urgency(error: tuple[TopicPartition, type[KafkaError]]) -> tuple[int, TopicPartition]:
    """Returns a sort key: of several errors of a commit, the lowest decides.

    First come errors of the member. Then a coordinator that has moved: a broker refuses single
    partitions, for example of a deleted topic, before it checks that it is the coordinator, so the
    other partitions need a retry. Then errors that no retry can cure.
    """
    where, kind = error
    if issubclass(kind, (*_STALE_MEMBER, RebalanceInProgressError)):
        return 0, where
    if issubclass(kind, _MOVED):
        return 1, where
    return 3 if issubclass(kind, RetriableError) else 2, where


class CommittedOffsets:
    """Looks up and commits the offsets of a consumer's group."""

    def __init__(
        self, consumer: Any, config: Mapping[str, Any], member: _Member, metrics: GroupMetrics
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._member = member
        self._group_id: str | None = config["group_id"]
        self._auto = config["enable_auto_commit"] and self._group_id is not None
        self._periodic = True
        self._fetch: tuple[Any, list[TopicPartition]] | None = None
        self._fetch_due_ms = 0.0
        self._fetch_backoff = Backoff(
            config["retry_backoff_ms"], config["retry_backoff_max_ms"], jitter
        )
        self._auto_commit_due_ms: float = now_ms() + config["auto_commit_interval_ms"]
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._refresh_due_ms = now_ms() + _REFRESH_MS
        self._commits: deque[_Commit] = deque()
        self._departures = 0
        self._departed_at: dict[TopicPartition, int] = {}
        self._marks = Marks(lambda partitions: self._consumer._handed_out(partitions))
        self._metrics = metrics
        self._requests = OffsetRequests(consumer, self._group_id)
        self._on_commit = notify(config["interceptor_classes"], "on_commit")

    # ------------------------------------------------------------------ from poll

    def poll(self) -> float | None:
        """Does what is due, without waiting. Returns the time of the next call."""
        due = [self.look_for_committed(), self._auto_commit()]
        self.tell_outcomes()
        return soonest(due)

    def look_for_committed(self) -> float | None:
        """Looks up committed offsets for partitions that need them.

        Returns:
            The time of the next attempt, or None.
        """
        if self._group_id is None:
            return None
        if self._fetch is None:
            waiting = self._consumer.awaiting_committed()
            if not waiting:
                return None
            if now_ms() < self._fetch_due_ms:
                return self._fetch_due_ms
            request = self._submit_fetch(waiting)
            self._fetch = request, waiting
            request.add_done_callback(self._member.reenter)
        request, waiting = self._fetch
        if not request.is_done:
            return None
        self._fetch = None
        try:
            with self._noting_a_move():
                found = _fetched(request.result(0), waiting)
            self._marks.begin_at(found)
            self._consumer.set_committed(found)
        except (RetriableError, *_STALE_MEMBER) as error:
            # A stale member soon gets its new epoch, and the next attempt uses it.
            log.debug("could not fetch committed offsets: %s; trying again", error)
            self._fetch_due_ms = now_ms() + self._fetch_backoff.failed()
            return self._fetch_due_ms
        self._fetch_backoff.reset()
        return self.look_for_committed()  # of partitions that were assigned meanwhile

    def _auto_commit(self) -> float | None:
        if not (self._auto and self._periodic):
            return None
        if now_ms() >= self._auto_commit_due_ms:
            self._auto_commit_due_ms = now_ms() + self._config["auto_commit_interval_ms"]
            if self._member.commit_refusal() is None:
                if now_ms() >= self._refresh_due_ms:
                    self._refresh_due_ms = now_ms() + _REFRESH_MS
                    self._committed.clear()
                self.commit_what_moved()
        return self._auto_commit_due_ms

    def end_auto_commit(self, *, last: bool) -> None:
        """Ends periodic auto-commits, as the consumer closes. `last`: whether one more follows."""
        self._periodic = False
        self._auto = self._auto and last

    def commit_what_moved(self) -> CommitFuture | None:
        """Starts to commit the positions that have changed, if auto-commit is on."""
        moved = self.what_moved() if self._auto else None
        return self._begin_commit(moved, None) if moved else None

    def what_moved(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what auto-commit would write now: positions or marks."""
        if self._config["auto_commit_marks"]:
            return self._new_marks()
        return self._not_committed(self._consumer.positions())

    def _not_committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {where: at for where, at in offsets.items() if self._committed.get(where) != at}

    # ------------------------------------------------------------------ marks

    def mark(self, records: Any) -> None:
        """Marks records as finished. Any thread may call it."""
        self._marks.add(records)

    def mark_through(self, records: Any) -> None:
        """Marks records and all records before them as finished. Any thread may call it."""
        self._marks.add_through(records)

    def sought(self, partitions: Iterable[TopicPartition]) -> None:
        """Called after the application has sought in these partitions."""
        self._marks.restart(partitions)

    def commit_marked(self, timeout_ms: int) -> Waiting[None]:
        """Commits the marked records that are not committed yet, and waits as `commit`."""
        self._where()
        yield from self.commit(self._new_marks(), timeout_ms)

    def _new_marks(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._not_committed(self._marks.of(self._consumer.assignment()))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forgets partitions that are assigned or revoked: other members may commit for them."""
        self._marks.forget(partitions)
        if self._committed:
            for each in partitions:
                self._committed.pop(each, None)
        if self._fetch is not None and not set(partitions).isdisjoint(self._fetch[1]):
            self._fetch = None  # it was for an assignment that has ended

    # ------------------------------------------------------------------ finding

    def _where(self) -> tuple[str, str, str]:
        if self._group_id is None:
            raise IllegalStateError("Requires group_id")
        return ("coordinator", "group", self._group_id)

    def _submit_fetch(self, partitions: Collection[TopicPartition]) -> Any:
        self._where()
        return self._requests.fetch(self._member.group_metadata(), partitions)

    @contextlib.contextmanager
    def _noting_a_move(self) -> Iterator[None]:
        """Forgets the coordinator if an answer says that it has moved."""
        try:
            yield
        except _MOVED:
            self._forget_coordinator()
            raise

    def _forget_coordinator(self) -> None:
        self._consumer.client.forget_coordinator("group", self._group_id)

    def fetch(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Looks up committed offsets. It waits and retries within the limit."""
        self._where()

        def once(until_ms: float) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
            try:
                with self._noting_a_move():
                    answer = yield Wait(self._submit_fetch(partitions), until_ms)
                    return _fetched(answer, partitions)
            except StaleMemberEpochError as error:
                raise _MovedOnError(str(error)) from error

        return (yield from self._retry(once, timeout_ms, "fetching committed offsets"))

    # ------------------------------------------------------------------ committing

    @property
    def departures(self) -> int:
        """How many times the group has taken partitions away."""
        return self._departures

    def depart(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes that the group takes partitions away: other members may now commit for them."""
        self._departures += 1
        for each in partitions:
            self._departed_at[each] = self._departures

    def _refuse_departed(self, partitions: Iterable[TopicPartition], asked_at: int) -> None:
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
        self._where()
        asked_at = self._departures if asked_at is None else asked_at
        chosen = self._chosen(offsets)
        deadline = now_ms() + timeout_ms
        yield from self.finish(deadline)
        if not chosen:
            return

        stale: ConsumerGroupMetadata | None = None

        def once(until_ms: float) -> Waiting[None]:
            nonlocal stale
            self._refuse()
            self._refuse_departed(chosen, asked_at)
            group = self._member.group_metadata()
            if group == stale:
                raise _MovedOnError("the new epoch of the member is not known yet")
            began_ms = now_ms()
            answer = yield Wait(self._requests.commit(group, chosen), until_ms)
            error = self._judged(answer, group)
            if isinstance(error, _MovedOnError):
                stale = group
            if error is not None:
                raise error
            self._metrics.took("commit", began_ms)

        yield from self._retry(once, max(0, int(deadline - now_ms())), "committing offsets")
        self._note_committed(chosen)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        callback: Callable[[Any, Any], object] | None,
    ) -> CommitFuture:
        """Commits without waiting. A later call reports the result."""
        self._where()
        return self._begin_commit(self._chosen(offsets), callback)

    def _begin_commit(
        self,
        chosen: dict[TopicPartition, OffsetAndMetadata],
        callback: Callable[[Any, Any], object] | None,
    ) -> CommitFuture:
        callback = callback or self._config["default_offset_commit_callback"]
        group = self._member.group_metadata()
        commit = _Commit(chosen, group, callback)
        if chosen:
            commit.refusal = self._member.commit_refusal()
            if commit.refusal is None:
                commit.began_ms = now_ms()
                commit.request = self._requests.commit(group, chosen)
                commit.request.add_done_callback(self._member.reenter)
        self._commits.append(commit)
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
        positions: dict[TopicPartition, OffsetAndMetadata] = self._consumer.positions()
        return positions

    def _judged(self, answer: Mapping[str, Any], group: ConsumerGroupMetadata) -> KafkaError | None:
        """Returns the error that decides the result of a commit. The member gets group errors."""
        errors = wire.commit_errors(answer)
        if not errors:
            return None
        if any(issubclass(kind, _MOVED) for kind in errors.values()):
            self._forget_coordinator()
        where, kind = min(errors.items(), key=_urgency)
        if issubclass(kind, (*_STALE_MEMBER, RebalanceInProgressError)):
            self._member.commit_answered(kind.errno, group.generation_id)
        if issubclass(kind, StaleMemberEpochError) and group.member_id:
            return _MovedOnError("the group has a newer epoch for this member")
        if issubclass(kind, _STALE_MEMBER):
            return _commit_failed(kind, member=bool(group.member_id))
        return kind(f"committing the offset of {where.topic}-{where.partition}: {kind.description}")

    def _note_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._committed.update(offsets)
        if self._on_commit is not None:
            self._on_commit(dict(offsets))

    def finish(self, deadline_ms: float) -> Waiting[None]:
        """Waits for the results of the asynchronous commits made so far, and reports them.

        A callback may commit again. It does not wait for that commit: if the group refuses all
        commits, this would never end.
        """
        last = self._commits[-1].future if self._commits else None
        while last is not None and not last.is_done:
            self.tell_outcomes(give_up=now_ms() >= deadline_ms)
            if not last.is_done:
                # `tell_outcomes` reads and reports the result, here or in another call.
                with contextlib.suppress(KafkaError):
                    yield Wait(self._commits[0].request, deadline_ms)

    def tell_outcomes(self, *, give_up: bool = False) -> None:
        """Reports the known results, in the order of the commits. `give_up`: reports all."""
        for _ in range(len(self._commits)):
            # A callback may have reported the others, by a call that it made.
            if not self._commits or (self._commits[0].is_under_way() and not give_up):
                return
            self._tell(self._commits.popleft())

    def abandon(self) -> None:
        """Fails the commits that callbacks made during the close. It calls no callback."""
        while self._commits:
            error = IllegalStateError("the consumer was closed before this commit was sent")
            self._commits.popleft().future.complete(None, error)

    def _tell(self, commit: _Commit) -> None:
        answer, error = self._outcome(commit)
        if error is None:
            if commit.request is not None:
                self._metrics.took("commit", commit.began_ms)
            self._note_committed(commit.offsets)
        else:
            log.warning("an asynchronous commit of group %s failed: %s", self._group_id, error)
        commit.future.complete(answer, error)
        if commit.callback is None:
            return
        try:
            commit.callback(commit.offsets, answer if error is None else error)
        except Exception:
            log.exception("the callback of a commit raised")

    def _outcome(self, commit: _Commit) -> tuple[Any, KafkaError | None]:
        if commit.request is None:
            return (None, commit.refusal) if commit.refusal else ({"Topics": []}, None)
        try:
            answer = commit.request.result(0)
        except KafkaError as failed:
            return None, failed
        error = self._judged(answer, commit.group)
        if isinstance(error, _MovedOnError):  # only the application can send it again
            error = StaleMemberEpochError(
                "the group has a newer epoch for this member: commit again"
            )
        return answer, error

    def _retry(
        self, once: Callable[[float], Waiting[_T]], timeout_ms: int, doing: str
    ) -> Waiting[_T]:
        """Runs `once(deadline)`, and retries after retriable errors within the limit."""
        deadline = now_ms() + timeout_ms
        backoff_ms = float(self._config["retry_backoff_ms"])
        last: RetriableError | None = None
        is_told = False
        while True:
            self._member.keep_up()
            try:
                return (yield from once(deadline))
            except RebalanceInProgressError:
                raise  # only a poll of the application can end a rebalance
            except RetriableError as error:
                # Keep the error of an earlier attempt, not the timeout of the last one.
                if last is None or not isinstance(error, KafkaTimeoutError):
                    last = error
                if now_ms() + backoff_ms >= deadline:
                    raise KafkaTimeoutError(
                        f"{doing} for group {self._group_id} took longer than {timeout_ms} ms;"
                        f" the last error: {last}"
                    ) from last
                log.debug("%s: %s; trying again", doing, error)
                if isinstance(error, UnknownTopicOrPartitionError) and not is_told:
                    # The topic may be new, so retry as Java does. Or it does not exist: warn.
                    log.warning("%s (tried again for at most %d ms)", error, timeout_ms)
                    is_told = True
            yield Wait(None, now_ms() + backoff_ms)
            backoff_ms = min(2 * backoff_ms, self._config["retry_backoff_max_ms"])


def _fetched(
    answer: Mapping[str, Any] | wire.Fetched, partitions: list[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Returns the offsets of an answer, or raises its first error."""
    read = answer if isinstance(answer, tuple) else wire.fetched(answer, partitions)
    offsets, errors = read
    if errors:
        where, kind = min(errors.items(), key=lambda each: each[0])
        name = f"{where.topic}-{where.partition}"
        raise kind(f"fetching the committed offset of {name}: {kind.description}")
    return offsets


def _commit_failed(kind: type[Any], *, member: bool) -> CommitFailedError:
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
