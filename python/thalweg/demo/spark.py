"""The Spark part of the demo: a batch to a second topic and back, then a stream to a third one."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from thalweg.demo import Report, Topics

_FLIGHT = (
    "carrier string, origin string, dest string, hour int, dep_delay double, arr_delay double, "
    "distance int"
)
_DELAY = "carrier string, hour int, flights long, mean_delay double"
_DAY = "carrier string, date string, flights long, mean_delay double"


def run(bootstrap: str, topics: Topics, report: Report, view: Any) -> list[dict[str, Any]]:
    """Computes the delays with Spark, by hour in a batch and by day in a stream.

    Args:
        bootstrap: The address of the Kafka cluster.
        topics: The topic with the flights, and the topics to write the results to.
        report: Gets the rates of the stages, and the result of the stream.
        view: Shows the progress to the user.

    Returns:
        Rows ``{carrier, hour, flights, mean_delay}`` in order, as read back from ``topics.delays``.
    """
    from thalweg.demo import Stream
    from thalweg.demo.data import ROWS

    guarantee = _guarantee(bootstrap)

    @contextlib.contextmanager
    def stage(name: str, rows: int) -> Iterator[None]:
        with view.busy(name), report.stage(name, rows):
            yield

    with stage("Start Spark and its Python workers", 0):
        spark = session()
        # The first read starts the workers. The target is still empty.
        _read(spark, bootstrap, topics.delays).count()
    try:
        with stage("Spark batch read and delays by carrier and hour", ROWS):
            delays = _delays(_flights(_read(spark, bootstrap, topics.flights))).cache()
            groups = delays.count()
        with stage("Spark batch write of the result", groups):
            _write(delays, bootstrap, topics.delays)
        with stage("Spark read of the result", groups):
            rows = _read_back(spark, bootstrap, topics.delays)
        with stage(f"Structured Streaming, by day, {guarantee}", ROWS):
            batches, written = _stream(spark, bootstrap, topics, guarantee)
        with stage("Spark read of the stream, read_committed", written):
            committed, days = _last_days(spark, bootstrap, topics.days)
    finally:
        spark.stop()
    report.stream = Stream(guarantee, batches, written, committed, days)
    return rows


def session() -> SparkSession:
    """Returns a local Spark session whose workers use this Python interpreter."""
    from pyspark.sql import SparkSession

    # By default, Spark starts its workers with the python3 on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .appName("thalweg demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def _read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return (
        spark.read.format("thalweg")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )


def _flights(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), _FLIGHT)
    return records.select(parsed.alias("flight"), "timestamp").select("flight.*", "timestamp")


def _delays(flights: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return flights.groupBy("carrier", "hour").agg(
        f.count("*").alias("flights"), f.avg("dep_delay").alias("mean_delay")
    )


def _write(delays: DataFrame, bootstrap: str, topic: str) -> None:
    from pyspark.sql import functions as f

    (
        delays.select(
            f.col("carrier").alias("key"),
            f.to_json(f.struct("carrier", "hour", "flights", "mean_delay")).alias("value"),
        )
        .write.format("thalweg")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .save()
    )


def _read_back(spark: SparkSession, bootstrap: str, topic: str) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), _DELAY).alias("delay")
    rows = _read(spark, bootstrap, topic).select(parsed).select("delay.*")
    return [row.asDict() for row in rows.orderBy("carrier", "hour").collect()]


def _guarantee(bootstrap: str) -> str:
    """Returns the best guarantee of delivery that the cluster can give."""
    from thalweg import KafkaAdminClient

    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        feature = admin.describe_features().get("transaction.version", {})
    return "exactly-once" if feature.get("finalized", (0, 0))[1] >= 2 else "at-least-once"


def _stream(spark: SparkSession, bootstrap: str, topics: Topics, guarantee: str) -> tuple[int, int]:
    """Computes flights and mean delay by day and carrier, and writes all after each micro-batch.

    Returns:
        The number of micro-batches and the number of written rows.
    """
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("thalweg")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topics.flights)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200000")
        .load()
    )
    windowed = (
        _flights(records)
        .groupBy(f.window("timestamp", "1 day"), "carrier")
        .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("mean_delay"))
    )
    date = f.date_format("window.start", "yyyy-MM-dd").alias("date")
    results = windowed.select(
        f.concat_ws(" ", "carrier", date).alias("key"),
        f.to_json(f.struct("carrier", date, "flights", "mean_delay")).alias("value"),
    )
    options = {"delivery.guarantee": guarantee}
    if guarantee == "exactly-once":
        options["transactional.id.prefix"] = topics.days
    with tempfile.TemporaryDirectory(prefix="thalweg-demo-") as checkpoint:
        query = (
            results.writeStream.format("thalweg")
            .options(**options)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topics.days)
            .outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        written = [progress["sink"]["numOutputRows"] for progress in query.recentProgress]
    return len(written), sum(written)


def _last_days(spark: SparkSession, bootstrap: str, topic: str) -> tuple[int, list[dict[str, Any]]]:
    """Returns the number of committed rows, and the last result in order of carrier and date."""
    from pyspark.sql import functions as f

    committed = (
        spark.read.format("thalweg")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .load()
    )
    # All results for a day and carrier have the same key, so they are in the same partition.
    last = committed.groupBy("key").agg(
        f.count("*").alias("rows"), f.max_by("value", "offset").alias("value")
    )
    parsed = f.from_json(f.col("value").cast("string"), _DAY).alias("day")
    rows = last.select("rows", parsed).select("rows", "day.*").orderBy("carrier", "date").collect()
    days = [row.asDict() for row in rows]
    return sum(day.pop("rows") for day in days), days
