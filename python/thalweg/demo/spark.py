"""The Spark part of the demo: a batch to a second topic and back, then a stream."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from thalweg.demo import Report

_FLIGHT = (
    "carrier string, origin string, dest string, hour int, dep_delay double, arr_delay double, "
    "distance int"
)
_DELAY = "carrier string, hour int, flights long, mean_delay double"


def run(
    bootstrap: str, source: str, target: str, report: Report, view: Any
) -> list[dict[str, Any]]:
    """Computes the delays with Spark, by hour in a batch and by day in a stream.

    Args:
        bootstrap: The address of the Kafka cluster.
        source: The topic with the flights.
        target: The topic to write the result to, and to read it back from.
        report: Gets the rates of the stages, and the rows of the stream as ``days``.
        view: Shows the progress to the user.

    Returns:
        Rows ``{carrier, hour, flights, mean_delay}`` in order, as read back from ``target``.
    """
    from thalweg.demo.data import ROWS

    @contextlib.contextmanager
    def stage(name: str, rows: int) -> Iterator[None]:
        with view.busy(name), report.stage(name, rows):
            yield

    with stage("Start Spark and its Python workers", 0):
        spark = session()
        # The first read starts the workers. The target is still empty.
        _read(spark, bootstrap, target).count()
    try:
        with stage("Spark batch read and delays by carrier and hour", ROWS):
            delays = _delays(_flights(_read(spark, bootstrap, source))).cache()
            groups = delays.count()
        with stage("Spark batch write of the result", groups):
            _write(delays, bootstrap, target)
        with stage("Spark read of the result", groups):
            rows = _read_back(spark, bootstrap, target)
        with stage("Structured Streaming, by day and carrier", ROWS):
            report.days = _stream(spark, bootstrap, source)
    finally:
        spark.stop()
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


def _stream(spark: SparkSession, bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Computes flights and mean delay by day and carrier in micro-batches. Returns sorted rows."""
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("thalweg")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200000")
        .load()
    )
    windowed = (
        _flights(records)
        .groupBy(f.window("timestamp", "1 day"), "carrier")
        .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("mean_delay"))
    )
    name = "thalweg_demo_by_day"
    with tempfile.TemporaryDirectory(prefix="thalweg-demo-") as checkpoint:
        query = (
            windowed.writeStream.format("memory")
            .queryName(name)
            .outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        date = f.date_format("window.start", "yyyy-MM-dd").alias("date")
        rows = spark.table(name).select("carrier", date, "flights", "mean_delay")
        return [row.asDict() for row in rows.orderBy("carrier", "date").collect()]
