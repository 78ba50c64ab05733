"""`kafka(spark, ...)`: reads and writes of one cluster, whose options are given once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.spark import register
from thalweg.spark.client_config import ClientConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_FORMAT = "thalweg"


class Kafka:
    """The topics of a cluster in a Spark session.

    It only sets options: what it returns are Spark's own objects. Options of a read or a write have
    the names of docs/spark.md. The repr shows no secrets.
    """

    def __init__(self, spark: SparkSession, config: ClientConfig) -> None:
        """Use :func:`kafka`."""
        self._spark, self._config = spark, config

    def __repr__(self) -> str:
        return f"Kafka({self._config!r})"

    def read(self, topics: str | Sequence[str] | None = None, **options: Any) -> DataFrame:
        """Returns the records that topics have now.

        Args:
            topics: A topic, or several. None: the option ``subscribePattern`` or ``assign``.
            **options: Options of the read, for example ``startingTimestamp=1_700_000_000_000``.
        """
        given = self._options(options, subscribe=topics)
        return self._spark.read.format(_FORMAT).options(**given).load()

    def read_stream(
        self,
        topics: str | Sequence[str] | None = None,
        *,
        starting: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> DataFrame:
        """Returns the records that topics have and will get.

        Args:
            topics: As in :meth:`read`.
            starting: The option ``startingOffsets``: ``"earliest"``, ``"latest"``, offsets such as
                ``{"orders": {0: 23, 1: 7}}``, or with the option ``commitGroupId`` ``"group"`` or
                ``"group:latest"``.
            **options: Options of the read, for example ``maxOffsetsPerTrigger=100_000``.
        """
        given = self._options(options, subscribe=topics, startingOffsets=starting)
        return self._spark.readStream.format(_FORMAT).options(**given).load()

    def write(
        self,
        frame: DataFrame,
        topic: str | None = None,
        *,
        exactly_once_prefix: str | None = None,
        **options: Any,
    ) -> DataFrameWriter:
        """Returns a writer of a DataFrame, as ``frame.write`` does. Call ``save()`` to write.

        Args:
            frame: Rows with a column ``value``, and perhaps ``key``, ``topic``, ``partition`` and
                ``headers``.
            topic: The topic of all rows. None: the column ``topic``.
            exactly_once_prefix: Writes exactly once, and is the option
                ``transactional.id.prefix``: a name that no other query uses. None: at least once.
            **options: Options of the write.
        """
        given = self._options(options, topic=topic, **_delivery(exactly_once_prefix))
        return frame.write.format(_FORMAT).mode("append").options(**given)

    def write_stream(
        self,
        frame: DataFrame,
        topic: str | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        exactly_once_prefix: str | None = None,
        **options: Any,
    ) -> DataStreamWriter:
        """Returns a writer of a stream, as ``frame.writeStream`` does. Call ``start()`` to write.

        Args:
            frame: As in :meth:`write`.
            topic: As in :meth:`write`.
            checkpoint: The folder in which Spark stores the progress of the query. None: that of
                ``spark.sql.streaming.checkpointLocation``.
            exactly_once_prefix: As in :meth:`write`. It belongs to the checkpoint.
            **options: Options of the write.
        """
        delivery = _delivery(exactly_once_prefix)
        given = self._options(options, topic=topic, checkpointLocation=checkpoint, **delivery)
        return frame.writeStream.format(_FORMAT).options(**given)

    def foreach_batch(
        self, topic: str | None = None, **options: Any
    ) -> Callable[[DataFrame, int], None]:
        """Returns a function for ``writeStream.foreachBatch``, which writes each micro-batch.

        Spark does not let a Python data source write in update mode. With this function it does:
        each micro-batch writes the rows that have changed. If Spark repeats a micro-batch, its rows
        are written again.

        Args:
            topic: As in :meth:`write`.
            **options: Options of the write.
        """
        given = self._options(options, topic=topic)

        def write(frame: DataFrame, batch_id: int) -> None:
            del batch_id
            frame.write.format(_FORMAT).mode("append").options(**given).save()

        return write

    def _options(self, options: dict[str, Any], **own: Any) -> dict[str, str]:
        """Returns all options of a query."""
        client = {f"kafka.{name}": value for name, value in self._config.items()}
        return _strings({**client, **own, **options})


def kafka(
    spark: SparkSession, bootstrap_servers: str | Sequence[str], **client_options: Any
) -> Kafka:
    """Registers the source in a session, and returns an object for the topics of a cluster.

        kafka = thalweg.spark.kafka(spark, "localhost:9092")
        kafka.read("orders").show()

    Args:
        spark: A classic or Connect session.
        bootstrap_servers: ``"host:port"``, or several.
        **client_options: Options of the clients under kafka-python's names, for example
            ``security_protocol="SSL"``.

    Returns:
        An object that only sets options. Wrong options raise their errors when a read or write
        begins.

    Raises:
        TypeError: If the value of an option cannot be a string, for example a function. Spark
            passes only strings to its executors.
    """
    config = _strings({"bootstrap.servers": bootstrap_servers, **client_options})
    register(spark, check_workers=False)
    return Kafka(spark, ClientConfig(config))


def _delivery(prefix: str | None) -> dict[str, str]:
    if prefix is None:
        return {}
    return {"delivery.guarantee": "exactly-once", "transactional.id.prefix": prefix}


def _strings(options: Mapping[str, Any]) -> dict[str, str]:
    """Returns options as strings, without those whose value is None."""
    return {name: _string(name, value) for name, value in options.items() if value is not None}


def _string(name: str, value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case os.PathLike():
            return os.fsdecode(value)
        case Mapping():
            return json.dumps(value)
        case [*items] if all(isinstance(each, str) for each in items):
            return ",".join(items)
    raise TypeError(
        f"Option '{name}' has the type {type(value).__name__}, and Spark passes only strings to its"
        " executors. Use a str, a number, a bool, a path, a dict, or a list of str"
    )
