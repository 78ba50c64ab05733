"""Older versions of PySpark: what each supports, and how the source refuses the rest.

Only `make test-full` installs them. docs/cluster.md has the same table.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.programs import SESSION, environment, printed
from tests.support.brokers import Broker
from tests.support.paths import CACHE, ROOT, made
from tests.support.runs.selection import older_pyspark

# The first version that supports each path.
SINCE = {
    "batch write": "4.0",
    "batch read": "4.0",
    "read with pushFilters": "4.1",
    "exactly-once batch write": "4.0",
    "write in foreachBatch": "4.0",
    "stream write": "4.1",
    "exactly-once stream write": "4.1",
    "stream read": "4.2",
}
PROGRAM = (
    SESSION
    + """
import json
import thalweg.spark

kafka, topic, folder = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
exactly = {"delivery.guarantee": "exactly-once", "transactional.id.prefix": topic}
committed = {"kafka.isolation.level": "read_committed"}
spark = session("local[2]")
thalweg.spark.register(spark)  # twice: Spark has found the source itself
rows = spark.range(20).selectExpr("cast(id as string) as value")
rows.write.parquet(f"{folder}/rows")

def save(frame, number, **options):
    out = frame.write.format("thalweg").mode("append").options(**kafka, **options)
    out.option("topic", f"{topic}-{number}").save()
    return count(number)

def count(number):
    read = spark.read.format("thalweg").options(**kafka, **committed)
    return read.option("subscribe", f"{topic}-{number}").load().distinct().count()

def filtered(number):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    read = spark.read.format("thalweg").options(**kafka, pushFilters="one-query")
    parts = [
        read.option("subscribe", f"{topic}-{number}").load().where(f"partition = {partition}")
        for partition in range(2)
    ]
    assert all(part.rdd.getNumPartitions() == 1 for part in parts)
    return sum(part.count() for part in parts)

def run(writer, number):
    query = (
        writer.option("checkpointLocation", f"{folder}/checkpoint-{number}")
        .trigger(availableNow=True).start()
    )
    query.awaitTermination(120)
    return query

def streamed(number, **options):
    files = spark.readStream.schema("value string").parquet(f"{folder}/rows")
    out = files.writeStream.format("thalweg").options(**kafka, **options)
    run(out.option("topic", f"{topic}-{number}"), number)
    return count(number)

def in_batches(number):
    files = spark.readStream.schema("value string").parquet(f"{folder}/rows")
    run(files.writeStream.foreachBatch(lambda frame, batch: save(frame, number)), number)
    return count(number)

def read_stream(number):
    options = {**kafka, "subscribe": f"{topic}-0", "startingOffsets": "earliest"}
    frame = spark.readStream.format("thalweg").options(**options).load()
    query = run(frame.writeStream.format("noop"), number)
    return sum(each["sources"][0]["numInputRows"] for each in query.recentProgress)

def outcome(path):
    try:
        return path()
    except Exception as error:
        return str(error)

print(json.dumps({name: outcome(path) for name, path in {
    "batch write": lambda: save(rows, 0),
    "batch read": lambda: count(0),
    "read with pushFilters": lambda: filtered(0),
    "exactly-once batch write": lambda: save(rows, 1, **exactly),
    "write in foreachBatch": lambda: in_batches(2),
    "stream write": lambda: streamed(3),
    "exactly-once stream write": lambda: streamed(4, **exactly),
    "stream read": lambda: read_stream(5),
}.items()}))
spark.stop()
"""
)


@older_pyspark
@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_what_an_older_pyspark_supports(
    version: str, java: Path, embedded: Broker, tmp_path: Path
) -> None:
    topic = embedded.unused_name("older")
    for number in range(6):
        embedded.wire.create_topic(f"{topic}-{number}", 2)
    python = made(CACHE / f"spark-{version}" / "bin" / "python", f"spark-{version}")
    env = environment(java, PYSPARK_PYTHON=str(python), PYTHONPATH=str(ROOT / "python"))
    kafka = {"kafka.bootstrap.servers": embedded.bootstrap_servers}
    arguments = [json.dumps(kafka), topic, str(tmp_path)]
    found = json.loads(printed(PROGRAM, env, tmp_path, str(python), arguments).splitlines()[-1])
    assert set(found) == set(SINCE)
    for path, since in SINCE.items():
        if version >= since:
            assert found[path] == 20, path
        else:
            assert f"needs PySpark {since} or newer" in found[path], path
            assert f"this is PySpark {version}.0" in found[path], path


def test_the_documentation_has_the_same_table() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| 4.")]
    columns = [list(map(str.strip, row)) for row in rows]
    assert [row[0] for row in columns] == ["4.0", "4.1", "4.2, 4.3"]
    since = {"batch": "4.0", "stream write": "4.1", "stream read": "4.2"}
    for version, *cells in columns:
        for cell, (path, first) in zip(cells, since.items(), strict=True):
            assert cell.startswith("yes") == (version[:3] >= first), (version, path)
