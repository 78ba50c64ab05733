"""Stream read: offsets for Spark's checkpoint on the driver, ranges for the executors.

One :class:`StreamReader` lives in a worker process of the driver while the query runs. The
executors get copies, and call only ``read``. Spark leaves two things to the source: to remember
where batch 0 started (see ``offsets.py``), and, for ``Trigger.AvailableNow``, to fix the end of the
query once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from thalweg.errors import KafkaError
from thalweg.spark import data_loss
from thalweg.spark.data_loss import PartitionsChangedError
from thalweg.spark.offset_reader import OffsetReader, unknown_topic
from thalweg.spark.offsets import Offsets, Partition, embedded_start, from_json, to_json
from thalweg.spark.options import SourceOptions
from thalweg.spark.ranges import rate_limit
from thalweg.spark.reader import plan, read_ranges
from thalweg.spark.trigger_delay import TriggerDelay

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("thalweg.spark")

# Takes the place of a start offset that could not be found.
_FAILED = "@failed"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream in micro-batches. Spark's checkpoint keeps the offsets."""

    def __init__(self, options: SourceOptions) -> None:
        """Opens no connection; the first request does.

        Args:
            options: The checked options of a stream read.
        """
        self._options = options
        self._offsets = OffsetReader(options)
        self._initial: Offsets | None = None
        self._failure: Exception | None = None
        self._target: Offsets | None = None
        # The ends of this run. Only they can be compared with the target: the first batch may be
        # one that an earlier run has planned.
        self._planned: Offsets | None = None
        self._seen: Offsets | None = None
        self._gone: set[str] = set()  # the topics about whose deletion it has warned
        self._absent: set[str] = set()  # topics of the start that the last trigger did not find
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else TriggerDelay(least, options.max_trigger_delay_ms)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the start of a new query. It is looked up once, although Spark calls it often.

        Spark also calls it when a query restarts within its first batch, and then does not need the
        start. So what is wrong with it is raised by the method that needs it.
        """
        if self._initial is None:
            try:
                partitions = self._offsets.partitions()
                self._initial = self._offsets.resolve(
                    self._options.starting, partitions, "starting"
                )
                if self._target is not None and _is_behind(self._target, self._initial):
                    # Records came after `prepareForTriggerAvailableNow`, and the start is latest.
                    self._target = self._latest()
            except (KafkaError, ValueError) as error:
                self._failure = error
                return {_FAILED: str(error)}
        # It includes itself as the start: if this source has no records in batch 0, and another
        # source of the query has some, Spark logs this offset as the end of batch 0.
        return to_json(self._initial, self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns ``maxOffsetsPerTrigger`` or ``minOffsetsPerTrigger`` if set, else no limit.

        Spark returns it with each trigger, or ``ReadAllAvailable`` if the query has one batch. It
        cannot hold both limits, so ``latestOffset`` takes the values from the options.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fixes the end of the query now. Later records are for the next run."""
        self._target = self._latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns the end of the next micro-batch.

        Args:
            start: The start of the batch, from the checkpoint.
            limit: The limit of this source, or Spark's own for a single batch.

        Returns:
            The end. It is ``start`` if there is nothing new.

        Raises:
            DataLossError: If a topic of the option ``subscribe`` was deleted since the start, and
                ``failOnDataLoss`` is true.
        """
        begin = self._given(start)
        latest = self._known(begin)
        if begin != self._initial:
            # Spark plans the next batch when this one is complete and a trigger comes. It calls
            # `commit` only one batch later, and never for the last. Brokers refuse offsets of
            # deleted topics.
            exist = {tp for tp in self._seen or () if tp[0] not in self._gone}
            self._offsets.commit({tp: at for tp, at in begin.items() if tp in exist})
        end = self._limited(begin, latest, limit)
        if not end or end == begin:
            return start
        self._planned = end
        # Only the first batch of a query starts at the initial offset, so only its end includes
        # the start. Every later batch starts at an end that Spark has logged.
        first = self._initial is not None and begin == self._initial
        return to_json(end, begin if first else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Returns the end of all partitions as this trigger saw it, for the query's progress.

        None if no broker responds: it is only for display, so it must not fail the query.
        """
        try:
            return to_json(self._latest() if self._seen is None else self._seen)
        except KafkaError as error:
            log.warning("could not get the latest offsets for the progress of the query: %s", error)
            return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans one micro-batch. It runs on the driver.

        Args:
            start: The start offset. For batch 0, the start in ``end`` replaces it.
            end: The end offset.

        Returns:
            The work of each task. The list is empty if there is nothing to read.

        Raises:
            DataLossError: If partitions or offsets between the two are gone, and ``failOnDataLoss``
                is true.
            PartitionsChangedError: If the trigger is ``AvailableNow``, and partitions or offsets
                of the batch are gone since it was planned.
        """
        if start == end:
            return []
        begin = embedded_start(end)
        if begin is None:
            begin = self._given(start)
        until = from_json(end)
        if self._target is not None and until == self._planned:
            read = {tp: at for tp, at in until.items() if tp[0] not in self._gone}
            _check_available(read, self._latest_of(read))
        begin = {**self._added(begin, until), **begin}
        self._check_loss(begin, until)
        return plan(self._options, begin, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the ranges of one task. It runs on an executor."""
        if partition.value is None:
            return iter(())
        return read_ranges(self._options, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark's checkpoint keeps the offsets.

        Those of the option ``commitGroupId``, which monitors read, are committed earlier.
        """

    def stop(self) -> None:
        """Closes the driver's connections."""
        self._offsets.close()

    def _given(self, start: dict[str, Any]) -> Offsets:
        """Returns a start offset, or raises the error that `initialOffset` has met."""
        if _FAILED in start and self._failure is not None:
            raise self._failure
        return from_json(start)

    def _latest(self) -> Offsets:
        return self._offsets.latest(self._offsets.partitions(lenient=True))

    def _known(self, begin: Offsets) -> Offsets:
        """Returns the latest offsets, and asks again for a while if they are before the start.

        A broker with old data must not rewind the query, and one that has just started may not know
        all partitions yet. If it does not catch up, it has lost records, or the topic was deleted,
        perhaps created again. ``partitions`` then reports the loss.
        """
        latest = self._latest() if self._target is None else self._target
        for _ in range(self._options.fetch_retries - 1):
            if self._is_complete(begin, latest) and not _is_behind(latest, begin):
                break
            time.sleep(self._options.retry_interval_ms / 1_000)
            latest = self._latest()
            if self._target is not None:
                self._target = latest
        self._check_topics(begin, self._options.strategy.missing(latest))
        self._absent = {topic for topic, _ in begin} - {topic for topic, _ in latest}
        # A broker may not know a topic for a while. Without its offsets, the query would read it
        # again from its start.
        latest = {**{tp: at for tp, at in begin.items() if tp[0] in self._gone}, **latest}
        self._seen = latest
        # If all topics are deleted, Spark must not log {} as an end (SPARK-41375).
        return latest or begin

    def _is_complete(self, begin: Offsets, latest: Offsets) -> bool:
        """Returns whether all partitions are there, except for those of topics known to be gone.

        The start still contains these topics. Without this exception, each trigger would wait for
        them. If such a topic comes back, all its partitions count again.
        """
        missing = self._options.strategy.missing(latest)
        absent = self._absent - {topic for topic, _ in latest}
        expected = {tp for tp in begin if tp[0] not in missing | absent}
        return missing <= self._gone and expected <= latest.keys()

    def _check_topics(self, begin: Offsets, missing: set[str]) -> None:
        """Reports topics of the option ``subscribe`` that do not exist.

        When the query was new, all of them existed. So they were deleted, or the option has
        changed.
        """
        if missing and self._options.fail_on_data_loss:
            deleted = {tp: offset for tp, offset in begin.items() if tp[0] in missing}
            if not deleted:
                raise unknown_topic(min(missing))
            # Spark has not logged an end without these topics. If they come back, it can continue.
            _report_deleted(deleted, fail=True)
        for topic in sorted(missing - self._gone):
            log.warning(
                "Topic '%s' does not exist. The query continues without it, because failOnDataLoss"
                " is false.",
                topic,
            )
        self._gone = missing

    def _limited(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        first = self._offsets.earliest(tp for tp in latest if tp not in begin)
        if self._waits({**first, **begin}, latest):
            return begin
        most = self._options.max_offsets_per_trigger
        return latest if most is None else rate_limit(most, begin, latest, first)

    def _waits(self, begin: Offsets, latest: Offsets) -> bool:
        """Returns whether ``minOffsetsPerTrigger`` holds this trigger back.

        With ``Trigger.AvailableNow`` nothing waits: Spark would end the query, and records that
        it should read would be left.
        """
        if self._delay is None or self._target is not None:
            return False
        new = sum(max(until - begin.get(tp, until), 0) for tp, until in latest.items())
        return self._delay.waits(new, time.monotonic() * 1_000)

    def _latest_of(self, until: Offsets) -> Offsets:
        """Returns the latest offsets of those partitions that still exist."""
        return self._offsets.latest(self._offsets.existing(until))

    def _added(self, begin: Offsets, until: Offsets) -> Offsets:
        """Returns the earliest offsets of partitions that are new since the start.

        An earliest offset other than 0 is data loss.
        """
        new: set[Partition] = {tp for tp in until if tp not in begin}
        earliest = self._offsets.earliest(new)
        gone = {tp: until[tp] for tp in new if tp not in earliest}
        if gone:
            data_loss.report(
                fail=self._options.fail_on_data_loss,
                kind="INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                detail=(
                    f"Cannot find initial offsets for partitions {_names(gone)}. They may have "
                    "been deleted."
                ),
            )
        late = {tp: offset for tp, offset in earliest.items() if offset != 0}
        if late:
            data_loss.report(
                fail=self._options.fail_on_data_loss,
                kind="ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                detail=f"Added partitions start at {_names(late)} instead of offset 0.",
            )
        return earliest

    def _check_loss(self, begin: Offsets, until: Offsets) -> None:
        fail = self._options.fail_on_data_loss
        deleted = {tp: offset for tp, offset in begin.items() if tp not in until}
        if deleted:
            _report_deleted(deleted, fail=fail)
        for tp, offset in sorted(begin.items()):
            if until.get(tp, offset) < offset:
                data_loss.report(
                    fail=fail,
                    kind="PARTITION_OFFSET_CHANGED",
                    detail=(
                        f"Partition {tp[0]}-{tp[1]}'s offset was changed from {offset} to "
                        f"{until[tp]}."
                    ),
                )


def _check_available(until: Offsets, latest: Offsets) -> None:
    """Checks the end of a batch of ``Trigger.AvailableNow``, also if data may be lost.

    Raises:
        PartitionsChangedError: If partitions or offsets of the batch are gone.
    """
    if set(until) != set(latest):
        raise PartitionsChangedError(
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] Some of partitions in "
            "Kafka topic(s) have been lost during running query with Trigger.AvailableNow. The "
            "error could be transient - restart your query, and report if you still see the same "
            f"issue. topic-partitions for latest offset: {_names(latest)}, topic-partitions for "
            f"end offset: {_names(until)}"
        )
    if _is_behind(latest, until):
        raise PartitionsChangedError(
            "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_"
            "AVAILABLENOW] Some of partitions in Kafka topic(s) report available offset which is "
            "less than end offset during running query with Trigger.AvailableNow. The error could "
            "be transient - restart your query, and report if you still see the same issue. "
            f"latest offset: {_names(latest)}, end offset: {_names(until)}"
        )


def _report_deleted(deleted: Offsets, *, fail: bool) -> None:
    data_loss.report(fail=fail, kind="PARTITIONS_DELETED", detail=f"Deleted: {_names(deleted)}.")


def _is_behind(latest: Offsets, begin: Offsets) -> bool:
    return any(until < begin.get(tp, until) for tp, until in latest.items())


def _names(offsets: Offsets) -> str:
    return ", ".join(f"{t}-{p} at {offset}" for (t, p), offset in sorted(offsets.items()))
