"""The driver: sends a consumer's requests about topics, its group and offsets.

This is the only I/O of the package `coordinator`.

    poll() ── before_poll(ms) ──> _topics.py            partitions of the subscribed topics
                              ├─> _membership.py        the group: requests, heartbeats (Rust)
                              │     _machine.py         the member's state machine, interruptions
                              │     _chores.py          auto-commit, listener, assignment, in the
                              │                         application's thread
                              ├─> _committed_offsets.py committed offsets, for new partitions
                              ├─> _offset_commit.py     auto-commit, results of commits
                              │     _marks.py           marked records
                              └─> _native.py            the core: assign, set_committed
    _waits.py       the clock, calls that wait, work in other threads
    _monitoring.py  metrics and log lines

`before_poll` never waits: it sends requests, and the core calls it again when a response arrives.
`commit`, `fetch`, `seek_to_committed`, `unsubscribe` and `close` wait within their limits. A
listener runs within the application's poll, close or unsubscribe, and may commit and seek.
"""

import contextlib
import logging
import re
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from thalweg.coordinator.assignors.registry import resolved
from thalweg.coordinator.commit_future import CommitFuture
from thalweg.coordinator.driver._chores import heard
from thalweg.coordinator.driver._committed_offsets import CommittedOffsets, OffsetRequests, Seeking
from thalweg.coordinator.driver._machine import Interruptions
from thalweg.coordinator.driver._marks import Marks
from thalweg.coordinator.driver._membership import Membership
from thalweg.coordinator.driver._monitoring import GroupMetrics
from thalweg.coordinator.driver._native import ConsumerCore
from thalweg.coordinator.driver._offset_commit import CommitCallback, Commits
from thalweg.coordinator.driver._topics import Topics, brokers_own
from thalweg.coordinator.driver._waits import (
    Background,
    CoreCall,
    Wait,
    Waiting,
    now_ms,
    run,
    soonest,
)
from thalweg.coordinator.listener import Listener, Spawn, tell
from thalweg.coordinator.topics import Found
from thalweg.errors import BrokerResponseError, IllegalStateError, KafkaError
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["CHECKS", "Background", "CoreCall", "Driver", "Wait", "Waiting", "heard", "run"]

log = logging.getLogger("thalweg.coordinator")

# Checks of options that need this package, for `config.configured`.
CHECKS: Final = {"partition_assignment_strategy": resolved}

_ONE_WAY: Final = (
    "You must choose only one way to configure your consumer: (1) subscribe to specific topics by"
    " name, (2) subscribe to topics matching a regex pattern, (3) assign itself specific"
    " topic-partitions."
)


