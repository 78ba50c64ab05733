"""Where an AIOKafkaConsumer reads on, and what it has committed.

position, seek* ──> the core      beginning_offsets ... ──> leaders      commit, committed ──> group
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from thalweg import _consuming, _core
from thalweg._arguments import offsets_given, partition_given, partitions_named
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
    """The part of an AIOKafkaConsumer that is about offsets; its constructor sets all of these."""

    config: Config
    _calls: "_core.AsyncConsumer[Any, Any]"
    _committing: asyncio.Lock
    _consumer: "_core.Consumer[Any, Any]"
    _driver: Driver
    _ended: bool
    _loop: asyncio.AbstractEventLoop | None
    _started: bool
    _stopping: asyncio.Task[None] | None

    # ------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the next record to be handed out; waits until it is known.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
            NoOffsetForPartitionError: Without committed offset and with auto_offset_reset none.
            LogTruncationError: As `KafkaConsumer.poll`; so are errors of authorization and of
                connections.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        _consuming.check_assigned(self._consumer, partition)
        return await self._calls.position(partition, self._limit())

    def seek(self, partition: TopicPartition, offset: "int | OffsetAndMetadata") -> None:
        """Reads on from an offset.

        Raises:
            TypeError: If it is no TopicPartition.
            ValueError: If the offset is no int of 0 or more, or the partition is not assigned.
        """
        self._check_open()
        at, epoch = _consuming.offset_given(self._consumer, partition, offset)
        self._consumer.seek(partition, at, epoch)
        self._driver.sought(partition)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Reads on from the first offset there is, and waits until it is known.

        Args:
            *partitions: Assigned ones; none: all.

        Raises:
            TypeError: If one is no TopicPartition.
            ValueError: If one is not assigned, or nothing is.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        await self._seek_to(_consuming.chosen(self._consumer, partitions), "earliest")

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Reads on from the end; see `seek_to_beginning`."""
        await self._seek_to(_consuming.chosen(self._consumer, partitions), "latest")

    async def _seek_to(self, partitions: list[TopicPartition], where: Any) -> None:
        self._consumer.seek_to(partitions, where)
        self._driver.sought(*partitions)
        for each in partitions:
            await self.position(each)

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Reads on from the committed offsets; where there is none, by reset policy.

        Returns:
            {TopicPartition: committed offset, or None}.

        Raises:
            TypeError: If one is no TopicPartition.
            ValueError: If one is not assigned, or nothing is.
            IllegalStateError: Without group_id.
            KafkaTimeoutError: After default_api_timeout_ms.
            NoOffsetForPartitionError: If nothing is committed and `auto_offset_reset` is 'none';
                no position has moved then.
        """
        chosen = _consuming.chosen(self._consumer, partitions)
        steps = self._driver.seek_to_committed(chosen, self._limit(), self.seek, is_eager=True)
        found = await awaited(steps, self._calls)
        return {where: None if at is None else at.offset for where, at in found.items()}

    def pause(self, *partitions: TopicPartition) -> None:
        """Hands out nothing of these partitions until `resume`; what is buffered stays.

        Raises:
            TypeError: If one is no TopicPartition.
            IllegalStateError: If one is not assigned.
        """
        self._consumer.pause_partitions(partitions_named(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Undoes `pause`."""
        self._consumer.resume_partitions(partitions_named(partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._consumer.paused()

    def highwater(self, partition: TopicPartition) -> int | None:
        """Offset after the partition's last record, as of the last fetch; None before one.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
        """
        _consuming.check_assigned(self._consumer, partition)
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Offset up to which all transactions were over, as of the last fetch; see `highwater`."""
        _consuming.check_assigned(self._consumer, partition)
        return self._consumer.last_stable_offset(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets between the position and the end, as of the last fetch; see `highwater`.

        The end is the last stable offset under read_committed.
        """
        _consuming.check_assigned(self._consumer, partition)
        return self._consumer.lag(partition)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Unix ms of the last answer to a fetch of the partition; see `highwater`."""
        _consuming.check_assigned(self._consumer, partition)
        return self._consumer.last_poll_timestamp(partition)

    # ------------------------------------------------------------------ lookups

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """First offset of each partition; they need not be assigned.

        Raises:
            TypeError: If it is no list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If no topic can have a name.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        targets = _consuming.targets_of(partitions, _EARLIEST)
        return _consuming.offsets_of(await self._calls.list_offsets(targets, self._limit()))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset after each partition's last record; see `beginning_offsets`.

        Under read_committed it is the last stable one.
        """
        targets = _consuming.targets_of(partitions, _LATEST)
        return _consuming.offsets_of(await self._calls.list_offsets(targets, self._limit()))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a timestamp (KIP-79).

        Args:
            timestamps: {TopicPartition: Unix ms}.

        Raises:
            TypeError: If it is no {TopicPartition: number}.
            ValueError: If a timestamp is negative.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        targets = _consuming.time_targets(timestamps)
        return _consuming.times_of(await self._calls.list_offsets(targets, self._limit()))

    async def topics(self) -> set[str]:
        """Names of all topics that this client may see; asks the cluster.

        Raises:
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        body = {"Topics": None, "AllowAutoTopicCreation": False}
        request = self._consumer.client.submit("Metadata", body, timeout_ms=self._limit())
        return _consuming.visible_topics(await self._calls.result(request), self.config)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Partition ids of a topic that is read; None if it is not known. Asks no broker."""
        self._check_open()
        return self._consumer.client.cluster().partitions_for_topic(topic)

    # ------------------------------------------------------------------ committed offsets

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commits offsets for the group, and waits until it is done.

        Args:
            offsets: {TopicPartition: next offset to read}, as OffsetAndMetadata, an int, or an
                int and a metadata string; None: the positions.

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If offsets is something else.
            ValueError: If an offset is negative.
            CommitFailedError: If the group has moved on, or has taken one of the partitions away
                since the call.
            RebalanceInProgressError: While the group rebalances: ask for records, then again.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        given = None if offsets is None else offsets_given(offsets)
        asked_at = None if given is None else self._driver.departures
        async with self._committing:  # the retry of one must not undo another
            await awaited(self._driver.commit(given, self._limit(), asked_at), self._calls)

    def mark(self, records: Any) -> None:
        """Marks records as finished, as `KafkaConsumer.mark`; from any thread."""
        self._driver.mark(records)

    def mark_through(self, records: Any) -> None:
        """Marks records and all before them, as `KafkaConsumer.mark_through`; from any thread."""
        self._driver.mark_through(records)

    async def commit_marked(self) -> None:
        """Commits, for each partition, the records before the first one that is not marked.

        Waits until the group has answered.

        Raises:
            KafkaError: As `commit`.
        """
        self._check_open()
        async with self._committing:
            await awaited(self._driver.commit_marked(self._limit()), self._calls)

    def allow_rebalance(self) -> None:
        """As `KafkaConsumer.allow_rebalance`."""
        self._check_open()
        self._driver.allow_rebalance()

    async def committed(
        self, partition: TopicPartition, metadata: bool = False
    ) -> int | OffsetAndMetadata | None:
        """The group's committed offset of a partition; asks the coordinator.

        Args:
            partition: Any TopicPartition.
            metadata: Whether to return the whole OffsetAndMetadata.

        Returns:
            The offset; None if nothing is committed.

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If it is no TopicPartition.
            KafkaTimeoutError: After default_api_timeout_ms.
        """
        self._check_open()
        where = partition_given(partition)
        found = await awaited(self._driver.fetch([where], self._limit()), self._calls)
        at = found[where]
        return at if at is None or metadata else at.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """A snapshot of the membership, for transactions (KIP-447)."""
        return self._driver.group_metadata()

    # ------------------------------------------------------------------ helpers

    def _limit(self) -> int:
        return int(self.config["default_api_timeout_ms"])

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalStateError("this client was started in another event loop")

    def _check_running(self) -> None:
        """For calls that ask for records, or for more of them."""
        self._check_open()
        if self._stopping is not None:
            raise ConsumerStoppedError("the consumer was stopped")

    def _check_open(self) -> None:
        """For calls that a listener may still make while the consumer is stopped."""
        if self._ended:
            raise ConsumerStoppedError("the consumer was stopped")
        if not self._started:
            raise IllegalStateError("the consumer was not started: await its start() first")
