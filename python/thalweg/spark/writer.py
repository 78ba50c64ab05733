"""Batch write: passes Arrow batches to the producer.

Each task sends its rows with a producer of its process, and waits for every acknowledgement before
it reports success. The first error fails the task. If Spark repeats a task, the task sends its rows
again, so a reader may see them twice, as with Spark's own sink.

With `delivery.guarantee=exactly-once`, the tasks prepare transactions, which the driver ends
(`exactly_once/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from thalweg.spark.clients import PRODUCERS
from thalweg.spark.options import SinkOptions, check_version
from thalweg.spark.schema import check_sink_schema
from thalweg.spark.workers import settle
from thalweg.spark.workers.files import with_local_files

if TYPE_CHECKING:
    import pyarrow as pa


_COLUMNS = ("key", "value", "partition", "headers")


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame to a topic."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        """Checks the save mode and the columns before any task runs.

        Args:
            options: The checked options.
            schema: The schema of the DataFrame.
            overwrite: Whether the save mode is Overwrite.

        Raises:
            ValueError: If the mode or a column is not allowed.
        """
        if overwrite:
            raise ValueError(
                "Save mode Overwrite not allowed for Kafka. Use .mode('append'): records can only "
                "be appended to a topic."
            )
        check_sink_schema(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends one task's rows and waits for their acknowledgements; runs on an executor."""
        return write_batches(self._options, iterator)


def write_batches(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Sends all rows, and returns when all of them are acknowledged.

    Raises:
        ValueError: If a row has no topic.
        KafkaError: The first error of a broker or of the client.
    """
    check_version(options.planned_by)
    settle()
    config = with_local_files(options.client_config, options.driver_files)
    producer = PRODUCERS.take(config)
    try:
        send_rows(producer, options.topic, batches)
    except BaseException:
        # Spark repeats the task. Its remaining records must not be sent before that.
        PRODUCERS.discard(producer)
        raise
    PRODUCERS.give_back(config, producer)
    return WriterCommitMessage()


def send_rows(producer: Any, topic: str | None, batches: Iterable[pa.RecordBatch]) -> None:
    """Sends all rows, and returns when all of them are acknowledged.

    Args:
        producer: A ``KafkaProducer``.
        topic: The topic of all rows. None: each row's column ``topic``.
        batches: The rows.

    Raises:
        ValueError: If a row has no topic.
        KafkaError: The first error of a broker or of the client.
    """
    pending: list[Any] = []
    for batch in batches:
        for each, rows in _by_topic(batch, topic):
            pending.append(producer.send_arrow(each, rows))
        pending = _settled(pending)
    for future in pending:
        future.get()


def _settled(pending: list[Any]) -> list[Any]:
    """Raises the first failure early, and drops finished futures to limit the memory."""
    waiting = []
    for future in pending:
        if future.is_done:
            future.get()
        else:
            waiting.append(future)
    return waiting


def _by_topic(
    batch: pa.RecordBatch, topic_option: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields the rows by topic.

    The option has precedence over the column. Unknown columns are dropped.
    """
    if batch.num_rows == 0:
        return
    rows = batch.select([name for name in batch.schema.names if name in _COLUMNS])
    if topic_option is not None:
        yield topic_option, rows
        return
    import pyarrow.compute as pc

    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError(
            "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka topic column has a null value. Set a topic for "
            "each row, or set the option 'topic' for all rows."
        )
    counts = pc.value_counts(topics)
    if len(counts) > 1:
        # Sorted once, and stable: the rows of each topic keep their order.
        order = pc.sort_indices(topics)
        rows = rows.take(order)
        counts = pc.value_counts(topics.take(order))
    start = 0
    for each in counts.to_pylist():
        yield each["values"], rows.slice(start, each["counts"])
        start += each["counts"]
