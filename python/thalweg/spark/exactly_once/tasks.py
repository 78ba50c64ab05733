"""What a task does: sends its rows in a transaction, and prepares the transaction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from thalweg.config import resolve
from thalweg.spark.client_config import ClientConfig
from thalweg.spark.exactly_once.cluster import cluster_of, delivery_of
from thalweg.spark.exactly_once.decisions import (
    Attempt,
    Decision,
    Driver,
    Plan,
    attempt_number,
    transactional_id,
)
from thalweg.spark.options import SinkOptions
from thalweg.spark.workers.files import with_local_files
from thalweg.spark.writer import send_rows

if TYPE_CHECKING:
    import pyarrow as pa

# Spark's names of the properties of a streaming query's tasks.
_BATCH = "streaming.sql.batchId"
_QUERY = "sql.streaming.queryId"
_ABORT_S = 5
# A batch write has no driver that another one could fence: its prefix is unique. So are the numbers
# of its attempts.
_NO_DRIVER = Driver(-1, 0)


@dataclass
class Report(WriterCommitMessage):
    """What a task reports to the driver.

    Attributes:
        query: The ID of the streaming query. Empty for a batch write.
        driver: The identity with which the driver has planned the batch.
        attempt: The prepared transaction. None if the task had no rows.
        is_repeated: Whether the batch was decided before, so that the task sent nothing.
    """

    query: str
    driver: Driver
    attempt: Attempt | None = None
    is_repeated: bool = False


def write_stream_task(
    options: SinkOptions, plan: Plan, batches: Iterator[pa.RecordBatch]
) -> Report:
    """Writes a task of a micro-batch, unless the batch is decided already.

    Raises:
        RuntimeError: If the decision belongs to another query or to a later batch.
        ValueError: If a row has no topic.
        KafkaError: The first error of a broker or of the client.
    """
    context = TaskContext.get()
    batch_text = None if context is None else context.getLocalProperty(_BATCH)
    query = None if context is None else context.getLocalProperty(_QUERY)
    if batch_text is None or query is None:
        raise RuntimeError(
            "A stream writer runs only in a task of a streaming query, and this task has no batch"
            " ID. Start the query with writeStream, or write with `write`"
        )
    batch = int(batch_text)
    if plan.last is not None:
        _check_order(options, plan.last, query, batch)
        if batch == plan.last.batch:
            # Stateful operators write their state only when their output is read.
            for _ in batches:
                pass
            return Report(query, plan.driver, is_repeated=True)
    return Report(query, plan.driver, write_task(options, plan.driver, batches))


def write_batch_task(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Report:
    """Writes a task of a batch write."""
    return Report("", _NO_DRIVER, write_task(options, _NO_DRIVER, batches))


def _check_order(options: SinkOptions, last: Decision, query: str, batch: int) -> None:
    prefix = delivery_of(options).prefix
    if last.query != query:
        raise RuntimeError(
            f"transactional.id.prefix={prefix!r} belongs to the query {last.query}, and this is the"
            f" query {query}. Choose another prefix for each query. If you have started this query"
            " with a new checkpoint, choose a new prefix, too"
        )
    if batch < last.batch:
        raise RuntimeError(
            f"The checkpoint is older than the topic: this is batch {batch}, and batch {last.batch}"
            f" is in the topic. Restore the newer checkpoint, or choose another"
            f" transactional.id.prefix than {prefix!r} if duplicate rows are acceptable"
        )


def producer_config(options: SinkOptions, name: str) -> ClientConfig:
    """Returns the options of a task's producer with this transactional ID."""
    own = {
        "transactional.id": name,
        "transaction.timeout.ms": str(delivery_of(options).timeout_ms),
    }
    return with_local_files({**options.client_config, **own}, options.driver_files)


def check_producer(options: SinkOptions) -> None:
    """Checks on the driver that the tasks can create their producers.

    Raises:
        KafkaConfigurationError: If an option is wrong, or contradicts exactly-once delivery.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each task also warns
        resolve("p", producer_config(options, delivery_of(options).prefix))


def write_task(
    options: SinkOptions, driver: Driver, batches: Iterator[pa.RecordBatch]
) -> Attempt | None:
    """Sends the rows of a task, and leaves their transaction open.

    Args:
        options: The sink's options.
        driver: The driver that has planned the batch.
        batches: The rows.

    Returns:
        The transaction. None if there are no rows.
    """
    from thalweg.producer import KafkaProducer

    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return None
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    partition = context.partitionId()
    number = task_id = context.taskAttemptId()
    if driver != _NO_DRIVER:
        number = attempt_number(driver, context.attemptNumber(), task_id)
    name = transactional_id(delivery_of(options).prefix, partition, number)
    config = producer_config(options, name)
    # Unlike the plain sink's, it is not kept for the next task. That task has another transactional
    # ID, and until the driver has ended this transaction, this producer can do nothing else.
    producer = KafkaProducer.from_config(config)
    try:
        if driver != _NO_DRIVER:
            _check_driver(options, driver)
        producer.init_transactions()
        producer.begin_transaction()
        send_rows(producer, options.topic, chain([first], rows))
        prepared = producer.prepare_transaction()
    except BaseException:
        producer.close(timeout=_ABORT_S)
        raise
    producer.close()
    if prepared is None:
        return None
    return Attempt(partition, number, prepared.producer_id, prepared.producer_epoch)


def _check_driver(options: SinkOptions, driver: Driver) -> None:
    """Stops a late task. The start of its producer could abort a transaction that is decided.

    Raises:
        RuntimeError: If the driver has decided since it planned the batch, or if a plan is newer.
    """
    with cluster_of(options) as cluster:
        now = cluster.driver()
    if now != driver:
        raise RuntimeError(
            "This task is late, and sends nothing: since its batch was planned, the driver has"
            " decided about the batch, or another run or another query has started with"
            f" transactional.id.prefix={delivery_of(options).prefix!r}. If this query runs twice,"
            " stop one of the runs. If it is another query, choose another prefix for it"
        )
