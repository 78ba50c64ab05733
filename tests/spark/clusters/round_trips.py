"""Runs every reader and writer of the source once, with the same options of the client.

    rows ──> batch write ──> batch read ──> exactly-once batch write ──> batch read
                  └──> stream read ──> stream write ──> batch read
                  └──> stream read ──> exactly-once stream write ──> batch read

Tests call it in a session of their own process, or in a program with another master.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.support.spark_queries import finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = ("written", "once", "streamed", "streamed-once")


def round_trips(
    spark: SparkSession, kafka: Mapping[str, str], folder: str, rows: int = 20, prefix: str = "six-"
) -> dict[str, int]:
    """Returns the number of distinct values in each topic, after every path has written to it.

    Args:
        spark: A classic or Connect session.
        kafka: The options of the client, with the prefix `kafka.`.
        folder: Where queries keep their checkpoints. A stand-alone cluster must be able to see it.
        rows: How many rows to write.
        prefix: With this, the names of the topics begin. They must exist.
    """
    written, once, streamed, streamed_once = (f"{prefix}{name}" for name in TOPICS)
    exactly = {
        "delivery.guarantee": "exactly-once",
        "transactional.id.prefix": f"{prefix}tx",
    }
    frame = spark.range(rows).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    _save(frame, kafka, topic=written)
    back = spark.read.format("thalweg").options(**kafka, subscribe=written).load()
    _save(back.select("key", "value"), kafka, topic=once, **exactly)
    for target, delivery in ((streamed, {}), (streamed_once, exactly)):
        stream = (
            spark.readStream.format("thalweg")
            .options(**kafka, subscribe=written, startingOffsets="earliest")
            .load()
            .select("key", "value")
        )
        writer = (
            stream.writeStream.format("thalweg")
            .options(**kafka, **delivery, topic=target)
            .option("checkpointLocation", f"{folder}/{target}")
            .trigger(availableNow=True)
        )
        finish(writer.start)
    return {name: _count(spark, kafka, f"{prefix}{name}") for name in TOPICS}


def _save(frame: DataFrame, kafka: Mapping[str, str], **options: str) -> None:
    frame.write.format("thalweg").mode("append").options(**kafka, **options).save()


def _count(spark: SparkSession, kafka: Mapping[str, str], topic: str) -> int:
    committed = {"kafka.isolation.level": "read_committed"}
    read = spark.read.format("thalweg").options(**kafka, **committed, subscribe=topic)
    return read.load().selectExpr("cast(value as string) as v").distinct().count()
