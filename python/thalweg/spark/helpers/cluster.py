"""`kafka(spark, ...)`: reads and writes of one cluster, whose options are given once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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

    def read_stream(self, topics: str | Sequence[str] | None = None, **options: Any) -> DataFrame:
        """Returns the records that topics have and will get.

        Args:
            topics: As in :meth:`read`.
            **options: Options of the read, for example ``startingOffsets="earliest"``.
        """
        given = self._options(options, subscribe=topics)
        return self._spark.readStream.format(_FORMAT).options(**given).load()

    def writer(self, frame: DataFrame, topic: str | None = None, **options: Any) -> DataFrameWriter:
        """Returns a writer of a DataFrame. Call ``save()`` to write.

        Args:
            frame: Rows with a column ``value``, and perhaps ``key``, ``topic``, ``partition`` and
                ``headers``.
            topic: The topic of all rows. None: the column ``topic``.
            **options: Options of the write.
        """
        given = self._options(options, topic=topic)
        return frame.write.format(_FORMAT).mode("append").options(**given)

    def stream_writer(
        self, frame: DataFrame, topic: str | None = None, **options: Any
    ) -> DataStreamWriter:
        """Returns a writer of a stream. Call ``start()`` to write.

        Args:
            frame: As in :meth:`writer`.
            topic: As in :meth:`writer`.
            **options: Options of the write, above all ``checkpointLocation``.
        """
        given = self._options(options, topic=topic)
        return frame.writeStream.format(_FORMAT).options(**given)

    def foreach_batch(
        self, topic: str | None = None, **options: Any
    ) -> Callable[[DataFrame, int], None]:
        """Returns a function for ``writeStream.foreachBatch``, which writes each micro-batch.

        Spark does not let a Python data source write in update mode. With this function it does:
        each micro-batch writes the rows that have changed. If Spark repeats a micro-batch, its rows
        are written again.

        Args:
            topic: As in :meth:`writer`.
            **options: Options of the write.
        """
        given = self._options(options, topic=topic)

        def write(frame: DataFrame, batch_id: int) -> None:
            del batch_id
            frame.write.format(_FORMAT).mode("append").options(**given).save()

        return write

    def _options(self, options: dict[str, Any], **own: Any) -> dict[str, str]:
        """Returns the options of a query as Spark wants them: texts."""
        client = {f"kafka.{name}": value for name, value in self._config.items()}
        named = {name: value for name, value in own.items() if value is not None}
        return {name: _text(value) for name, value in {**client, **named, **options}.items()}


def kafka(
    spark: SparkSession, bootstrap_servers: str | Sequence[str], **client_options: Any
) -> Kafka:
    """Returns the topics of a cluster, as DataFrames of a session.

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
    """
    given = {"bootstrap.servers": bootstrap_servers, **client_options}
    return Kafka(spark, ClientConfig({name: _text(value) for name, value in given.items()}))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
