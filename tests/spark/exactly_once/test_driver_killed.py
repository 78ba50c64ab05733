"""A stream whose driver is killed at random moments, with all of its workers."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.spark.conftest import Topics
from tests.spark.exactly_once.conftest import committed
from tests.spark.exactly_once.processes import kill_session
from tests.spark.programs import LIMIT_S, SESSION, environment
from tests.support.brokers import Broker
from tests.support.paths import ROOT
from tests.support.scale import scaled
from tests.support.spark_home import quick_start
from tests.support.waiting import wait_until
from thalweg import KafkaProducer

PROGRAM = (
    SESSION
    + """
import json
from tests.support.spark_queries import finish

given = json.loads(sys.argv[1])
spark = session("local[2]")
writer = (
    spark.readStream.format("thalweg").options(**given["source"]).load().select("value")
    .writeStream.format("thalweg").options(**given["sink"])
    .option("checkpointLocation", given["checkpoint"])
    .trigger(**given["trigger"])
)
finish(writer.start, limit_s=None)
"""
)
KILLS = 6  # at full size
# In the test at full size, brokers store 400,000 rows in 40 micro-batches.
BATCHES = 40


class Driver:
    """A program that copies a topic, exactly once."""

    def __init__(self, java: Path, folder: Path, source: dict[str, str], sink: dict[str, str]):
        self.folder = folder
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.log = folder / "log.txt"
        self.env = environment(
            java, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT), **quick_start()
        )
        self.given = {"source": source, "sink": sink, "checkpoint": str(folder / "checkpoint")}

    @contextmanager
    def running(self, **trigger: object) -> Iterator[subprocess.Popen[bytes]]:
        """Runs the program until the end of the block, which kills all of its processes."""
        given = json.dumps({**self.given, "trigger": trigger})
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(self.program), given],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its ID is the process ID of the program
            )
        try:
            yield process
        finally:
            kill_session(process.pid)
            process.wait(30)


@pytest.mark.timeout(1800)  # several sessions, each of which may take LIMIT_S
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc")
def test_a_driver_that_is_killed_repeatedly_writes_each_row_once(
    java: Path, kafka: Broker, tmp_path: Path
) -> None:
    rows = scaled(400_000, minimum=8_000)
    seed = int(os.environ.get("THALWEG_KILL_SEED") or random.randrange(1 << 32))
    print(f"THALWEG_KILL_SEED={seed}")
    chance = random.Random(seed)
    topics = Topics(kafka)
    origin, target = topics.create(2), topics.create(3)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for row in range(rows):
            producer.send(origin, b"%d" % row, partition=row % 2)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    reading = {"subscribe": origin, "startingOffsets": "earliest"}
    driver = Driver(
        java,
        tmp_path,
        {**servers, **reading, "maxOffsetsPerTrigger": str(rows // BATCHES)},
        {
            **servers,
            "topic": target,
            "delivery.guarantee": "exactly-once",
            "transactional.id.prefix": target,
        },
    )

    def written() -> int:
        return sum(kafka.wire.end_offsets(target).values())

    def runs_until(process: subprocess.Popen[bytes], offsets: int) -> bool:
        assert process.poll() is None, driver.log.read_text()[-5_000:]
        return written() >= offsets

    for life in range(scaled(KILLS, minimum=2)):
        with driver.running(processingTime="0 seconds") as process:
            # A quick one may write the rest of the rows before it is killed.
            enough = min(written() + chance.randrange(1, rows // 12), rows)
            wait_until(partial(runs_until, process, enough), LIMIT_S)
            # Some more time, because some steps write nothing.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 0.5))
        print(f"killed {life + 1} times, the log has {written():,} offsets")
    with driver.running(availableNow=True) as process:
        assert process.wait(LIMIT_S) == 0, driver.log.read_text()[-5_000:]
    # A coordinator acknowledges the end of a transaction before readers see it.
    wait_until(lambda: len(committed(kafka, target)) >= rows, 60, what="the last transactions")
    values = committed(kafka, target)
    assert len(values) == rows
    assert set(map(int, values)) == set(range(rows))
