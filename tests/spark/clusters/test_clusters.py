"""Executors in other JVMs: Spark's local-cluster, and a stand-alone cluster with two workers.

The executors have other working directories than the driver, and other folders of shipped files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.clusters.daemons import standalone_cluster
from tests.spark.clusters.round_trips import TOPICS
from tests.spark.programs import SESSION, environment, printed
from tests.support.paths import ROOT
from tests.support.spark_home import link_home, spark_home
from thalweg import EmbeddedBroker

SHIPPED = {
    "kafka.ssl.ca.location": "ca.pem",
    "kafka.ssl.certificate.location": "certificate.pem",
    "kafka.ssl.key.location": "key.pem",
}
PROGRAM = (
    SESSION
    + """
import json
from tests.spark.clusters.round_trips import round_trips

master, given = sys.argv[1], json.loads(sys.argv[2])
spark = session(master, **{
    "spark.executor.memory": "512m", "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
})
# Each executor has one core, so two tasks at the same time run on two executors. On a busy machine,
# the second one starts late.
def executors():
    import time

    def where(batches):
        import pyarrow as pa
        for batch in batches:
            time.sleep(1)
        yield pa.RecordBatch.from_pydict({"cwd": [os.getcwd()]})

    until, found = time.monotonic() + 60, 0
    while found < 2 and time.monotonic() < until:
        found = spark.range(0, 2, 1, 2).mapInArrow(where, "cwd string").distinct().count()
    return found

for name in given["files"]:
    spark.sparkContext.addFile(name)
found = round_trips(spark, given["kafka"], given["folder"])
print(json.dumps({"executors": executors(), "found": found}))
spark.stop()
"""
)


@pytest.fixture
def mutual() -> Iterator[EmbeddedBroker]:
    """A broker that only talks to clients with a certificate of its authority."""
    configs = {"ssl.client.auth": "required"}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as broker:
        for name in TOPICS:
            broker.create_topic(f"six-{name}", 4)
        yield broker


def check(master: str, home: Path, java: Path, broker: EmbeddedBroker, folder: Path) -> None:
    """Runs every reader and writer on the executors, with certificates that Spark ships."""
    certificates = folder / "certificates"
    certificates.mkdir()
    client = broker.client_certificate("spark")
    texts = [broker.ca_pem or "", client.certificate, client.key.reveal()]
    for name, text in zip(SHIPPED.values(), texts, strict=True):
        (certificates / name).write_text(text, encoding="ascii")
    kafka = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        **SHIPPED,
    }
    files = [str(certificates / name) for name in SHIPPED.values()]
    given = {"kafka": kafka, "files": files, "folder": str(folder / "checkpoints")}
    env = environment(
        java, SPARK_HOME=str(home), PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT)
    )
    text = printed(PROGRAM, env, folder, arguments=[master, json.dumps(given)])
    assert json.loads(text.splitlines()[-1]) == {
        "executors": 2,
        "found": dict.fromkeys(TOPICS, 20),
    }


def test_a_local_cluster(java: Path, mutual: EmbeddedBroker, tmp_path: Path) -> None:
    check("local-cluster[2,1,1024]", link_home(tmp_path / "spark"), java, mutual, tmp_path)


def test_a_stand_alone_cluster(java: Path, mutual: EmbeddedBroker, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path, java, workers=2) as master:
        check(master, spark_home(), java, mutual, tmp_path)
