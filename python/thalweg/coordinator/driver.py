"""What a consumer asks its group's coordinator: the only I/O of this package.

    poll() ── before_poll(ms) ──> subscription ── partitions of the topics ──> assign
                              ├─> committed offsets of new partitions ────────> set_committed
                              ├─> auto-commit, when due
                              └─> outcomes of asynchronous commits, in order

`before_poll` never waits: it sends what is to be asked, and has the core call it again when the
answer is there. `commit`, `fetch` and `close` wait, within their limits.

What is deliberately absent: membership (joining, heartbeats, rebalances), which follows.
"""

import contextlib
import logging
import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from thalweg.coordinator import offsets as wire
from thalweg.coordinator.commit_future import CommitFuture
from thalweg.coordinator.listener import ConsumerRebalanceListener
from thalweg.errors import (
    BrokerResponseError,
    CommitFailedError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    RetriableError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedOperationError,
)
from thalweg.interceptor import notify
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_T = TypeVar("_T")

__all__ = ["Driver"]

log = logging.getLogger("thalweg.coordinator")

# How soon a subscribed topic that does not exist is looked for again.
_MISSING_TOPIC_MS: Final = 1000
_MOVED: Final = (NotCoordinatorError, CoordinatorNotAvailableError)
_STALE_MEMBER: Final = (
    FencedInstanceIdError,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
_ONE_WAY: Final = (
    "You must choose only one way to configure your consumer: (1) subscribe to specific topics by"
    " name, (2) subscribe to topics matching a regex pattern, (3) assign itself specific"
    " topic-partitions."
)


def _now_ms() -> float:
    return time.monotonic() * 1000


def commit_error(answer: Mapping[str, Any]) -> KafkaError | None:
    """The error of an OffsetCommit answer that decides what to do: one that no retry cures, if any.

    A commit of a stale member becomes a CommitFailedError that says why and what to do.
    """
    errors = wire.commit_errors(answer)
    if not errors:
        return None
    where, kind = min(
        errors.items(), key=lambda each: (issubclass(each[1], RetriableError), each[0])
    )
    if issubclass(kind, _STALE_MEMBER):
        return CommitFailedError(
            f"the group does not know this consumer as a member ({kind.message}): it has active"
            " members, so that only they may commit. Use another group_id with assign(), or"
            " commit while no other consumer is subscribed in the group."
        )
    return kind(f"committing the offset of {where.topic}-{where.partition}: {kind.description}")


class _Subscription:
    """The topics of a consumer without group; what they resolve to is assigned to it."""

    def __init__(
        self, topics: Iterable[str], pattern: re.Pattern[str] | None, listener: Any
    ) -> None:
        self.topics = set(topics)
        self.pattern = pattern
        self.listener = listener
        self.due_ms: float = 0.0
        self.request: Any = None
        self.assigned: set[TopicPartition] = set()

    def wants(self, row: Mapping[str, Any], exclude_internal: bool) -> bool:
        """Whether a topic of a metadata answer is subscribed to."""
        name = row["Name"]
        if self.pattern is None:
            return name in self.topics
        hidden = exclude_internal and row["IsInternal"]
        return not hidden and self.pattern.match(name) is not None


class Driver:
    """The coordinator's side of one consumer."""

    def __init__(self, consumer: Any, config: Mapping[str, Any]) -> None:
        # The core keeps before_poll, so a strong reference here would be a cycle through it.
        self._consumer = weakref.proxy(consumer)
        self._config = config
        self._group_id: str | None = config["group_id"]
        self._subscription: _Subscription | None = None
        self._assigned_by_user = False
        self._offset_fetch: tuple[Any, list[TopicPartition]] | None = None
        self._offset_fetch_due_ms = 0.0
        self._auto_commit_due_ms: float = _now_ms() + config["auto_commit_interval_ms"]
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._commits: deque[tuple[Any, Any, CommitFuture, Any]] = deque()
        self._on_commit = notify(config["interceptor_classes"], "on_commit")

    # ------------------------------------------------------------------ from poll

    def before_poll(self, left_ms: int | None) -> int | None:
        """See `_core.ConsumerHooks.before_poll`."""
        due = [
            self._resolve_subscription(),
            self._look_for_committed(),
            self._auto_commit(),
        ]
        self._finish_commits()
        times = [each for each in due if each is not None]
        return max(0, int(min(times) - _now_ms()) + 1) if times else None

    def _resolve_subscription(self) -> float | None:
        """Assigns the partitions of the subscribed topics; the time of the next look."""
        wanted = self._subscription
        if wanted is None:
            return None
        if wanted.request is None:
            if _now_ms() < wanted.due_ms:
                return wanted.due_ms
            wanted.request = self._ask_for_topics(wanted)
            wanted.request.add_done_callback(self._reenter)
        if not wanted.request.is_done:
            return None
        request, wanted.request = wanted.request, None
        try:
            rows = request.result(0)["Topics"]
        except RetriableError as error:
            log.debug("looking for the subscribed topics: %s", error)
            wanted.due_ms = _now_ms() + float(self._config["retry_backoff_ms"])
        else:
            self._take_topics(wanted, rows)
        return wanted.due_ms

    def _ask_for_topics(self, wanted: _Subscription) -> Any:
        topics = None if wanted.pattern else [{"Name": name} for name in sorted(wanted.topics)]
        create = wanted.pattern is None and self._config["allow_auto_create_topics"]
        return self._consumer.client.submit(
            "Metadata", {"Topics": topics, "AllowAutoTopicCreation": create}
        )

    def _take_topics(self, wanted: _Subscription, rows: list[dict[str, Any]]) -> None:
        chosen = [
            row
            for row in rows
            if row["ErrorCode"] == 0 and wanted.wants(row, self._config["exclude_internal_topics"])
        ]
        found = {
            TopicPartition(row["Name"], partition["PartitionIndex"])
            for row in chosen
            for partition in row["Partitions"]
        }
        missing = wanted.pattern is None and len(chosen) < len(wanted.topics)
        wait_ms = _MISSING_TOPIC_MS if missing else self._config["metadata_max_age_ms"]
        wanted.due_ms = _now_ms() + wait_ms
        gone, new = wanted.assigned - found, found - wanted.assigned
        if not gone and not new:
            return
        if gone and wanted.listener is not None:
            wanted.listener.on_partitions_revoked(sorted(gone))
        self._consumer._assign_native(sorted(found))
        wanted.assigned = found
        if wanted.listener is not None:
            wanted.listener.on_partitions_assigned(sorted(new))

    def _look_for_committed(self) -> float | None:
        """Gives committed offsets to partitions that wait for them; the time of the next try."""
        if self._group_id is None:
            return None
        if self._offset_fetch is None:
            waiting = self._consumer.awaiting_committed()
            if not waiting:
                return None
            if _now_ms() < self._offset_fetch_due_ms:
                return self._offset_fetch_due_ms
            request = self._submit_offset_fetch(waiting)
            self._offset_fetch = request, waiting
            request.add_done_callback(self._reenter)
        request, waiting = self._offset_fetch
        if not request.is_done:
            return None
        self._offset_fetch = None
        try:
            self._consumer.set_committed(self._read_offset_fetch(request, waiting, 0))
        except RetriableError as error:
            log.debug("looking for committed offsets: %s", error)
            self._offset_fetch_due_ms = _now_ms() + float(self._config["retry_backoff_ms"])
            return self._offset_fetch_due_ms
        return None

    def _auto_commit(self) -> float | None:
        if not self._config["enable_auto_commit"]:
            return None
        if _now_ms() >= self._auto_commit_due_ms:
            self._auto_commit_due_ms = _now_ms() + self._config["auto_commit_interval_ms"]
            self._commit_what_moved()
        return self._auto_commit_due_ms

    def _commit_what_moved(self) -> None:
        moved = {
            where: at
            for where, at in self._consumer.positions().items()
            if self._committed.get(where) != at
        }
        if moved:
            self.commit_async(moved, None)

    def _reenter(self, _: object) -> None:
        """From the callback thread: an answer has come."""
        with contextlib.suppress(ReferenceError):  # the consumer may be gone
            self._consumer.reenter()

    # ------------------------------------------------------------------ what is read

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Takes the user's own choice of partitions."""
        if self._subscription is not None:
            raise IllegalStateError(_ONE_WAY)
        if self._config["enable_auto_commit"]:
            self._commit_what_moved()
        self._assigned_by_user = bool(partitions)
        self._consumer._assign_native(partitions)
        self._consumer.reenter()  # new partitions may wait for their committed offsets

    def subscribe(
        self, topics: list[str], pattern: str | re.Pattern[str] | None, listener: Any
    ) -> None:
        """Takes the user's choice of topics."""
        if self._assigned_by_user or (topics and pattern is not None):
            raise IllegalStateError(_ONE_WAY)
        if not topics and pattern is None:
            raise ValueError("Must provide topics or pattern")
        if not all(isinstance(each, str) for each in topics):
            raise TypeError("All topics must be strings")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener must be a ConsumerRebalanceListener")
        if self._group_id is not None:
            self.refuse_groups()
        old = self._subscription
        compiled = re.compile(pattern) if pattern is not None else None
        self._subscription = _Subscription(topics, compiled, listener)
        if old is not None:
            self._subscription.assigned = old.assigned
        self._consumer.set_subscribed(True)
        self._consumer.reenter()

    @staticmethod
    def refuse_groups() -> NoReturn:
        """Says that this version cannot join a group.

        Raises:
            UnsupportedOperationError: Always.
        """
        raise UnsupportedOperationError(
            "subscribe() with a group_id is not yet in this version: group membership arrives in"
            " the next one. assign() with a group_id commits and finds committed offsets;"
            " subscribe() without a group_id reads all partitions of the topics."
        )

    def subscription(self) -> set[str] | None:
        """The topics subscribed to, or those that match the pattern."""
        wanted = self._subscription
        if wanted is None:
            return None
        if wanted.pattern is None:
            return set(wanted.topics)
        return {where.topic for where in wanted.assigned}

    def unsubscribe(self) -> None:
        """Gives all partitions up."""
        if self._config["enable_auto_commit"]:
            self._commit_what_moved()
        self._subscription = None
        self._assigned_by_user = False
        self._consumer.set_subscribed(False)
        self._consumer._assign_native([])

    # ------------------------------------------------------------------ offsets

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Outside of a group: generation -1, no member id."""
        return ConsumerGroupMetadata(
            self._group_id, group_instance_id=self._config["group_instance_id"]
        )

    def _where(self) -> tuple[str, str, str]:
        if self._group_id is None:
            raise IllegalStateError("Requires group_id")
        return ("coordinator", "group", self._group_id)

    def _submit_offset_fetch(self, partitions: Iterable[TopicPartition]) -> Any:
        bodies = wire.fetch_bodies(self.group_metadata(), partitions)
        return self._consumer.client.submit(
            "OffsetFetch", bodies, self._where(), max_version=wire.FETCH_VERSION_MAX
        )

    def _read_offset_fetch(
        self, request: Any, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The answer; raises its most important error, and forgets a coordinator that moved."""
        try:
            offsets, errors = wire.fetched(request.result(timeout_ms), partitions)
            if errors:
                where, kind = min(errors.items(), key=lambda each: each[0])
                raise kind(f"the committed offset of {where.topic}-{where.partition}")
        except _MOVED:
            self._forget_coordinator()
            raise
        return offsets

    def _forget_coordinator(self) -> None:
        self._consumer.client.forget_coordinator("group", self._group_id)

    def fetch(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Committed offsets; waits and retries within the limit."""
        self._where()

        def once(left_ms: int) -> dict[TopicPartition, OffsetAndMetadata | None]:
            request = self._submit_offset_fetch(partitions)
            return self._read_offset_fetch(request, partitions, left_ms)

        return self._retry(once, timeout_ms, "finding committed offsets")

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, timeout_ms: int
    ) -> None:
        """Commits and waits; asynchronous commits made before are finished first."""
        self._where()
        chosen = self._chosen(offsets)
        deadline = _now_ms() + timeout_ms
        self._finish_commits(wait_until_ms=deadline)
        if not chosen:
            return

        def once(left_ms: int) -> None:
            error = commit_error(self._submit_commit(chosen).result(left_ms))
            if isinstance(error, _MOVED):
                self._forget_coordinator()
            if error is not None:
                raise error

        self._retry(once, max(0, int(deadline - _now_ms())), "committing offsets")
        self._note_committed(chosen)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        callback: Callable[[Any, Any], object] | None,
    ) -> CommitFuture:
        """Commits without waiting; the outcome is told from within a later call."""
        self._where()
        chosen = self._chosen(offsets)
        callback = callback or self._config["default_offset_commit_callback"]
        future = CommitFuture()
        request = self._submit_commit(chosen) if chosen else None
        if request is not None:
            request.add_done_callback(self._reenter)
        self._commits.append((request, chosen, future, callback))
        return future

    def _chosen(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        chosen = self._consumer.positions() if offsets is None else dict(offsets)
        for where, at in chosen.items():
            if not isinstance(where, TopicPartition) or not isinstance(at, OffsetAndMetadata):
                raise TypeError("offsets must be {TopicPartition: OffsetAndMetadata}")
            if at.offset < 0:
                raise ValueError(f"Invalid negative offset of {where}: {at.offset}")
        return chosen

    def _submit_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Any:
        return self._consumer.client.submit(
            "OffsetCommit",
            wire.commit_body(self.group_metadata(), offsets),
            self._where(),
            max_version=wire.COMMIT_VERSION_MAX,
        )

    def _note_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._committed.update(offsets)
        if self._on_commit is not None:
            self._on_commit(dict(offsets))

    def _finish_commits(self, wait_until_ms: float | None = None) -> None:
        """Tells outcomes in the order of the calls; waits for them if there is a limit."""
        while self._commits:
            request, offsets, future, callback = self._commits[0]
            if request is not None and not request.is_done and wait_until_ms is None:
                return
            self._commits.popleft()
            answer, error = self._outcome(request, wait_until_ms)
            if error is None:
                self._note_committed(offsets)
            else:
                log.warning("an asynchronous commit of group %s failed: %s", self._group_id, error)
            future.complete(answer, error)
            if callback is not None:
                try:
                    callback(offsets, answer if error is None else error)
                except Exception:
                    log.exception("the callback of a commit raised")

    def _outcome(self, request: Any, wait_until_ms: float | None) -> tuple[Any, KafkaError | None]:
        if request is None:
            return {"Topics": []}, None
        left_ms = 0 if wait_until_ms is None else max(0, int(wait_until_ms - _now_ms()))
        try:
            answer = request.result(left_ms)
        except KafkaError as failed:
            return None, failed
        wrong = commit_error(answer)
        if isinstance(wrong, _MOVED):
            self._forget_coordinator()
        return answer, wrong

    def _retry(self, once: Callable[[int], _T], timeout_ms: int, doing: str) -> _T:
        """Calls `once(ms left)` until it does not raise a retriable error, within the limit."""
        deadline = _now_ms() + timeout_ms
        backoff_ms = float(self._config["retry_backoff_ms"])
        while True:
            try:
                return once(max(0, int(deadline - _now_ms())))
            except RetriableError as error:
                if _now_ms() + backoff_ms >= deadline:
                    raise KafkaTimeoutError(
                        f"{doing} for group {self._group_id} took longer than {timeout_ms} ms;"
                        f" the last error: {error}"
                    ) from error
                log.debug("%s: %s; trying again", doing, error)
            time.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, self._config["retry_backoff_max_ms"])

    # ------------------------------------------------------------------ the end

    def close(self, autocommit: bool, timeout_ms: int) -> None:
        """Last commit and callbacks, then the user's own objects; errors are logged."""
        deadline = _now_ms() + timeout_ms
        try:
            if autocommit and self._config["enable_auto_commit"] and self._group_id is not None:
                self.commit(None, timeout_ms)
            self._finish_commits(wait_until_ms=deadline)
        except (KafkaError, BrokerResponseError) as error:
            log.warning("the last commit of group %s failed: %s", self._group_id, error)
        config = self._config
        for each in (
            config["key_deserializer"],
            config["value_deserializer"],
            *config["interceptor_classes"],
        ):
            close = getattr(each, "close", None)
            if close is None:
                continue
            try:
                close()
            except Exception:
                log.exception("close() of %r raised", each)
