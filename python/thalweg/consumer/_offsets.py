"""The calls of `KafkaConsumer` for positions, offset lookups and commits.

This module checks the arguments. The core keeps the positions, and the driver commits.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from thalweg import _core
from thalweg._client import consuming
from thalweg._client.arguments import offsets_given, partition_given, partitions_named
from thalweg.config import Config
from thalweg.coordinator.driver import Driver, run
from thalweg.errors import AuthorizationError, for_code
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
    """Lets only one thread at a time make the call, because the driver's state has no lock."""

    @functools.wraps(call)
    def guarded(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._begin_use()
        try:
            return call(self, *args, **kwargs)
        finally:
            self._end_use()

    return guarded


class ConsumerOffsets(_core.Consumer[K, V], Generic[K, V]):
    """The calls for offsets. `KafkaConsumer` opens the core and sets the attributes."""

    config: Config
    _driver: Driver

    # ------------------------------------------------------------------ positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Returns the offset of the next record that the consumer returns.

        Args:
            partition: An assigned TopicPartition.
            timeout_ms: How long to wait until the position is known. None: default_api_timeout_ms.

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            IllegalStateError: If the partition is not assigned.
            NoOffsetForPartitionError: If no offset is committed and auto_offset_reset is 'none'.
            LogTruncationError: As in `poll`.
            KafkaError: An authorization or connection error, as in `poll`.
            KafkaTimeoutError: After timeout_ms.
        """
        consuming.check_assigned(self, partition)
        return super().position(partition, self._limit(timeout_ms))

    def seek(
        self,
        partition: TopicPartition,
        offset: "int | OffsetAndMetadata",
        leader_epoch: int = -1,
    ) -> None:
        """Sets the position: the consumer continues at this offset.

        Args:
            partition: An assigned TopicPartition.
            offset: The next offset to read. An OffsetAndMetadata also sets the leader epoch.
            leader_epoch: The leader epoch of the record before `offset`, to detect a truncated log
                (KIP-320). -1: unknown.

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            ValueError: If the offset is not an int >= 0, or the partition is not assigned.
            IllegalStateError: If another thread uses the consumer.
        """
        at, epoch = consuming.offset_given(self, partition, offset, leader_epoch)
        with self._driver.seeking(partition):
            super().seek(partition, at, epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues at the first available offset. The next call that needs the offset looks it up.

        Args:
            *partitions: Assigned partitions. Without arguments: all assigned partitions.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            ValueError: If a partition is not assigned, or if no partition is assigned at all.
        """
        self._seek_all(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues at the end of the log. Arguments and errors are as in `seek_to_beginning`."""
        self._seek_all(partitions, "latest")

    def _seek_all(self, partitions: Collection[TopicPartition], where: Any) -> None:
        self._driver.seek_to(consuming.chosen(self, partitions), where)

    @alone
    def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Continues at the committed offsets (aiokafka).

        If a partition has no committed offset, `auto_offset_reset` applies to it.

        Args:
            *partitions: Assigned partitions. Without arguments: all assigned partitions.
            timeout_ms: How long to wait. None: default_api_timeout_ms.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            ValueError: If a partition is not assigned, or if no partition is assigned at all.
            IllegalStateError: If the consumer has no group_id.
            KafkaTimeoutError: After timeout_ms.
            NoOffsetForPartitionError: If a partition has no committed offset, and
                `auto_offset_reset` is 'none'. Then no position has changed.
        """
        chosen = consuming.chosen(self, partitions)
        run(self._driver.seek_to_committed(chosen, self._limit(timeout_ms), self.seek))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops returning records of these partitions until `resume`. Keeps buffered records.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            IllegalStateError: If a partition is not assigned.
        """
        self._pause_partitions(partitions_named(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes paused partitions: later calls return their records again.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            IllegalStateError: If a partition is not assigned.
        """
        self._resume_partitions(partitions_named(partitions))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Returns the offset after the last record of the partition, as of the last fetch.

        Returns:
            The offset, or None before the first fetch.

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            IllegalStateError: If the partition is not assigned.
        """
        consuming.check_assigned(self, partition)
        return super().highwater(partition)

    # ------------------------------------------------------------------ lookups

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition. The partitions need not be assigned.

        Raises:
            TypeError: If `partitions` is not a list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If a topic name is not valid.
            KafkaTimeoutError: After timeout_ms (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the end offset of each partition: one more than the offset of the last record.

        With isolation_level='read_committed' it is the last stable offset.

        Raises:
            TypeError: If `partitions` is not a list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If a topic name is not valid.
            KafkaTimeoutError: After timeout_ms (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Finds the first record at or after a timestamp in each partition (KIP-79).

        Args:
            timestamps: {TopicPartition: Unix ms}.
            timeout_ms: How long to wait. None: default_api_timeout_ms.

        Returns:
            {TopicPartition: OffsetAndTimestamp, or None if there is no such record}.

        Raises:
            TypeError: If `timestamps` is not a {TopicPartition: number}.
            ValueError: If a timestamp is negative.
            KafkaTimeoutError: After timeout_ms.
        """
        targets = consuming.time_targets(timestamps)
        return consuming.times_of(self._list_offsets(targets, self._limit(timeout_ms)))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Returns the names of all topics that this client may see. Requests them from a broker.

        Raises:
            KafkaTimeoutError: After timeout_ms (None: default_api_timeout_ms).
        """
        response = self._core_client.metadata(None, self._limit(timeout_ms))
        return consuming.visible_topics(response, self.config)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Returns the partition IDs of a topic. Requests them if the client does not have them yet.

        Returns:
            The IDs. The set is empty if the topic does not exist.

        Raises:
            KafkaTimeoutError: After timeout_ms (None: default_api_timeout_ms).
            TopicAuthorizationFailedError: If the consumer has no permission to describe the topic.
        """
        client = self._core_client
        known = client.cluster().partitions_for_topic(topic)
        if known:
            return known
        response = client.metadata([topic], self._limit(timeout_ms))
        for found in response["Topics"]:
            kind = for_code(found["ErrorCode"])
            if issubclass(kind, AuthorizationError):
                text = f"topic {topic}: {kind.description}"
                raise kind(client.explained(text, "Metadata", found["ErrorCode"], topic))
        return {
            row["PartitionIndex"] for found in response["Topics"] for row in found["Partitions"]
        }

    # ------------------------------------------------------------------ committed offsets

    @alone
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits offsets for the group, and waits for the response.

        Args:
            offsets: {TopicPartition: next offset to read}. A value is an OffsetAndMetadata, an int,
                or a tuple (int, metadata string). None: the current positions.
            timeout_ms: How long to retry. None: default_api_timeout_ms.

        Raises:
            IllegalStateError: If the consumer has no group_id.
            TypeError: If `offsets` is not a {TopicPartition: OffsetAndMetadata}.
            ValueError: If an offset is negative.
            CommitFailedError: If the group has rebalanced without this consumer.
            RebalanceInProgressError: While the group rebalances. Poll, then commit again.
            KafkaTimeoutError: After timeout_ms.
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
            offsets: As in `commit`.
            callback: A later `poll`, `commit` or `close` calls it as f(offsets, response or
                exception), in the order of the commits. None: default_offset_commit_callback.

        Returns:
            A future with is_done, value, exception, succeeded() and failed().

        Raises:
            IllegalStateError: If the consumer has no group_id.
            TypeError: If `offsets` is not a {TopicPartition: OffsetAndMetadata}.
            ValueError: If an offset is negative.
        """
        given = None if offsets is None else offsets_given(offsets)
        return self._driver.commit_async(given, callback)

    def mark(self, records: Any) -> None:
        """Marks records as processed. `commit_marked` or auto_commit_marks commits them.

        Any thread may mark records, in any order. In each partition, a commit includes only the
        records before the first record that the consumer has returned and that you have not marked.
        So a crash loses no record. In a log with gaps (compaction, transactions), the records that
        the consumer returns between two commits count as marked only when you have marked all of
        them. A `seek` never moves a commit back, but a reset does, for example after the topic was
        created again. When the consumer gives up or resets a partition, its marks are lost. After a
        `seek` back, mark the records again.

        Args:
            records: A ConsumerRecord, several of them, or the result of `poll`.

        Raises:
            TypeError: If `records` is anything else.
            IllegalStateError: If a partition has 100,000 separate ranges of marked records (about
                10 MB) after a record that is not marked.
        """
        self._driver.mark(records)

    def mark_through(self, records: Any) -> None:
        """Marks records, and all earlier records of their partitions, as processed.

        Use it if you process the records of a partition in order. Otherwise use `mark`. Any thread
        may call it.

        Args:
            records: A ConsumerRecord, several of them, or the result of `poll`.

        Raises:
            TypeError: If `records` is anything else.
        """
        self._driver.mark_through(records)

    @alone
    def commit_marked(self, timeout_ms: float | None = None) -> None:
        """Commits the marked records of each partition, up to the first one that is not marked.

        It waits for the response of the group.

        Args:
            timeout_ms: How long to retry. None: default_api_timeout_ms.

        Raises:
            KafkaError: As in `commit`.
        """
        run(self._driver.commit_marked(self._limit(timeout_ms)))

    @alone
    def allow_rebalance(self) -> None:
        """Allows rebalances again. Call it after you have processed the records of a poll.

        With block_rebalance_on_poll=True, the consumer keeps its partitions until this call. The
        next poll may then give them up. Without this option, every poll may give up partitions.
        """
        self._driver.allow_rebalance()

    @alone
    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """Returns the group's committed offset of a partition. Requests it from the coordinator.

        Args:
            partition: Any TopicPartition.
            metadata: True: returns an OffsetAndMetadata instead of the offset.
            timeout_ms: How long to wait. None: default_api_timeout_ms.

        Returns:
            The offset. None if nothing is committed.

        Raises:
            IllegalStateError: If the consumer has no group_id.
            TypeError: If `partition` is not a TopicPartition.
            KafkaTimeoutError: After timeout_ms.
        """
        where = partition_given(partition)
        found = run(self._driver.fetch([where], self._limit(timeout_ms)))[where]
        return found if found is None or metadata else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the current membership, for `send_offsets_to_transaction` (KIP-447)."""
        return self._driver.group_metadata()

    # ------------------------------------------------------------------ helpers

    def _limit(self, timeout_ms: float | None) -> int:
        return consuming.limit_ms(timeout_ms, self.config)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        targets = consuming.targets_of(partitions, timestamp)
        return consuming.offsets_of(self._list_offsets(targets, self._limit(timeout_ms)))
