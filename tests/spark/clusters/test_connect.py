"""Spark Connect: the client talks to a real server, which runs the data source."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters.daemons import connect_server
from tests.spark.clusters.round_trips import TOPICS
from tests.spark.programs import environment, interpreter_without_thalweg, printed
from tests.support.paths import ROOT
from thalweg import EmbeddedBroker

EVERYWHERE = dict.fromkeys(TOPICS, 20)
CLIENT = """
import json, sys
from tests.spark.clusters.round_trips import round_trips
from tests.support.spark_queries import finish
from pyspark.sql import SparkSession

url, given = sys.argv[1], json.loads(sys.argv[2])
spark = SparkSession.builder.remote(url).getOrCreate()
kafka, folder = given["kafka"], given["folder"]

def told(work):
    try:
        return str(work())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture(scope="module")
def server(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with an executor, whose files are in another folder than the driver's."""
    folder, master = tmp_path_factory.mktemp("connect"), "local-cluster[1,2,700]"
    with connect_server(folder, java, sys.executable, master) as url:
        yield url


@pytest.fixture(scope="module")
def plain() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def mutual() -> Iterator[EmbeddedBroker]:
    """A broker that only talks to clients with a certificate of its authority."""
    configs = {"ssl.client.auth": "required"}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as broker:
        yield broker


def create_topics(broker: EmbeddedBroker, prefix: str) -> None:
    for name in TOPICS:
        broker.create_topic(f"{prefix}{name}", 2)


def client(
    code: str, server: str, java: Path, folder: Path, python: str = sys.executable, **given: Any
) -> Any:
    """Runs a client in a process of its own, and returns the JSON that it prints last."""
    program = CLIENT + code + "\nspark.stop()\n"
    env = environment(java, PYTHONPATH=str(ROOT))
    given["folder"] = str(folder / "checkpoints")
    text = printed(program, env, folder, python, arguments=[server, json.dumps(given)])
    return json.loads(text.splitlines()[-1])


def test_every_reader_and_writer_works_and_the_client_needs_no_thalweg(
    server: str, java: Path, plain: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topics(plain, "bare-")
    code = """
from importlib.util import find_spec
assert find_spec("thalweg") is None
assert spark.client is not None
print(json.dumps(round_trips(spark, kafka, folder, prefix="bare-")))
"""
    python = interpreter_without_thalweg(tmp_path / "bare")
    kafka = {"kafka.bootstrap.servers": plain.bootstrap_servers}
    assert client(code, server, java, tmp_path, python, kafka=kafka) == EVERYWHERE


def test_a_client_registers_the_source_and_gets_progress(
    server: str, java: Path, plain: EmbeddedBroker, tmp_path: Path
) -> None:
    plain.create_topic("progress", 2)
    code = """
import thalweg.spark

thalweg.spark.register(spark)
rows = spark.range(100).selectExpr("cast(id as string) as value")
rows.write.format("thalweg").mode("append").options(**kafka, topic="progress").save()
stream = spark.readStream.format("thalweg").options(**kafka, subscribe="progress")
writer = (
    stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "60").load()
    .writeStream.format("noop").option("checkpointLocation", folder)
    .trigger(availableNow=True)
)
query = finish(writer.start)
read = [each["sources"][0]["numInputRows"] for each in query.recentProgress]
# A trigger that has nothing to read reports its progress, too, if it is late.
read = [rows for rows in read if rows]
latest = json.loads(query.lastProgress["sources"][0]["latestOffset"])
print(json.dumps({"read": read, "latest": sum(latest["progress"].values())}))
"""
    kafka = {"kafka.bootstrap.servers": plain.bootstrap_servers}
    found = client(code, server, java, tmp_path, kafka=kafka)
    assert found == {"read": [60, 40], "latest": 100}


def test_the_helpers_work_without_a_jvm(
    server: str, java: Path, plain: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("words", "counts"):
        plain.create_topic(topic, 2)
    code = """
import time

import thalweg.spark

cluster = thalweg.spark.kafka(spark, kafka)
seen = []
spark.streams.addListener(thalweg.spark.ProgressListener(seen.append))
cluster.write(spark.range(10).selectExpr("cast(id % 2 as string) as value"), "words").save()
words = cluster.read_stream("words", starting={"words": {0: 0, 1: 0}})
counts = words.groupBy(words.value.cast("string").alias("word")).count()
writer = (
    counts.selectExpr("concat(word, ':', count) as value")
    .writeStream.outputMode("update").foreachBatch(cluster.foreach_batch("counts"))
    .option("checkpointLocation", folder).trigger(availableNow=True)
)
finish(writer.start)
until = time.monotonic() + 60
while not seen and time.monotonic() < until:
    time.sleep(0.1)
found = cluster.read("counts").selectExpr("cast(value as string) as v").collect()
print(json.dumps([sorted(row.v for row in found), seen[0].rows, seen[0].total_lag]))
"""
    found = client(code, server, java, tmp_path, kafka=plain.bootstrap_servers)
    assert found == [["0:5", "1:5"], 10, 0]


def test_wrong_options_are_explained_to_the_client(
    server: str, java: Path, plain: EmbeddedBroker, tmp_path: Path
) -> None:
    code = """
read = lambda **more: spark.read.format("thalweg").options(**{**kafka, **more}).load().collect()
rows = spark.range(1).selectExpr("cast(id as string) as value")
write = lambda frame, **more: (
    frame.write.format("thalweg").mode("append").options(**{**kafka, **more}).save()
)

def stream(**more):
    frame = spark.readStream.format("thalweg").options(**{**kafka, **more}).load()
    query = (
        frame.writeStream.format("noop").option("checkpointLocation", folder)
        .trigger(availableNow=True).start()
    )
    query.awaitTermination(120)
    return query.exception()

print(json.dumps([
    told(lambda: read(subscribe="t", startingOffset="latest")),
    told(lambda: read(subscribe="absent-topic")),
    told(lambda: stream(subscribe="t", endingOffsets="latest")),
    told(lambda: write(rows)),
    told(lambda: write(rows, topic="t", taskMemory="1m")),
    told(lambda: write(spark.range(1), topic="t")),
    told(lambda: rows.write.format("thalweg").options(**kafka, topic="t").save()),
]))
"""
    kafka = {"kafka.bootstrap.servers": plain.bootstrap_servers}
    found = client(code, server, java, tmp_path, kafka=kafka)
    expected = [
        "did you mean 'startingOffsets'",
        "Topic 'absent-topic' does not exist",
        "ending offset not valid in streaming queries",
        "topic option",
        "'taskMemory' must be at least 16m",
        "value",
        "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
    ]
    assert [text for text, part in zip(found, expected, strict=True) if part not in text] == []


def test_certificates_as_text_and_as_artifacts(
    server: str, java: Path, mutual: EmbeddedBroker, tmp_path: Path
) -> None:
    assert mutual.ca_pem is not None
    spark = mutual.client_certificate("spark")
    texts = {
        "kafka.ssl.ca.pem": mutual.ca_pem,
        "kafka.ssl.certificate.pem": spark.certificate,
        "kafka.ssl.key.pem": spark.key.reveal(),
    }
    files = {}
    for option, text in texts.items():
        name = f"{option}.shipped"
        (tmp_path / name).write_text(text, encoding="ascii")
        files[option.replace(".pem", ".location")] = name
    code = """
from pathlib import Path

for name in given["files"].values():
    spark.addArtifact(str(Path(name).resolve()), file=True)
found = round_trips(spark, {**kafka, **given["files"]}, folder, prefix="secure-")
texts = spark.read.format("thalweg").options(**kafka, **given["texts"], subscribe="secure-once")
print(json.dumps([found, texts.load().count()]))
"""
    kafka = {
        "kafka.bootstrap.servers": mutual.bootstrap_servers,
        "kafka.security.protocol": "SSL",
    }
    create_topics(mutual, "secure-")
    found = client(code, server, java, tmp_path, kafka=kafka, texts=texts, files=files)
    assert found == [EVERYWHERE, 20]


def test_a_server_without_thalweg_is_named(java: Path, tmp_path: Path) -> None:
    other = interpreter_without_thalweg(tmp_path / "other")
    code = """
import thalweg.spark

print(json.dumps([
    told(lambda: thalweg.spark.register(spark)),
    told(lambda: spark.read.format("thalweg").options(**kafka, subscribe="t").load().count()),
]))
"""
    (tmp_path / "server").mkdir()
    kafka = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    with connect_server(tmp_path / "server", java, other) as url:
        registered, read = client(code, url, java, tmp_path, kafka=kafka)
    assert registered.startswith("ImportError: ")
    assert f"Spark's workers run {other}, which cannot import thalweg" in registered
    assert "DATA_SOURCE_NOT_FOUND" in read
