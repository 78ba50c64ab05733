"""Sends the rows of Arrow batches with a producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("key", "value", "partition", "headers")


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
    for topic in sorted(pc.unique(topics).to_pylist()):
        yield topic, rows.filter(pc.equal(topics, topic))
