"""A consumer's positions, look-ups and committed offsets: half of `KafkaConsumer`.

Positions are the core's; what is committed is the driver's. Arguments are checked here.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from thalweg import _consuming, _core
from thalweg._arguments import offsets_given, partition_given, partitions_named
from thalweg.config import Config
from thalweg.coordinator.driver import Driver, run
from thalweg.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=_core.Consumer[Any, Any])

_EARLIEST, _LATEST = -2, -1


def alone(call: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """The call, for one thread at a time: the driver's state has no lock."""

    @functools.wraps(call)
    def guarded(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._begin_use()
        try:
            return call(self, *args, **kwargs)
        finally:
            self._end_use()

    return guarded


class ConsumerOffsets(_core.Consumer[K, V], Generic[K, V]):
    """The calls; opened by `KafkaConsumer`."""

    config: Config
    _driver: Driver

    # ------------------------------------------------------------------ positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Offset of the next record to be handed out.

        Args:
            partition: An assigned TopicPartition.
            timeout_ms: How long to wait until it is known; None: default_api_timeout_ms.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
            NoOffsetForPartitionError: Without committed offset and with auto_offset_reset none.
            LogTruncationError: As `poll`; so are errors of authorization and of connections.
            KafkaTimeoutError: When the time is over.
        """
        _consuming.check_assigned(self, partition)
        return super().position(partition, self._limit(timeout_ms))

    def seek(
        self,
        partition: TopicPartition,
        offset: "int | OffsetAndMetadata",
        leader_epoch: int = -1,
    ) -> None:
        """Reads on from an offset.

        Args:
            partition: An assigned TopicPartition.
            offset: The next offset to read, or an OffsetAndMetadata with its leader epoch.
            leader_epoch: Of the record before, for truncation detection (KIP-320).

        Raises:
            TypeError: If it is no TopicPartition.
            ValueError: If the offset is no int of 0 or more, or the partition is not assigned.
        """
        at, epoch = _consuming.offset_given(self, partition, offset, leader_epoch)
        super().seek(partition, at, epoch)
        self._driver.sought(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Reads on from the first offset there is; looked up when it is needed.

        Args:
            *partitions: Assigned ones; none: all.

        Raises:
            TypeError: If one is no TopicPartition.
            ValueError: If one is not assigned, or nothing is.
        """
        self._seek_to(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Reads on from the end; see `seek_to_beginning`."""
        self._seek_to(partitions, "latest")

    def _seek_to(self, partitions: Collection[TopicPartition], where: Any) -> None:
        chosen = _consuming.chosen(self, partitions)
        self.seek_to(chosen, where)
        self._driver.sought(*chosen)

    @alone
    def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Reads on from the committed offsets (aiokafka); where there is none, by reset policy.

        Raises:
            TypeError: If one is no TopicPartition.
            ValueError: If one is not assigned, or nothing is.
            IllegalStateError: Without group_id.
            KafkaTimeoutError: When the time is over.
            NoOffsetForPartitionError: If nothing is committed and `auto_offset_reset` is 'none';
                no position has moved then.
        """
        chosen = _consuming.chosen(self, partitions)
        run(self._driver.seek_to_committed(chosen, self._limit(timeout_ms), self.seek))

    def pause(self, *partitions: TopicPartition) -> None:
        """Hands out nothing of these partitions until `resume`; what is buffered stays.

        Raises:
            TypeError: If one is no TopicPartition.
            IllegalStateError: If one is not assigned.
        """
        self.pause_partitions(partitions_named(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Undoes `pause`."""
        self.resume_partitions(partitions_named(partitions))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Offset after the partition's last record, as of the last fetch; None before one.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
        """
        _consuming.check_assigned(self, partition)
        return super().highwater(partition)

    # ------------------------------------------------------------------ lookups

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition; they need not be assigned.

        Raises:
            TypeError: If it is no list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If no topic can have a name.
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Offset after each partition's last record; the last stable one under read_committed.

        Raises:
            TypeError: If it is no list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If no topic can have a name.
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a timestamp (KIP-79).

        Args:
            timestamps: {TopicPartition: Unix ms}.
            timeout_ms: None: default_api_timeout_ms.

        Returns:
            {TopicPartition: OffsetAndTimestamp, or None if there is no such record}.

        Raises:
            TypeError: If it is no {TopicPartition: number}.
            ValueError: If a timestamp is negative.
            KafkaTimeoutError: When the time is over.
        """
        targets = _consuming.time_targets(timestamps)
        return _consuming.times_of(self.list_offsets(targets, self._limit(timeout_ms)))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Names of all topics that this client may see; asks the cluster.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        answer = self.client.metadata(None, self._limit(timeout_ms))
        return _consuming.visible_topics(answer, self.config)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Partition ids of a topic; asks the cluster if it is not known yet.

        Returns:
            The ids; none if there is no such topic.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        known = self.client.cluster().partitions_for_topic(topic)
        if known:
            return known
        answer = self.client.metadata([topic], self._limit(timeout_ms))
        return {row["PartitionIndex"] for found in answer["Topics"] for row in found["Partitions"]}

    # ------------------------------------------------------------------ committed offsets

    @alone
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits offsets for the group, and waits until it is done.

        Args:
            offsets: {TopicPartition: next offset to read}, as OffsetAndMetadata, an int, or an
                int and a metadata string; None: the positions.
            timeout_ms: How long to retry; None: default_api_timeout_ms.

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If it is no {TopicPartition: OffsetAndMetadata}.
            ValueError: If an offset is negative.
            CommitFailedError: If the group has moved on.
            RebalanceInProgressError: While the group rebalances: poll, then commit again.
            KafkaTimeoutError: When the time is over.
        """
        given = None if offsets is None else offsets_given(offsets)
        run(self._driver.commit(given, self._limit(timeout_ms)))

    @alone
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Callable[[Any, Any], object] | None = None,
    ) -> Any:
        """Commits offsets without waiting and without retries.

        Args:
            offsets: As for `commit`.
            callback: Called as f(offsets, answer or exception) from a later `poll`, `commit` or
                `close`, in the order of the calls; default_offset_commit_callback if None.

        Returns:
            A future with is_done, value, exception, succeeded() and failed().

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If it is no {TopicPartition: OffsetAndMetadata}.
            ValueError: If an offset is negative.
        """
        given = None if offsets is None else offsets_given(offsets)
        return self._driver.commit_async(given, callback)

    def mark(self, records: Any) -> None:
        """Marks records as finished, for `commit_marked` and, with auto_commit_marks, auto-commit.

        Records may be marked in any order and by any thread. A commit stops before the first record
        of a partition that was handed out and is not marked, so a crash loses none. In a log with
        gaps (compaction, transactions), what was handed out between two commits is committed once
        all of it is marked. Commits go forward only. Marks of partitions that are taken away are
        forgotten; after a `seek` back the records are to be marked again.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else.
            IllegalStateError: If 100 000 separate ranges of a partition's records are marked behind
                one that is not (about 10 MB).
        """
        self._driver.mark(records)

    def mark_through(self, records: Any) -> None:
        """Marks records, and all before them in their partitions, as finished.

        For work that finishes a partition's records in order; `mark` is for all other work. It may
        be called from any thread.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else.
        """
        self._driver.mark_through(records)

    @alone
    def commit_marked(self, timeout_ms: float | None = None) -> None:
        """Commits, for each partition, the records before the first one that is not marked.

        Waits until the group has answered.

        Raises:
            KafkaError: As `commit`.
        """
        run(self._driver.commit_marked(self._limit(timeout_ms)))

    @alone
    def allow_rebalance(self) -> None:
        """With block_rebalance_on_poll: what was polled before is done.

        Its partitions may go, with the next poll. Without that option they always may.
        """
        self._driver.allow_rebalance()

    @alone
    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """The group's committed offset of a partition; asks the coordinator.

        Args:
            partition: Any TopicPartition.
            metadata: Whether to return the whole OffsetAndMetadata.
            timeout_ms: None: default_api_timeout_ms.

        Returns:
            The offset; None if nothing is committed.

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If it is no TopicPartition.
            KafkaTimeoutError: When the time is over.
        """
        where = partition_given(partition)
        found = run(self._driver.fetch([where], self._limit(timeout_ms)))[where]
        return found if found is None or metadata else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """A snapshot of the membership, for transactions (KIP-447)."""
        return self._driver.group_metadata()

    # ------------------------------------------------------------------ helpers

    def _limit(self, timeout_ms: float | None) -> int:
        return _consuming.limit_ms(timeout_ms, self.config)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        targets = _consuming.targets_of(partitions, timestamp)
        return _consuming.offsets_of(self.list_offsets(targets, self._limit(timeout_ms)))
