"""Makes the archive of classes with which Spark sessions of tests start in less time.

    python -m tests.spark.class_archive        as `make spark-kafka` does

A session runs a small query, and when it stops, its JVM writes down the classes that it has loaded
("dynamic class data sharing"). Without an archive everything works, but more slowly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.support import java, spark_home

PROGRAM = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]")
for key in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(key, "127.0.0.1")
spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
spark.range(10).selectExpr("id % 3 as x").groupBy("x").count().collect()
query = (
    spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    .writeStream.format("noop").trigger(availableNow=True).start()
)
query.awaitTermination(60)
spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()
spark.stop()
"""
LIMIT_S = 180


def main() -> None:
    """Makes the archive if this JVM has none yet. A failure costs only time, so it is reported."""
    archive = spark_home.class_archive()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Under another name until it is complete.
    unfinished = archive.with_suffix(".unfinished")
    options = (*java.SHORT_LIVED, f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable")
    env = {
        **os.environ,
        "JAVA_HOME": str(java.java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home.spark_home()),
        "SPARK_SUBMIT_OPTS": " ".join(options),
    }
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if unfinished.exists():
        unfinished.rename(archive)
    else:
        why = ended.stderr[-2_000:]
        print(f"no archive of Spark's classes, the sessions of tests start more slowly:\n{why}")


if __name__ == "__main__":
    main()
