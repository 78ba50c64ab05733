"""One Spark session that measures one connector on demand: a child process of `benches.spark`.

It reads a job as JSON from each line of standard input, and writes its seconds and number of rows
to a line of standard output. It stays alive between jobs, so that all but the first run warm, and
it does not use the other connector. It also runs on pyspark 4.0, which the stream of the JVM
connector needs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from typing import Any

VALUE_BYTES = 100


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps Spark's output apart from the results
    spark = session(setup)
    answers.write(json.dumps({"spark": spark.version}) + "\n")
    answers.flush()
    for line in sys.stdin:
        job = json.loads(line)
        began = time.perf_counter()
        rows = JOBS[job["what"]](spark, setup, job)
        seconds = time.perf_counter() - began
        answers.write(json.dumps({"seconds": seconds, "rows": rows}) + "\n")
        answers.flush()
    spark.stop()


def session(setup: dict[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("thalweg bench")
    settings = {
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    if setup["jars"]:
        settings["spark.jars"] = ",".join(setup["jars"])
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> int:
    """Writes every column of every row to a sink that does nothing with it."""
    frame = reader(spark.read, setup, job).load()
    frame.write.format("noop").mode("overwrite").save()
    return int(job["rows"])


def stream(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> int:
    """Reads all records with Trigger.AvailableNow, a quarter of them per batch."""
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    source = reader(spark.readStream, setup, job)
    source = source.option("startingOffsets", "earliest")
    source = source.option("maxOffsetsPerTrigger", str(max(1, int(job["rows"]) // 4)))
    query = (
        source.load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return int(rows)


def write(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> int:
    """Writes rows of 100 bytes without a key, which Spark makes during the write."""
    rows = spark.range(0, int(job["rows"]), 1, 4)
    frame = rows.selectExpr(f"lpad(cast(id as string), {VALUE_BYTES}, 'x') as value")
    (
        frame.write.format(setup["format"])
        .mode("append")
        .option("kafka.bootstrap.servers", setup["bootstrap"])
        .option("topic", job["topic"])
        .options(**setup["producer"])
        .save()
    )
    return int(job["rows"])


def reader(source: Any, setup: dict[str, Any], job: dict[str, Any]) -> Any:
    return (
        source.format(setup["format"])
        .option("kafka.bootstrap.servers", setup["bootstrap"])
        .option("subscribe", job["topic"])
    )


JOBS = {"read": read, "stream": stream, "write": write}

if __name__ == "__main__":
    main()
