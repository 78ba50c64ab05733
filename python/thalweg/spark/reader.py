"""Batch read: the driver plans ranges, and each task reads its range as Arrow batches.

    DataSource.reader -> partitions()  [driver: looks up the offsets, for each execution]
                      -> read(range)   [executor: PartitionReader, Rust, Arrow by the C interface]

Spark pickles readers and partitions, so they hold no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from thalweg.spark import data_loss
from thalweg.spark.data_loss import DataLossError
from thalweg.spark.offset_reader import OffsetReader, consumer_config
from thalweg.spark.offsets import Offsets
from thalweg.spark.options import SourceOptions, check_version
from thalweg.spark.ranges import OffsetRange, plan
from thalweg.spark.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa

# Spark takes batches of 10,000 and of 65,536 rows at the same rate. Larger ones need fewer calls.
BATCH_ROWS = 32_768
BATCH_BYTES = 16 * 1024 * 1024


class RangePartition(InputPartition):
    """The work of one task: a range of offsets of one partition."""

    def __init__(self, offset_range: OffsetRange) -> None:
        """Wraps a range, so that Spark can send it to an executor.

        Args:
            offset_range: The range that the task reads.
        """
        super().__init__(offset_range)


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
            One partition for each range. The list is empty if there is nothing to read.

        Raises:
            ValueError: If the given offsets do not cover the partitions, or a start offset is
                greater than the end offset.
            KafkaError: If no broker answers.
        """
        options = self._options
        offsets = OffsetReader(options)
        try:
            partitions = offsets.partitions()
            start = offsets.resolve(options.starting, partitions, "starting")
            end = offsets.resolve(options.ending, partitions, "ending")
        finally:
            offsets.close()
        _check_order(start, end)
        ranges = plan(start, end, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one range. It runs on an executor.

        Args:
            partition: A range, or Spark's ``InputPartition(None)`` if nothing was planned.

        Returns:
            Arrow batches with the schema of the source.
        """
        if partition.value is None:
            return iter(())
        return read_range(self._options, partition.value)


def read_range(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yields the Arrow batches of one range, in order of offset.

    Raises:
        DataLossError: If the topic no longer has offsets of the range, and ``failOnDataLoss`` is
            true.
        KafkaError: If the partition cannot be read within ``kafkaConsumer.pollTimeoutMs``.
    """
    import pyarrow as pa

    check_version(options.planned_by)
    from thalweg.errors import OffsetOutOfRangeError
    from thalweg.partition_reader import PartitionReader

    settle()
    reader = PartitionReader(
        consumer_config(options),
        offset_range.topic,
        offset_range.partition,
        offset_range.start,
        offset_range.end,
        columns=options.columns,
        fail_on_data_loss=options.fail_on_data_loss,
        batch_rows=BATCH_ROWS,
        batch_bytes=BATCH_BYTES,
        timeout_ms=options.poll_timeout_ms,
    )
    try:
        for batch in reader:
            yield pa.record_batch(batch)
        for start, end in reader.lost:
            data_loss.report(
                fail=False,
                kind="COULD_NOT_READ_OFFSET_RANGE",
                detail=(
                    f"Offsets {start} to {end - 1} of {offset_range.topic}-"
                    f"{offset_range.partition} are no longer available."
                ),
            )
    except OffsetOutOfRangeError as error:
        raise DataLossError(f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] {error}") from error
    finally:
        reader.close()


def _check_order(start: Offsets, end: Offsets) -> None:
    for (topic, partition), begin in sorted(start.items()):
        until = end.get((topic, partition), begin)
        if begin > until:
            raise ValueError(
                f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The start offset {begin} of "
                f"{topic}-{partition} is greater than its end offset {until}."
            )
