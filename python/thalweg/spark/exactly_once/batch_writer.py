"""`TransactionalBatchWriter`: a batch write that is all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from thalweg.spark.exactly_once.driver import abort_write, commit_write, for_one_write
from thalweg.spark.exactly_once.tasks import write_batch_task
from thalweg.spark.options import SinkOptions, check_version
from thalweg.spark.workers import settle
from thalweg.spark.writer import BatchWriter

if TYPE_CHECKING:
    import pyarrow as pa


class TransactionalBatchWriter(BatchWriter):
    """Writes a DataFrame to a topic, all or nothing."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        """Does the checks of `BatchWriter`, and checks that the cluster supports exactly-once."""
        super().__init__(options, schema, overwrite=overwrite)
        self._options = for_one_write(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends one task's rows, and leaves their transaction open; runs on an executor."""
        check_version(self._options.planned_by)
        settle()
        return write_batch_task(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the transactions of all tasks; runs on the driver."""
        commit_write(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Aborts the transactions of all tasks; runs on the driver."""
        abort_write(self._options, messages)
