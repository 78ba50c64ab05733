"""The calls of AIOKafkaConsumer for positions, offset lookups and commits.

position, seek* ──> the core      beginning_offsets ... ──> leaders      commit, committed ──> group
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any

from thalweg import _core
from thalweg._client import consuming
from thalweg._client.arguments import offsets_given, partition_given, partitions_named
from thalweg.aio._waits import awaited
from thalweg.config import Config
from thalweg.coordinator.driver import Driver
from thalweg.errors import ConsumerStoppedError, IllegalStateError
from thalweg.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = ["ConsumerOffsets"]

_EARLIEST, _LATEST = -2, -1


class ConsumerOffsets:
    """The calls for offsets. The constructor of `AIOKafkaConsumer` sets the attributes."""

    config: Config
    _calls: "_core.AsyncConsumer[Any, Any]"
    _committing: asyncio.Lock
    _consumer: "_core.Consumer[Any, Any]"
    _driver: Driver
    _ended: bool
    _loop: asyncio.AbstractEventLoop | None
    _pid: int
    _started: bool
    _stopping: asyncio.Task[None] | None

    # ------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition) -> int:
        """Returns the offset of the next record that the consumer returns.

        It waits until the offset is known.

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            IllegalStateError: If the partition is not assigned.
            NoOffsetForPartitionError: If no offset is committed and auto_offset_reset is 'none'.
            LogTruncationError: As in `KafkaConsumer.poll`.
            KafkaError: An authorization or connection error, as in `KafkaConsumer.poll`.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        consuming.check_assigned(self._consumer, partition)
        return await self._calls.position(partition, self._limit())

    def seek(self, partition: TopicPartition, offset: "int | OffsetAndMetadata") -> None:
        """Sets the position: the consumer continues at this offset.

        Args:
            partition: An assigned TopicPartition.
            offset: The next offset to read. An OffsetAndMetadata also sets the leader epoch, to
                detect a truncated log (KIP-320).

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            ValueError: If the offset is not an int >= 0, or the partition is not assigned.
        """
        self._check_open()
        at, epoch = consuming.offset_given(self._consumer, partition, offset)
        with self._driver.seeking(partition):
            self._consumer.seek(partition, at, epoch)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues at the first available offset, and waits until this offset is known.

        Args:
            *partitions: Assigned partitions. Without arguments: all assigned partitions.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            ValueError: If a partition is not assigned, or if no partition is assigned at all.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        await self._seek_to(consuming.chosen(self._consumer, partitions), "earliest")

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues at the end of the log. Arguments and errors are as in `seek_to_beginning`."""
        await self._seek_to(consuming.chosen(self._consumer, partitions), "latest")

    async def _seek_to(self, partitions: list[TopicPartition], where: Any) -> None:
        self._check_loop()  # before a position moves
        self._driver.seek_to(partitions, where)
        for each in partitions:
            await self.position(each)

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Continues at the committed offsets.

        If a partition has no committed offset, `auto_offset_reset` applies to it.

        Args:
            *partitions: Assigned partitions. Without arguments: all assigned partitions.

        Returns:
            {TopicPartition: committed offset, or None}.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            ValueError: If a partition is not assigned, or if no partition is assigned at all.
            IllegalStateError: If the consumer has no group_id.
            KafkaTimeoutError: After default_api_timeout_ms.
            NoOffsetForPartitionError: If a partition has no committed offset, and
                `auto_offset_reset` is 'none'. Then no position has changed.
        """
        chosen = consuming.chosen(self._consumer, partitions)
        self._check_loop()
        steps = self._driver.seek_to_committed(chosen, self._limit(), self.seek, is_eager=True)
        found = await awaited(steps, self._calls)
        return {where: None if at is None else at.offset for where, at in found.items()}

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops returning records of these partitions until `resume`. Keeps buffered records.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            IllegalStateError: If a partition is not assigned.
        """
        self._consumer._pause_partitions(partitions_named(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes paused partitions: later calls return their records again.

        Raises:
            TypeError: If an argument is not a TopicPartition.
            IllegalStateError: If a partition is not assigned.
        """
        self._consumer._resume_partitions(partitions_named(partitions))

    def paused(self) -> set[TopicPartition]:
        """Returns the paused partitions."""
        return self._consumer.paused()

    def highwater(self, partition: TopicPartition) -> int | None:
        """Returns the offset after the last record of the partition, as of the last fetch.

        Returns:
            The offset, or None before the first fetch.

        Raises:
            TypeError: If `partition` is not a TopicPartition.
            IllegalStateError: If the partition is not assigned.
        """
        consuming.check_assigned(self._consumer, partition)
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset before which every transaction has ended, as of the last fetch.

        None and errors are as in `highwater`.
        """
        consuming.check_assigned(self._consumer, partition)
        return self._consumer.last_stable_offset(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """Returns the number of offsets between the position and the end, as of the last fetch.

        With isolation_level='read_committed' the end is the last stable offset. None and errors are
        as in `highwater`.
        """
        consuming.check_assigned(self._consumer, partition)
        return self._consumer.lag(partition)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Returns the time of the last fetch response for the partition, in Unix ms.

        None and errors are as in `highwater`.
        """
        consuming.check_assigned(self._consumer, partition)
        return self._consumer.last_poll_timestamp(partition)

    # ------------------------------------------------------------------ lookups

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition. The partitions need not be assigned.

        Raises:
            TypeError: If `partitions` is not a list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If a topic name is not valid.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        targets = consuming.targets_of(partitions, _EARLIEST)
        return consuming.offsets_of(await self._calls._list_offsets(targets, self._limit()))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the end offset of each partition: one more than the offset of the last record.

        With isolation_level='read_committed' it is the last stable offset. It raises the same
        errors as `beginning_offsets`.
        """
        targets = consuming.targets_of(partitions, _LATEST)
        return consuming.offsets_of(await self._calls._list_offsets(targets, self._limit()))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Finds the first record at or after a timestamp in each partition (KIP-79).

        Args:
            timestamps: {TopicPartition: Unix ms}.

        Returns:
            {TopicPartition: OffsetAndTimestamp, or None if there is no such record}.

        Raises:
            TypeError: If `timestamps` is not a {TopicPartition: number}.
            ValueError: If a timestamp is negative.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        targets = consuming.time_targets(timestamps)
        return consuming.times_of(await self._calls._list_offsets(targets, self._limit()))

    async def topics(self) -> set[str]:
        """Returns the names of all topics that this client may see. Requests them from a broker.

        Raises:
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        body = {"Topics": None, "AllowAutoTopicCreation": False}
        request = self._consumer._core_client.submit("Metadata", body, timeout_ms=self._limit())
        return consuming.visible_topics(await self._calls.result(request), self.config)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns the partition IDs of a topic that the consumer reads, without a request.

        It returns None if the client has no metadata of the topic.
        """
        self._check_open()
        return self._consumer._core_client.cluster().partitions_for_topic(topic)

    # ------------------------------------------------------------------ committed offsets

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commits offsets for the group, and waits for the response.

        Args:
            offsets: {TopicPartition: next offset to read}. A value is an OffsetAndMetadata, an int,
                or a tuple (int, metadata string). None: the current positions.

        Raises:
            IllegalStateError: If the consumer has no group_id.
            TypeError: If `offsets` is anything else.
            ValueError: If an offset is negative.
            CommitFailedError: If the group has rebalanced without this consumer, or if the consumer
                has lost one of the partitions since the call.
            RebalanceInProgressError: While the group rebalances. Call `getmany`, then commit again.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        self._check_loop()  # before anything is committed
        given = None if offsets is None else offsets_given(offsets)
        asked_at = self._driver.departures
        wanted = self._driver.to_commit(marked=False) if given is None else given.keys()
        async with self._committing:  # a retry of one commit must not undo another commit
            self._driver.refuse_departed(wanted, asked_at)
            await awaited(self._driver.commit(given, self._limit(), asked_at), self._calls)

    def mark(self, records: Any) -> None:
        """Marks records as processed, as `KafkaConsumer.mark`. Any thread may call it."""
        self._driver.mark(records)

    def mark_through(self, records: Any) -> None:
        """Marks records and all earlier records of their partitions as processed.

        See `KafkaConsumer.mark_through`. Any thread may call it.
        """
        self._driver.mark_through(records)

    async def commit_marked(self) -> None:
        """Commits the marked records of each partition, up to the first one that is not marked.

        It waits for the response of the group.

        Raises:
            KafkaError: As in `commit`.
        """
        self._check_open()
        self._check_loop()
        asked_at, wanted = self._driver.departures, self._driver.to_commit(marked=True)
        async with self._committing:
            self._driver.refuse_departed(wanted, asked_at)
            await awaited(self._driver.commit_marked(self._limit()), self._calls)

    def allow_rebalance(self) -> None:
        """Allows rebalances again, as `KafkaConsumer.allow_rebalance`."""
        self._check_open()
        self._driver.allow_rebalance()

    async def committed(
        self, partition: TopicPartition, metadata: bool = False
    ) -> int | OffsetAndMetadata | None:
        """Returns the group's committed offset of a partition. Requests it from the coordinator.

        Args:
            partition: Any TopicPartition.
            metadata: True: returns an OffsetAndMetadata instead of the offset.

        Returns:
            The offset. None if nothing is committed.

        Raises:
            IllegalStateError: If the consumer has no group_id.
            TypeError: If `partition` is not a TopicPartition.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        where = partition_given(partition)
        found = await awaited(self._driver.fetch([where], self._limit()), self._calls)
        at = found[where]
        return at if at is None or metadata else at.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the current membership, for `send_offsets_to_transaction` (KIP-447)."""
        return self._driver.group_metadata()

    # ------------------------------------------------------------------ helpers

    def _limit(self) -> int:
        return int(self.config["default_api_timeout_ms"])

    def _check_loop(self) -> None:
        """Raises in another event loop, and in a forked child.

        Call it before you wait for a lock. In a forked child, no task may ever release the lock.
        """
        if self._pid != os.getpid():
            raise IllegalStateError(
                "this client was created before fork(), in the parent process. Create a new one in"
                " this process"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalStateError(
                "this client was started in another event loop. Call it in the loop in which"
                " start() ran"
            )

    def _check_running(self) -> None:
        """Raises unless the consumer runs; for calls that ask for records or change the topics."""
        self._check_open()
        if self._stopping is not None:
            raise ConsumerStoppedError("the consumer was stopped. Create a new one")

    def _check_open(self) -> None:
        """Raises unless started and not ended; for calls that a listener may make during `stop`."""
        if self._ended:
            raise ConsumerStoppedError("the consumer was stopped. Create a new one")
        if not self._started:
            raise IllegalStateError("the consumer was not started: await its start() first")
