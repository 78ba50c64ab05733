"""`TransactionalStreamWriter`: a stream write that delivers exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from thalweg.spark.exactly_once.driver import abort_batch, commit_batch, plan
from thalweg.spark.exactly_once.tasks import write_stream_task
from thalweg.spark.options import SinkOptions, check_version
from thalweg.spark.stream_writer import StreamWriter
from thalweg.spark.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa


class TransactionalStreamWriter(StreamWriter):
    """Writes a micro-batch of a stream to a topic, exactly once.

    Spark creates a writer before the tasks of each batch, and another one after them, which gets
    the reports of the tasks.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, is_first: bool) -> None:
        """Does the checks of `StreamWriter`. The first writer of a micro-batch also plans it.

        Args:
            options: The checked options.
            schema: The schema of the stream.
            is_first: Whether to fence older drivers and to read the last decision. The second
                writer must not fence the first one.

        Raises:
            ValueError: If a column, an option or the cluster is not suitable.
            KafkaError: If the brokers refuse, or do not respond in time.
        """
        super().__init__(options, schema)
        self._plan = plan(options) if is_first else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends one task's rows, and leaves their transaction open; runs on an executor."""
        check_version(self._options.planned_by)
        settle()
        assert self._plan is not None, "tasks get the first writer"
        return write_stream_task(self._options, self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decides that the batch is written, and commits its transactions; runs on the driver."""
        commit_batch(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Aborts the transactions of a batch that was not decided; runs on the driver."""
        abort_batch(self._options, messages)
