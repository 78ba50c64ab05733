"""Warnings of the source are in the logs of Spark, where users look for them."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import Topics
from tests.spark.programs import SESSION, environment, run
from tests.support.paths import ROOT
from tests.support.spark_home import quick_start
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer
from thalweg.spark.workers.logs import show_warnings

# The worker has used a producer before, and the process of the stream uses a consumer: the clients
# have a NullHandler, which would hide warnings.
PROGRAM = """
from tests.support.spark_queries import finish

spark = session(**{"spark.log.level": "ERROR"})
bootstrap, topic, other, group = sys.argv[1:]
kafka = {"kafka.bootstrap.servers": bootstrap}
rows = spark.createDataFrame([("a",)], "value string").coalesce(1)
rows.write.format("thalweg").mode("append").options(**kafka).option("topic", other).save()

def read(reader):
    options = {
        "subscribe": topic, "startingOffsets": '{"%s": {"0": 0}}' % topic,
        "failOnDataLoss": "false", "commitGroupId": group,
    }
    return reader.format("thalweg").options(**kafka, **options).load()

finish(read(spark.readStream).writeStream.format("noop").trigger(availableNow=True).start)
spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
read(spark.read).collect()
for row in spark.tvf.python_worker_logs().collect():
    print(row.level, row.logger, row.msg)
spark.stop()
"""


def test_skipped_offsets_and_refused_commits_are_in_the_logs(
    java: Path, tmp_path: Path, topics: Topics
) -> None:
    topic, other, bootstrap = topics.create(), topics.create(), topics.broker.bootstrap_servers
    topics.send(topic, [str(n) for n in range(10)])
    topics.delete_before(topic, {0: 4})
    with KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic) as member:
        wait_until(lambda: member.poll(100) or member.assignment(), 60, what="the assignment")
        ran = run(
            ["-c", SESSION + PROGRAM, bootstrap, topic, other, topic],
            environment(java, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT), **quick_start()),
            tmp_path,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lost = f"Offsets 0 to 3 of {topic}-0 are no longer available."
    of_tasks = [line for line in ran.stderr.splitlines() if lost in line]
    assert len(of_tasks) == 1, "the stream. The task of the batch logs to Spark's table"
    assert " WARNING thalweg.spark: [KAFKA_DATA_LOSS." in of_tasks[0]
    assert f"could not commit the offsets of the query to group '{topic}'" in ran.stderr
    assert f"{topic}-0: UnknownMemberIdError" in ran.stderr
    assert lost in ran.stdout
    assert "WARNING thalweg.spark" in ran.stdout


@contextmanager
def a_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """Lets this process be a worker of Spark, and yields the root logger, without handlers."""
    ours, root = logging.getLogger("thalweg"), logging.getLogger()
    before, of_root = list(ours.handlers), list(root.handlers)
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    root.handlers = []
    try:
        show_warnings()
        show_warnings()
        yield root
    finally:
        ours.handlers, root.handlers = before, of_root


def test_warnings_are_written_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_worker(monkeypatch):
        logging.getLogger("thalweg.spark").info("an information")
        logging.getLogger("thalweg.network").warning("a %s", "warning")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING thalweg.network: a warning")


def test_a_handler_of_the_application_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.handlers.BufferingHandler(10)
    with a_worker(monkeypatch) as root:
        root.addHandler(handler)
        logging.getLogger("thalweg.spark").warning("a warning")
    assert [each.getMessage() for each in handler.buffer] == ["a warning"]
    assert capsys.readouterr().err == ""


def test_the_process_of_the_user_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_PATH"):
        monkeypatch.delenv(name, raising=False)
    logger = logging.getLogger("thalweg")
    before = list(logger.handlers)
    show_warnings()
    assert logger.handlers == before
