"""Batch writes that are all or nothing, while commits fail.

The tests call what Spark calls in its workers, without Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext

from tests.spark.conftest import Topics
from tests.spark.exactly_once.conftest import committed
from tests.spark.exactly_once.test_zombies import Task
from tests.support.waiting import wait_until
from thalweg.errors import KafkaTimeoutError
from thalweg.spark.exactly_once import driver
from thalweg.spark.exactly_once.cluster import Cluster, cluster_of
from thalweg.spark.exactly_once.tasks import Report, write_batch_task
from thalweg.spark.options import SinkOptions, parse_sink
from thalweg.structs import PreparedTransaction

TASKS = 4


class Write:
    """A write of one row in each of some tasks."""

    def __init__(self, topics: Topics) -> None:
        self.topics, self.topic = topics, topics.create(1)
        self.options: SinkOptions = driver.for_one_write(
            parse_sink(
                {
                    "kafka.bootstrap.servers": topics.broker.bootstrap_servers,
                    "topic": self.topic,
                    "delivery.guarantee": "exactly-once",
                    "transactional.id.prefix": self.topic,
                }
            )
        )
        self.reports = [self.task(number) for number in range(TASKS)]

    def task(self, number: int) -> Report:
        """Runs a task, which writes its number."""
        rows = pa.RecordBatch.from_pydict({"value": [str(number)]})
        context = Task(partition=number, task_id=number)
        with mock.patch.object(TaskContext, "get", return_value=context):
            return write_batch_task(self.options, iter([rows]))

    def sees(self, *values: str) -> None:
        wait_until(
            lambda: sorted(committed(self.topics.broker, self.topic)) == sorted(values),
            60,
            what=lambda: f"{values}: {committed(self.topics.broker, self.topic)}",
        )


@pytest.fixture
def write(both: Topics) -> Write:
    return Write(both)


@contextmanager
def commits_that_time_out(which: Any) -> Iterator[None]:
    """Makes the commit of some tasks fail: `which` gets the number of a commit, from 0."""
    original, count = Cluster._end, iter(range(1_000))

    def end(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> Any:
        if commit and which(next(count)):
            raise KafkaTimeoutError("no response")
        return original(cluster, prepared, commit=commit)

    with mock.patch.object(Cluster, "_end", end):
        yield


def test_a_commit_that_times_out_is_repeated(write: Write) -> None:
    with commits_that_time_out(lambda number: number == 2):
        driver.commit_write(write.options, write.reports)
    write.sees("0", "1", "2", "3")


def test_a_write_of_which_a_part_is_committed_is_completed(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        commits_that_time_out(lambda number: number > 1),
        pytest.raises(RuntimeError, match="The rows of some tasks may be visible"),
    ):
        driver.commit_write(write.options, write.reports)
    with caplog.at_level(logging.WARNING):
        driver.abort_write(write.options, [*write.reports, None])  # Spark calls it after a failure
    assert "all of its rows are visible. Do not repeat it" in caplog.text
    write.sees("0", "1", "2", "3")


def test_a_write_of_which_nothing_is_committed_is_aborted(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    with commits_that_time_out(lambda number: True), pytest.raises(RuntimeError):
        driver.commit_write(write.options, write.reports)
    driver.abort_write(write.options, write.reports)
    assert "visible" not in caplog.text
    write.sees()
    with cluster_of(write.options) as cluster:
        assert cluster.open_attempts() == []


def test_what_should_be_committed_stays_open_and_the_rest_is_aborted(write: Write) -> None:
    write.task(TASKS)  # its report did not reach the driver
    with commits_that_time_out(lambda number: number > 0):
        with pytest.raises(RuntimeError, match="may be visible"):
            driver.commit_write(write.options, write.reports)
        with pytest.raises(KafkaTimeoutError):
            driver.abort_write(write.options, write.reports)
    with cluster_of(write.options) as cluster:
        assert len(cluster.open_attempts()) == TASKS - 1
    driver.abort_write(write.options, write.reports)
    write.sees("0", "1", "2", "3")


def test_a_lost_transaction_of_a_committed_write_leaves_no_other_one_open(write: Write) -> None:
    write.task(TASKS)
    with commits_that_time_out(lambda number: number > 0), pytest.raises(RuntimeError):
        driver.commit_write(write.options, write.reports)
    with cluster_of(write.options) as cluster:
        lost = next(each for each in cluster.open_attempts() if each.transactional_id[-2:] == "-3")
        cluster.end_all([lost], commit=False)  # as the coordinator does after the timeout
    with pytest.raises(RuntimeError, match="the rows of these tasks are lost"):
        driver.abort_write(write.options, write.reports)
    with cluster_of(write.options) as cluster:
        assert cluster.open_attempts() == []
    write.sees("0", "1", "2")
