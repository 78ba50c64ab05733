"""Streams of Spark's own connector 4.0.0: their checkpoints and their batches.

The connector's streams need PySpark 4.0.0, which only `make test-full` installs. The checkpoint in
this file is one that the connector has written.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spark.conftest import Source, Stream, Topics, connector_jars
from tests.spark.parity.engine import Engine
from tests.support.java import java_home
from tests.support.paths import CACHE, made
from tests.support.runs.selection import older_pyspark

PYTHON = CACHE / "spark-4.0" / "bin" / "python"
PROGRAM = Path(__file__).with_name("jvm_streams.py")

OFFSET_LOG = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1795820674872,"conf":{"spark.sql.streaming.stateStore.\
providerClass":"org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",\
"spark.sql.streaming.stateStore.encodingFormat":"unsaferow","spark.sql.shuffle.partitions":"200"}}
"""


def write_checkpoint(folder: Path, topic: str) -> None:
    """Writes the checkpoint of a query that failed in its second batch."""
    files = {
        "metadata": '{"id":"8d3cd6d3-c5a3-4c69-bba2-f95ac79d009c"}',
        "offsets/0": f'{OFFSET_LOG}{{"{topic}":{{"0":2,"1":1}}}}',
        "offsets/1": f'{OFFSET_LOG}{{"{topic}":{{"0":3,"1":1}}}}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f'\0v1\n{{"{topic}":{{"0":0,"1":0}}}}',
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_query_of_sparks_own_connector_resumes_with_this_source(
    source: Source, both: Topics, stream_of: Callable[..., Stream]
) -> None:
    topic = both.create(2)
    both.send(topic, ["a", "b", "c"], partition=0)
    both.send(topic, ["d"], partition=1)
    stream = stream_of(lambda: source.stream(both, subscribe=topic, startingOffsets="earliest"))
    write_checkpoint(stream.checkpoint, topic)
    both.send(topic, ["e"], partition=1)
    stream.run()
    # The second batch runs again with its planned end. The third reads what is new.
    assert stream.batches == {1: ["c"], 2: ["e"]}
    both.add_partitions(topic, 3)
    both.send(topic, ["f"], partition=2)
    stream.run()
    assert stream.batches[3] == ["f"]


@older_pyspark
def test_both_connectors_make_the_same_batches_and_the_second_continues_the_first(
    both: Topics, tmp_path: Path
) -> None:
    topic = both.create(3)
    for partition, count in ((0, 101), (1, 11), (2, 1)):
        for n in range(count):
            both.send(topic, [f"{partition}-{n}"], partition=partition, timestamp_ms=1_000 + n)
    times = json.dumps({topic: {"0": 1_050, "1": 1_005, "2": 1_000}})
    offsets = json.dumps({topic: {"0": 95, "1": -1, "2": -2}})
    cases = {
        "earliest": {"startingOffsets": "earliest"},
        "specific": {"startingOffsets": offsets, "failOnDataLoss": "false"},
        "times": {"startingOffsetsByTimestamp": times},
        "one time": {"startingTimestamp": "1010", "startingOffsetsByTimestampStrategy": "latest"},
        "limited": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"},
        "split": {"startingOffsets": "earliest", "minPartitions": "7"},
        "assigned": {"assign": json.dumps({topic: [1]}), "startingOffsets": "earliest"},
    }
    streams: list[dict[str, Any]] = [
        {
            "options": {
                "kafka.bootstrap.servers": both.broker.bootstrap_servers,
                **({} if "assign" in options else {"subscribe": topic}),
                **options,
            },
            "checkpoint": str(tmp_path / name),
        }
        for name, options in cases.items()
    ]
    theirs = run_theirs(streams)
    queries = {}
    for stream, batches in zip(streams, theirs, strict=True):
        ours = queries[stream["checkpoint"]] = Engine(both, **stream["options"])
        ours.run()
        if "maxOffsetsPerTrigger" in stream["options"]:
            # Ours round the shares of the limit so that their sum is the limit.
            assert ours.values() == sorted(v for batch in batches.values() for v in batch)
            assert ours.batches[0] == batches["0"]
            sizes = [len(ours.batches[n]) for n in range(len(batches))]
            assert sizes == [25, 25, 25, 25, 13]
        else:
            assert {str(n): batch for n, batch in ours.batches.items()} == batches, stream
    both.send(topic, ["new"], partition=1)
    for stream in streams:
        logs = sorted(
            (Path(stream["checkpoint"]) / "offsets").glob("[0-9]*"), key=lambda f: int(f.name)
        )
        ours = Engine(both, **stream["options"])
        ours.ends = [log.read_text(encoding="utf-8").splitlines()[2] for log in logs]
        ours.committed = len(logs)
        ours.run()
        assert ours.values() == ["new"], stream


def run_theirs(streams: list[dict[str, Any]]) -> list[dict[str, list[str]]]:
    """Runs streams with Spark's own connector, each with Trigger.AvailableNow."""
    conf = {
        "spark.jars": ",".join(connector_jars()),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
    }
    made(PYTHON, "spark-4.0")
    env = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(PYTHON)}
    env.pop("SPARK_HOME", None)
    result = subprocess.run(
        [str(PYTHON), str(PROGRAM)],
        input=json.dumps({"conf": conf, "streams": streams}) + "\n",
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-5_000:]
    return json.loads(result.stdout)
