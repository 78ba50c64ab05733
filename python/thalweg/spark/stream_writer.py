"""Stream write: each micro-batch is written like a batch. It needs PySpark 4.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from thalweg.spark.options import SinkOptions
from thalweg.spark.schema import check_sink_schema
from thalweg.spark.writer import write_batches

if TYPE_CHECKING:
    import pyarrow as pa


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch of a stream to a topic."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Checks the columns before any task runs.

        Args:
            options: The checked options.
            schema: The schema of the stream.

        Raises:
            ValueError: If a column is missing or has a wrong type.
        """
        check_sink_schema(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends one task's rows and waits for their acknowledgements; runs on an executor."""
        return write_batches(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: the rows were acknowledged when their tasks ended."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: written rows stay. A repeated batch sends them again."""
