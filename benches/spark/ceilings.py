"""What Spark itself costs: a source without a broker, and a sink that discards.

They have the schema and the number of tasks of the other side of a case, and do nothing else. No
source or sink in Python can be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from thalweg.spark.reader import BATCH_ROWS
from thalweg.spark.schema import parse_columns, source_schema

TASKS = 4
VALUE_BYTES = 100


class ConstantDataSource(DataSource):
    """Returns the same Arrow batch again and again, until there are ``rows`` rows."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``.format()``."""
        return "constant"

    def schema(self) -> StructType:
        """Returns the columns of the Kafka source, or those of its option."""
        return source_schema(self._columns)

    def reader(self, schema: StructType) -> ConstantReader:
        """Creates a batch reader."""
        return ConstantReader(int(self.options["rows"]), self._columns)

    def streamReader(self, schema: StructType) -> ConstantStream:  # noqa: N802 - Spark's name
        """Creates a stream reader."""
        rows = int(self.options["rows"])
        limit = int(self.options.get("maxOffsetsPerTrigger", rows))
        return ConstantStream(rows, limit, int(self.options.get("maxPartitions", TASKS)))

    @property
    def _columns(self) -> tuple[str, ...]:
        return parse_columns(self.options, include_headers=False)


class ConstantReader(DataSourceReader):
    """Shares the rows between the tasks."""

    def __init__(self, rows: int, columns: tuple[str, ...]) -> None:
        self._rows, self._columns = rows, columns

    def partitions(self) -> list[InputPartition]:
        """Plans the tasks."""
        return shares(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a task."""
        return constant(partition.value, self._columns)


class ConstantStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has all rows from the start, and gives some to each trigger."""

    def __init__(self, rows: int, limit: int, tasks: int) -> None:
        self._rows, self._limit, self._tasks = rows, limit, tasks

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the start."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadAllAvailable:  # noqa: N802
        """Returns no limit: `latestOffset` knows it."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Does nothing: no rows are added."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Returns the end of the next micro-batch."""
        return {"rows": min(self._rows, start["rows"] + self._limit)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plans the tasks of a micro-batch."""
        return shares(end["rows"] - start["rows"], self._tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a task."""
        return constant(partition.value)


class DiscardDataSource(DataSource):
    """Accepts all rows, and does nothing with them."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``.format()``."""
        return "discard"

    def writer(self, schema: StructType, overwrite: bool) -> DiscardWriter:
        """Creates a batch writer."""
        return DiscardWriter()


class DiscardWriter(DataSourceArrowWriter):
    """Takes the Arrow batches of a task."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Takes all rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


def shares(rows: int, tasks: int = TASKS) -> list[InputPartition]:
    """Divides rows between the tasks."""
    ends = [rows * number // tasks for number in range(tasks + 1)]
    return [InputPartition(end - start) for start, end in pairwise(ends)]


def constant(rows: int, columns: tuple[str, ...] = ()) -> Iterator[pa.RecordBatch]:
    """Returns rows as the Kafka source does. Without names, they have all columns."""
    full = batch(min(rows, BATCH_ROWS))
    full = full.select(columns) if columns else full
    while rows > 0:
        yield full if rows >= full.num_rows else full.slice(0, rows)
        rows -= full.num_rows


def batch(rows: int) -> pa.RecordBatch:
    """Returns a batch of rows with values of 100 bytes."""
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(rows, pa.binary()),
            pa.array([b"x" * VALUE_BYTES] * rows, pa.binary()),
            pa.array(["bench"] * rows, pa.string()),
            pa.array([0] * rows, pa.int32()),
            pa.array(range(rows), pa.int64()),
            pa.array([0] * rows, pa.timestamp("us", "UTC")),
            pa.array([0] * rows, pa.int32()),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    )
