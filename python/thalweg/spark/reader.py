"""Batch read: the driver plans ranges, and each task reads its ranges as Arrow batches.

    DataSource.reader -> partitions()  [driver: looks up the offsets, for each execution]
                      -> read(ranges)  [executor: RangeReader, Rust, Arrow by the C interface]

Spark pickles readers and partitions, so they hold no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from thalweg.spark import data_loss
from thalweg.spark.clients import READERS
from thalweg.spark.data_loss import DataLossError
from thalweg.spark.offset_reader import OffsetReader, consumer_config
from thalweg.spark.offset_specs import LATEST
from thalweg.spark.offsets import Offsets, Partition
from thalweg.spark.options import SourceOptions, check_version
from thalweg.spark.ranges import tasks
from thalweg.spark.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.range_reader import OffsetRange

# Spark takes batches of 10,000 and of 65,536 rows at the same rate. Larger ones need fewer calls.
BATCH_ROWS = 32_768


class RangePartition(InputPartition):
    """The work of one task: ranges of offsets, each of another partition of a topic."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        """Wraps ranges, so that Spark can send them to an executor.

        Args:
            ranges: The ranges that the task reads, in this order.
        """
        super().__init__(tuple(ranges))


class BatchReader(DataSourceReader):
    """Reads the offsets between ``startingOffsets`` and ``endingOffsets``."""

    def __init__(self, options: SourceOptions) -> None:
        """Keeps the options, and opens no connection.

        Args:
            options: The checked options of a batch read.
        """
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Looks up the offsets and plans the ranges. It runs on the driver.

        Returns:
            The work of each task. The list is empty if there is nothing to read.

        Raises:
            ValueError: If the given offsets do not cover the partitions, or a start offset is
                greater than the end offset.
            DataLossError: If partitions were deleted while their offsets were looked up, or a group
                has committed an offset that the log does not have, and ``failOnDataLoss`` is true.
            KafkaError: If no broker responds.
        """
        options = self._options
        offsets = OffsetReader(options)
        try:
            partitions = offsets.partitions()
            start = offsets.resolve(options.starting, partitions, "starting")
            end = offsets.resolve(options.ending, partitions, "ending")
            start, end = self._checked(partitions, start, end)
            start, end = self._narrowed(offsets, start, end)
        finally:
            offsets.close()
        return plan(options, start, end)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Reads the ranges of one task. It runs on an executor.

        Args:
            partition: The ranges. If nothing was planned: ``InputPartition(None)``, or None from
                PySpark 4.1 after it has passed filters.

        Returns:
            Arrow batches with the schema of the source.
        """
        if partition is None or partition.value is None:
            return iter(())
        return read_ranges(self._options, partition.value)

    def _checked(
        self, partitions: set[Partition], start: Offsets, end: Offsets
    ) -> tuple[Offsets, Offsets]:
        options = self._options
        deleted = sorted(partitions - (start.keys() & end.keys()))
        if deleted:
            data_loss.report(
                fail=options.fail_on_data_loss,
                kind="PARTITIONS_DELETED",
                detail=f"Deleted: {', '.join(f'{t}-{p}' for t, p in deleted)}.",
            )
            start = {tp: at for tp, at in start.items() if tp in end}
        if options.starting.of_group and options.ending.everywhere == LATEST:
            # The topic was created again since the group has committed.
            for tp, at in sorted(start.items()):
                if at > end[tp]:
                    data_loss.report(
                        fail=options.fail_on_data_loss,
                        kind="PARTITION_OFFSET_CHANGED",
                        detail=(
                            f"The group has committed offset {at} of {tp[0]}-{tp[1]}, but the"
                            f" query can read only up to {end[tp]}."
                        ),
                    )
            start = {tp: min(at, end[tp]) for tp, at in start.items()}
        _check_order(start, end)
        return start, end

    def _narrowed(
        self, reader: OffsetReader, start: Offsets, end: Offsets
    ) -> tuple[Offsets, Offsets]:
        """Returns the start and the end of what the filters keep: here, of everything."""
        del reader
        return start, end


def plan(options: SourceOptions, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
    """Plans the work of the tasks that read between two sets of offsets."""
    planned = tasks(
        start,
        end,
        options.min_partitions,
        options.max_records_per_partition,
        options.max_partitions,
    )
    return [RangePartition(ranges) for ranges in planned]


def read_ranges(options: SourceOptions, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """Yields the Arrow batches of ranges, each in order of offset.

    Raises:
        DataLossError: If a topic no longer has offsets of a range, and ``failOnDataLoss`` is true.
        KafkaError: If a partition cannot be read within ``kafkaConsumer.pollTimeoutMs``.
    """
    import pyarrow as pa

    check_version(options.planned_by)
    from thalweg.errors import OffsetOutOfRangeError

    settle()
    config = consumer_config(options)
    reader = READERS.take(config)
    try:
        for batch in reader.read(
            ranges,
            columns=options.columns,
            fail_on_data_loss=options.fail_on_data_loss,
            batch_rows=BATCH_ROWS,
            batch_bytes=options.batch_bytes,
            timeout_ms=options.poll_timeout_ms,
        ):
            yield pa.record_batch(batch)
        for lost in reader.lost:
            data_loss.report(
                fail=False,
                kind="COULD_NOT_READ_OFFSET_RANGE",
                detail=(
                    f"Offsets {lost.start} to {lost.end - 1} of {lost.topic}-{lost.partition} are "
                    "no longer available."
                ),
            )
    except BaseException as error:  # also GeneratorExit: a LIMIT ends the task early
        READERS.discard(reader)
        if isinstance(error, OffsetOutOfRangeError):
            text = f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] {error}. {data_loss.ADVICE}"
            raise DataLossError(text) from error
        raise
    READERS.give_back(config, reader)


def _check_order(start: Offsets, end: Offsets) -> None:
    for (topic, partition), begin in sorted(start.items()):
        until = end.get((topic, partition), begin)
        if begin > until:
            raise ValueError(
                f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The start offset {begin} of "
                f"{topic}-{partition} is greater than its end offset {until}."
                " Choose an earlier start or a later end."
            )