class Driver:
    """Does the group work of one consumer, and looks up topics and committed offsets.

    Args:
        consumer: The core's consumer, or a subclass.
        config: Its options.
        spawn: Starts a task for the awaitable that an asyncio listener returns. The task calls
            `reenter` at its end.

    Raises:
        KafkaConfigurationError: If `partition_assignment_strategy` is wrong.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        spawn: Spawn | None = None,
    ) -> None:
        # The core holds before_poll, so a strong reference to it would be a cycle.
        self._consumer: ConsumerCore = weakref.proxy(consumer)
        self._config = config
        # Also without a group, as in Java: report a wrong option at once.
        self._assignors = resolved(config["partition_assignment_strategy"])
        self._assigned_by_user = False
        self._listener: Listener | None = None
        self._spawn = spawn
        self._told_at_all = False
        self._is_telling = False  # without a group: an asyncio listener is running
        self._allowed_at = 0  # the number of returned records at the last allow_rebalance
        self._regex: str | None = None
        self._topics = Topics(self._consumer, config, self.reenter)
        self._membership: Membership | None = None
        self._metrics = GroupMetrics(config)
        self._interruptions = Interruptions()
        self._marks = Marks(lambda partitions: self._consumer._handed_out(partitions))
        requests = OffsetRequests(self._consumer, config, self)
        self._committed = CommittedOffsets(self._consumer, config, self, requests, self._marks)
        self._commits = Commits(
            self._consumer,
            config,
            self,
            requests,
            self._marks,
            self._committed,
            self._metrics,
            None if spawn is not None else lambda: self._consumer.wakeup(),
        )

    @property
    def _member(self) -> Membership | None:
        """The membership, while the consumer is subscribed or leaves the group, else None.

        `_membership` stays after that, because the member id is for the consumer's life (KIP-1082).
        """
        member = self._membership
        return member if member and (self._topics.subscribed or member.is_leaving) else None

    # ------------------------------------------------------------------ from poll

    def before_poll(self, left_ms: int | None, polls: bool = True) -> int | None:
        """See `_core.ConsumerHooks.before_poll`."""
        at = soonest(self._poll() if polls else self._wait())
        return None if at is None else max(0, int(at - now_ms()) + 1)

    def _poll(self) -> list[float | None]:
        """Does everything that is due in a poll. Returns the times of the next call."""
        if self._interruptions.is_broken:
            self._start_again()
        with self._interruptions:
            found = None if self._is_telling else self._topics.poll()
            if found is not None:
                self._take(found)
        return [
            self._poll_membership(),
            self._committed.look_up(),
            self._commits.poll(),
            # Last, because the calls above may have made a request due at once.
            None if self._is_telling else self._topics.next_call_ms,
        ]

    def _poll_membership(self) -> float | None:
        if self._member is not None:
            return self._member.poll()
        return None if self._membership is None else self._membership.keep_leaving()

    def _wait(self) -> list[float | None]:
        """Does what `position` may wait for: committed offsets, and the membership for them."""
        if self._member is None:  # a new result about topics would need the listener: not now
            return [self._committed.look_up()]
        with self._interruptions:
            found = self._topics.poll()
            if found is not None:
                self._member.take(found)
        return [
            self._member.wait(),
            self._committed.look_up(),
            self._topics.next_call_ms,
        ]

    def _take(self, found: Found) -> None:
        if self._member is not None:
            self._member.take(found)
            return
        assigned = self._consumer.assignment()
        wanted = found.partitions_subscribed()
        gone = sorted(assigned.difference(wanted))
        new = [each for each in wanted if each not in assigned]
        if not gone and not new:
            self._told_at_all = True
            return
        if self._spawn is not None and self._listener is not None:
            self._is_telling = True
            self._consumer._hold(True)
            self._spawn(self._switch(gone, new, wanted))
            return
        self._told_at_all = True
        try:
            if gone:
                tell(self._listener, "on_partitions_revoked", gone, wake=self._consumer.wakeup)
        finally:  # also after an interruption: the listener hears of a change only once
            if self._topics.subscribed:  # the listener may have given it up
                self._commits.forget([*gone, *new])
                self._consumer._assign(wanted)
        if self._topics.subscribed:
            tell(self._listener, "on_partitions_assigned", new, wake=self._consumer.wakeup)

    async def _switch(
        self, gone: list[TopicPartition], new: list[TopicPartition], wanted: list[TopicPartition]
    ) -> None:
        """Changes the assignment with an asyncio listener. No records are returned meanwhile."""
        try:
            try:
                if gone:
                    await self._told("on_partitions_revoked", gone)
            finally:  # also if it is cancelled: news of the topics come only once
                if self._topics.subscribed:  # it may have been given up meanwhile
                    self._commits.forget([*gone, *new])
                    self._consumer._assign(wanted)
            if self._topics.subscribed:
                await self._told("on_partitions_assigned", new)
        finally:
            self._told_at_all, self._is_telling = True, False
            with contextlib.suppress(IllegalStateError):  # closed in the meantime
                self._consumer._hold(False)

    async def _told(self, what: str, partitions: list[TopicPartition]) -> None:
        waiting = tell(self._listener, what, partitions, heard)
        if waiting is not None:
            await waiting

    def reenter(self, _: object = None) -> None:
        """Makes the core call `before_poll` soon. Any thread may call it."""
        with contextlib.suppress(ReferenceError, IllegalStateError):  # it may be freed or closed
            self._consumer._reenter()

    # ------------------------------------------------------------------ assignment, subscription

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Assigns the partitions that the user has chosen."""
        if self._topics.subscribed:
            raise IllegalStateError(_ONE_WAY)
        self._commits.commit_what_moved()
        self._commits.forget(self._consumer.assignment() ^ set(partitions))
        self._assigned_by_user = bool(partitions)
        if self._membership is not None:
            self._membership.keep(partitions)
        self._consumer._assign(partitions)
        self._consumer._reenter()  # new partitions may need their committed offsets

    def subscribe(
        self,
        topics: list[str],
        pattern: str | re.Pattern[str] | None,
        listener: Listener | None,
    ) -> None:
        """Subscribes to the topics that the user has chosen."""
        if self._assigned_by_user or (topics and pattern is not None):
            raise IllegalStateError(_ONE_WAY)
        regex = self._regex = brokers_own(pattern, self._config)
        compiled = re.compile(pattern) if pattern is not None and regex is None else None
        self._listener = listener
        self._told_at_all = False
        self._topics.subscribe(topics, compiled)
        group_id = self._config["group_id"]
        if group_id is not None:
            if self._membership is None:
                self._membership = self._new_membership(group_id)
            self._membership.listener = listener
            self._membership.keep(())
            self._membership.subscribe(None if compiled else frozenset(topics), regex)
        self._consumer._set_subscribed(True)
        self._consumer._reenter()

    def _new_membership(self, group_id: str, member_id: str = "") -> Membership:
        own = self._consumer, self._config, group_id, self._assignors, self._topics, self._commits
        calls = self.reenter, self._is_blocked
        return Membership(*own, *calls, self._metrics, self._spawn, self._interruptions, member_id)

    def _start_again(self) -> None:
        """Joins the group again after an interruption that may have lost an event."""
        # The new member has no topics to watch yet. If it leads the group, it asks again.
        self._topics.watch(frozenset())
        self._topics.look_again()
        old, is_subscribed = self._member, self._regex is not None or self._topics.subscribed
        if old is not None and old.is_leaving:
            old.leave_again()
        elif not (is_subscribed or self._assigned_by_user):
            self._consumer._assign([])  # the interruption came at the end of `unsubscribe`
        if old is None or old.is_leaving or not is_subscribed:
            self._interruptions.is_broken = False
            return
        log.warning(
            "the consumer of group %s was interrupted while it handled an event of its group. It"
            " joins the group again",
            old.group_id,
        )
        new = self._new_membership(old.group_id, old.group_metadata().member_id)
        new.listener = old.listener
        new.replace(sorted(self._consumer.assignment()))
        self._membership = new
        if not self._topics.is_pattern:  # a pattern's topics are known only after the next response
            new.subscribe(frozenset(self._topics.names() or ()), self._regex)
        self._interruptions.is_broken = False  # last, because this may be interrupted, too

    def subscription(self) -> set[str] | None:
        """Returns the subscribed topics, or the topics that match the pattern."""
        if self._regex is not None:  # only the topics of assigned partitions are known
            return {each.topic for each in self._consumer.assignment()}
        return self._topics.names()

    def has_partitions(self) -> bool:
        """Whether the partitions of the subscription are assigned, even if there are none."""
        if self._member is not None:
            return self._member.has_partitions()
        return self._told_at_all or not self._topics.subscribed

    def is_settled(self) -> bool:
        """Whether no change of the assignment is in progress."""
        if self._member is not None:
            return self._member.is_settled()
        return not self._topics.subscribed or (self._told_at_all and not self._is_telling)

    def unsubscribe(self) -> Waiting[None]:
        """Gives up all partitions, and leaves the group. A newer call of the listener counts."""
        was_assigned, self._assigned_by_user = self._assigned_by_user, False
        with self._interruptions:
            try:
                if self._member is None:
                    self._commits.commit_what_moved()
                    self._topics.clear()
                else:
                    deadline = now_ms() + float(self._config["default_api_timeout_ms"])
                    yield from self._member.unsubscribe(deadline)
            finally:  # also after an interruption: the next polls continue it, without topics
                if not self._topics.subscribed:
                    self._regex = None
                    self._consumer._set_subscribed(False)
            if self._topics.subscribed or self._assigned_by_user:
                return
            if was_assigned or self._membership is None or not self._membership.is_leaving:
                # Otherwise a listener has called this: the partitions are given up after it, with
                # their commit.
                self._consumer._assign([])

    # ------------------------------------------------------------------ the group

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the membership. Outside a group: generation -1, no member id."""
        if self._member is not None:
            return self._member.group_metadata()
        instance = self._config["group_instance_id"]
        return ConsumerGroupMetadata(self._config["group_id"], group_instance_id=instance)

    def commit_refusal(self) -> KafkaError | None:
        """Returns why the member cannot commit now, or None."""
        return None if self._member is None else self._member.commit_refusal()

    def commit_refused(self, code: int, generation: int) -> None:
        """Tells the member that the group has refused a commit."""
        if self._member is not None:
            self._member.commit_refused(code, generation)

    def keep_up(self) -> None:
        """Handles responses of the group while a call waits. It runs no callback."""
        if self._member is not None:
            self._member.keep_up()

    def _is_blocked(self) -> bool:
        """Whether polls have returned records since the application last allowed a rebalance.

        Without assigned partitions there is nothing to protect.
        """
        if not (self._config["block_rebalance_on_poll"] and self._consumer.assignment()):
            return False
        return self._consumer._records_handed_out() != self._allowed_at

    def allow_rebalance(self) -> None:
        """Lets the next poll give up partitions: the returned records are processed."""
        self._allowed_at = self._consumer._records_handed_out()
        self.reenter()

    # ------------------------------------------------------------------ offsets

    def mark(self, records: object) -> None:
        """Marks records as processed. Any thread may call it."""
        self._marks.add(records)

    def mark_through(self, records: object) -> None:
        """Marks records and all records before them as processed. Any thread may call it."""
        self._marks.add_through(records)

    def seeking(self, *partitions: TopicPartition) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager for a seek of the application: call the core's seek in it."""
        return self._marks.seeking(partitions)

    def seek_to(
        self, partitions: list[TopicPartition], where: Literal["earliest", "latest"]
    ) -> None:
        """Moves positions to the start or the end of the log, for the application."""
        with self.seeking(*partitions):
            self._consumer._seek_to(partitions, where)

    def commit_marked(self, timeout_ms: int) -> Waiting[None]:
        """Commits the marked records, and waits."""
        return self._timed(self._commits.commit_marked(timeout_ms))

    def fetch(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Looks up committed offsets. It waits and retries within the limit."""
        began = time.monotonic_ns()
        try:
            return (yield from self._committed.fetch(partitions, timeout_ms))
        finally:
            self._metrics.waited("committed-time-ns-total", time.monotonic_ns() - began)

    def seek_to_committed(
        self,
        partitions: list[TopicPartition],
        timeout_ms: int,
        seek: Callable[[TopicPartition, int | OffsetAndMetadata], None],
        *,
        is_eager: bool = False,
    ) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Continues at committed offsets, or by the reset policy without one; see `Seeking`."""
        found = yield from self.fetch(partitions, timeout_ms)
        seeking = Seeking(self._consumer, self._config, seek, self.seek_to, is_eager=is_eager)
        yield from seeking.to(found)
        return found

    @property
    def departures(self) -> int:
        """How many times the group has taken partitions away."""
        return self._commits.departures

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        timeout_ms: int,
        asked_at: int | None = None,
    ) -> Waiting[None]:
        """Commits and waits; see `Commits.commit`."""
        yield from self._timed(self._commits.commit(offsets, timeout_ms, asked_at))

    def to_commit(self, *, marked: bool) -> frozenset[TopicPartition]:
        """Returns the partitions that `commit_marked`, or `commit` without offsets, would write."""
        found = self._commits.new_marks() if marked else self._consumer._positions()
        return frozenset(found)

    def refuse_departed(self, partitions: Iterable[TopicPartition], asked_at: int) -> None:
        """Raises CommitFailedError if the group took a partition away; see `departures`."""
        self._commits.refuse_departed(partitions, asked_at)

    def _timed(self, commit: Waiting[None]) -> Waiting[None]:
        began = time.monotonic_ns()
        try:
            yield from commit
        finally:
            self._metrics.waited("commit-sync-time-ns-total", time.monotonic_ns() - began)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        callback: CommitCallback | None,
    ) -> CommitFuture:
        """Commits without waiting. A later call reports the result."""
        return self._commits.commit_async(offsets, callback)

    def with_metrics(
        self, groups: Mapping[str, Mapping[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Returns the core's metrics with those of the driver. Any thread may call it."""
        found = {name: dict(values) for name, values in groups.items()}
        for name, values in self._metrics.groups().items():
            found.setdefault(name, {}).update(values)
        count = found.get("kafka-metrics-count", {})
        if count:
            count["count"] = sum(map(len, found.values()))
        return found

    # ------------------------------------------------------------------ the end

    def close(self, autocommit: bool, timeout_ms: int) -> Waiting[None]:
        """Commits, runs the callbacks, and leaves the group. Errors are logged."""
        deadline = now_ms() + timeout_ms
        commit = autocommit and self._config["enable_auto_commit"]
        self._commits.end_auto_commit(last=commit)
        group_id = self._config["group_id"]
        try:
            if self._member is not None:
                yield from self._member.close(deadline, commit=commit)
            else:
                self._topics.clear()
                if commit and group_id is not None:
                    yield from self.commit(self._commits.what_moved(), timeout_ms)
                if self._membership is not None:  # its LeaveGroup may be in flight
                    yield from self._membership.until_left(deadline)
            yield from self._commits.finish(deadline, give_up=True)
        except (KafkaError, BrokerResponseError) as error:
            log.warning("the last commit of group %s failed: %s", group_id, error)
        self._commits.abandon()
        self._listener = None
