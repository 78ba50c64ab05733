"""One Spark session that measures one contestant on demand: a child process of `benches.spark`.

It reads a job as JSON from each line of standard input, and writes what it counted and its seconds
to a line of standard output. It stays alive between jobs, so that all but the first run warm, and
it does not use the other contestant. It also runs on pyspark 4.0, which the streams of the JVM
connector need.
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
# The first triggers compile code and open connections.
WARM_TRIGGERS = 2
STEADY_TRIGGERS = 12
EMPTY_TRIGGERS = 40
OWN_FORMATS = ("constant", "discard")


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps Spark's output apart from the results
    spark = session(setup)
    results.write(json.dumps({"spark": spark.version}) + "\n")
    results.flush()
    for line in sys.stdin:
        job = json.loads(line)
        began = time.perf_counter()
        counted, seconds = JOBS[job["job"]](spark, setup, job)
        if seconds is None:
            seconds = time.perf_counter() - began
        results.write(json.dumps({"seconds": seconds, "counted": counted}) + "\n")
        results.flush()
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
        "spark.sql.streaming.noDataProgressEventInterval": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    if setup["jars"]:
        settings["spark.jars"] = ",".join(setup["jars"])
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if setup["format"] in OWN_FORMATS:
        from benches.spark.ceilings import ConstantDataSource, DiscardDataSource

        spark.dataSource.register(ConstantDataSource)
        spark.dataSource.register(DiscardDataSource)
    return spark


def read(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, None]:
    """Writes every column of every row to a sink that does nothing with it."""
    frame = reader(spark.read, setup, job).load()
    frame.write.format("noop").mode("overwrite").save()
    return int(job["rows"]), None


def stream(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, None]:
    """Reads all records with Trigger.AvailableNow, a quarter of them per batch."""
    source = reader(spark.readStream, setup, job, triggers=4).load()
    progress = available_now(source.writeStream.format("noop"))
    return sum(each.numInputRows for each in progress), None


def steady(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, float]:
    """Reads all records in many triggers, and counts those after the first two."""
    source = reader(spark.readStream, setup, job, triggers=STEADY_TRIGGERS).load()
    progress = available_now(source.writeStream.format("noop"))
    warm = [each for each in progress if each.batchId >= WARM_TRIGGERS and each.numInputRows]
    seconds = sum(each.durationMs["triggerExecution"] for each in warm) / 1_000
    rows = sum(each.numInputRows for each in warm)
    expected = int(job["rows"]) * (STEADY_TRIGGERS - WARM_TRIGGERS) // STEADY_TRIGGERS
    if abs(rows - expected) > 0.01 * expected:
        raise RuntimeError(f"the triggers had {rows:,} rows instead of {expected:,}")
    return int(job["rows"]), seconds * int(job["rows"]) / rows


def empty(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, float]:
    """Runs triggers that find nothing new."""
    source = reader(spark.readStream, setup, job, startingOffsets="latest").load()
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    query = (
        source.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="20 milliseconds")
        .start()
    )
    found: dict[str, float] = {}
    until = time.monotonic() + 60
    while len(found) < EMPTY_TRIGGERS and time.monotonic() < until:
        for each in query.recentProgress:
            found[each.timestamp] = each.durationMs["triggerExecution"] / 1_000
        time.sleep(0.1)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    took = list(found.values())[EMPTY_TRIGGERS // 4 : EMPTY_TRIGGERS]
    return len(took), sum(took)


def write(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, None]:
    """Writes rows of 100 bytes without a key, which Spark makes during the write."""
    rows = spark.range(0, int(job["rows"]), 1, 4)
    frame = rows.selectExpr(f"lpad(cast(id as string), {VALUE_BYTES}, 'x') as value")
    writer(frame.write.mode("append"), setup, job).save()
    return int(job["rows"]), None


def copy(spark: Any, setup: dict[str, Any], job: dict[str, Any]) -> tuple[int, None]:
    """Copies records into another topic with Trigger.AvailableNow, in four batches."""
    source = reader(spark.readStream, setup, job, triggers=4).load().select("value")
    progress = available_now(writer(source.writeStream, setup, job))
    return sum(each.numInputRows for each in progress), None


def available_now(stream: Any) -> Any:
    """Runs a stream until it has read all, and returns its progress."""
    checkpoint = tempfile.mkdtemp(prefix="thalweg-bench-")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query.recentProgress


def reader(
    source: Any, setup: dict[str, Any], job: dict[str, Any], triggers: int = 0, **options: str
) -> Any:
    """Returns a reader of the job's topic."""
    rows = int(job["rows"])
    if triggers:
        options["maxOffsetsPerTrigger"] = str(max(1, rows // triggers))
        options.setdefault("startingOffsets", "earliest")
    own = {} if job["job"] == "copy" else setup["options"]
    if setup["format"] == "constant":
        return source.format("constant").options(rows=str(rows), **own, **options)
    return (
        source.format("kafka" if setup["format"] == "kafka" else "thalweg")
        .option("kafka.bootstrap.servers", setup["bootstrap"])
        .option("subscribe", job["topic"])
        .options(**own, **options)
    )


def writer(target: Any, setup: dict[str, Any], job: dict[str, Any]) -> Any:
    """Returns a writer into the job's other topic."""
    options = dict(setup["options"])
    if "delivery.guarantee" in options:
        options["transactional.id.prefix"] = job["target"]
    return (
        target.format(setup["format"])
        .option("kafka.bootstrap.servers", setup["bootstrap"])
        .option("topic", job["target"])
        .options(**options)
    )


JOBS = {
    "read": read,
    "stream": stream,
    "steady": steady,
    "empty": empty,
    "write": write,
    "copy": copy,
}

if __name__ == "__main__":
    main()
