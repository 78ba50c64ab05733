"""Executors that die, and speculative attempts, on a stand-alone cluster with two hosts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.spark.clusters.daemons import standalone_cluster
from tests.spark.conftest import Topics
from tests.spark.exactly_once.conftest import committed
from tests.spark.exactly_once.killing import PAUSE_S
from tests.spark.programs import SESSION, environment, printed
from tests.support.brokers import Broker
from tests.support.paths import ROOT
from tests.support.spark_home import spark_home
from tests.support.waiting import wait_until

PROGRAM = (
    SESSION
    + """
import json, time
from pathlib import Path
from tests.spark.exactly_once.killing import KillingDataSource
from tests.support.spark_queries import finish
from thalweg import KafkaProducer

given = json.loads(sys.argv[1])
spark = session(given["master"], **{
    "spark.executor.memory": "512m", "spark.cores.max": "2",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.speculation": "true", "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5", "spark.speculation.minTaskRuntime": "2s",
})
spark.dataSource.register(KillingDataSource)
kafka = {"kafka.bootstrap.servers": given["servers"]}
found = []
for number, (step, how) in enumerate(given["steps"]):
    # Not with Spark, whose speculative attempts may repeat rows, even after the write.
    with KafkaProducer(bootstrap_servers=given["servers"]) as producer:
        for row in range(given["rows"]):
            producer.send(given["origin"], f"{number}-{row}".encode(), partition=row % 2)
    frame = (
        spark.readStream.format("thalweg")
        .options(**kafka, subscribe=given["origin"], startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", str(given["rows"] // 2))
        .load()
    )
    marker = Path(given["folder"]) / f"reached {number}"
    begin = time.monotonic()
    writer = (
        frame.select("value")
        .writeStream.format("thalweg-killing")
        .options(**kafka, topic=given["target"])
        .option("delivery.guarantee", "exactly-once")
        .option("transactional.id.prefix", given["target"])
        .options(step=step, marker=str(marker), how=how)
        .option("checkpointLocation", given["folder"] + "/checkpoint")
        .trigger(availableNow=True)
    )
    try:
        finish(writer.start)
    except Exception as error:
        print(step, how, error)
    found.append([marker.exists(), time.monotonic() - begin])
print(json.dumps(found))
spark.stop()
"""
)
STEPS = [
    ("task before prepare", "executor"),
    ("task after prepare", "executor"),
    ("before check", "executor"),
    ("within end", "executor"),
    ("task before prepare", "pause"),
    ("task after prepare", "pause"),
]
ROWS = 40
# Shorter than the limit of the test. It takes 90 seconds, and minutes on a busy machine.
LIMIT_S = 1080


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc")
def test_a_stream_survives_executors_that_die_and_speculative_attempts(
    java: Path, kafka: Broker, tmp_path: Path
) -> None:
    """No batch fails, and each row is there once."""
    topics = Topics(kafka)
    origin, target = topics.create(2), topics.create(3)
    given = {
        "servers": kafka.bootstrap_servers,
        "origin": origin,
        "target": target,
        "folder": str(tmp_path),
        "rows": ROWS,
        "steps": STEPS,
    }
    with standalone_cluster(tmp_path, java, workers=2, several_hosts=True) as master:
        env = environment(
            java,
            SPARK_HOME=str(spark_home()),
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=str(ROOT),
        )
        arguments = [json.dumps({**given, "master": master})]
        text = printed(PROGRAM, env, tmp_path, arguments=arguments, limit_s=LIMIT_S)
    *errors, last = text.splitlines()
    assert not errors, "\n".join(errors)
    for (step, how), (is_reached, seconds) in zip(STEPS, json.loads(last), strict=True):
        assert is_reached, (step, how)
        assert seconds < PAUSE_S, f"no speculative attempt has finished instead of that {step!r}"
    expected = sorted(f"{step}-{row}" for step in range(len(STEPS)) for row in range(ROWS))
    wait_until(
        lambda: len(committed(kafka, target)) >= len(expected), 60, what="the end of transactions"
    )
    assert sorted(committed(kafka, target)) == expected
