"""Runs streams of Spark's own Kafka connector: a program for PySpark 4.0.0, in its own process.

It reads one line of JSON, runs each stream with Trigger.AvailableNow and writes one line of JSON:
for each stream, its batches as lists of values, by number. The connector's streams do not run on
the PySpark version of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps Spark's output apart from the results
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for key, value in setup["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    results.write(json.dumps([run(spark, stream) for stream in setup["streams"]]) + "\n")
    results.flush()
    spark.stop()


def run(spark: Any, stream: dict[str, Any]) -> dict[str, list[str]]:
    """Runs one stream. Returns the values of its batches."""
    batches: dict[str, list[str]] = {}

    def take(frame: Any, batch_id: int) -> None:
        rows = frame.selectExpr("cast(value as string) as v").collect()
        batches[str(batch_id)] = sorted(row.v for row in rows)

    frame = spark.readStream.format("kafka").options(**stream["options"]).load()
    writer = frame.writeStream.option("checkpointLocation", stream["checkpoint"])
    query = writer.foreachBatch(take).trigger(availableNow=True).start()
    query.awaitTermination()
    return batches


if __name__ == "__main__":
    main()
