"""Tasks and drivers that are late: others have taken over, and have decided.

The tests call what Spark calls in its workers, without Spark.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext

from tests.spark.conftest import Topics
from tests.spark.exactly_once.conftest import committed
from tests.support.waiting import wait_until
from thalweg.errors import (
    InvalidTransactionTimeoutError,
    KafkaTimeoutError,
    TransactionalIdAuthorizationFailedError,
)
from thalweg.spark.exactly_once import driver, tasks
from thalweg.spark.exactly_once.cluster import Cluster, cluster_of, delivery_of
from thalweg.spark.exactly_once.decisions import Driver, Plan, attempt_number
from thalweg.spark.exactly_once.tasks import Report
from thalweg.spark.options import SinkOptions, parse_sink
from thalweg.structs import PreparedTransaction

QUERY, ANOTHER = "7d3a1c2e-0000", "9a7e4a5b-0000"


@dataclass
class Task:
    """Spark's context of a task of a stream."""

    batch: int = 0
    query: str = QUERY
    partition: int = 0
    attempt: int = 0
    task_id: int = 0

    def partitionId(self) -> int:
        return self.partition

    def attemptNumber(self) -> int:
        return self.attempt

    def taskAttemptId(self) -> int:
        return self.task_id

    def getLocalProperty(self, name: str) -> str:
        return str(self.batch) if name.endswith("batchId") else self.query


@dataclass
class Sink:
    """The exactly-once sink of a topic with one partition."""

    topics: Topics
    topic: str
    options: SinkOptions

    def write(self, plan: Plan, value: str, batch: int = 0, **context: Any) -> Report:
        """Runs a task."""
        rows = pa.RecordBatch.from_pydict({"value": [value]})
        with mock.patch.object(TaskContext, "get", return_value=Task(batch, **context)):
            return tasks.write_stream_task(self.options, plan, iter([rows]))

    def is_late(self, plan: Plan, **context: Any) -> None:
        """Runs a late task. It stops at once, or after it was about to start its producer."""
        with pytest.raises(RuntimeError, match="This task is late, and sends nothing"):
            self.write(plan, "late", **context)
        with mock.patch.object(tasks, "_check_driver"):
            self.write(plan, "late", **context)

    def plan(self) -> Plan:
        return driver.plan(self.options)

    def commit(self, *reports: Report, batch: int = 0) -> None:
        driver.commit_batch(self.options, reports, batch)

    def seen(self) -> list[str]:
        """Returns what a reader sees before the first open transaction."""
        return committed(self.topics.broker, self.topic)

    def sees(self, *values: str) -> None:
        """Checks what a reader sees. A coordinator acknowledges the end before readers see it."""
        wait_until(lambda: self.seen() == list(values), 60, what=lambda: f"{values}: {self.seen()}")


@pytest.fixture
def sink(both: Topics) -> Sink:
    topic = both.create(1)
    options = {
        "kafka.bootstrap.servers": both.broker.bootstrap_servers,
        "topic": topic,
        "delivery.guarantee": "exactly-once",
        "transactional.id.prefix": topic,
    }
    return Sink(both, topic, parse_sink(options))


def between_decision_and_end(call: Any) -> Any:
    """Calls a function after a decision, before its transactions are committed."""

    def end_all(*given: Any) -> None:
        call()
        original(*given)

    original = driver.end_all
    return mock.patch.object(driver, "end_all", end_all)


@pytest.mark.parametrize("older_plans", [1, 2, 5])
def test_a_late_task_of_an_older_plan_aborts_no_decided_transaction(
    sink: Sink, older_plans: int
) -> None:
    old = [sink.plan() for _ in range(older_plans)]
    report = sink.write(sink.plan(), "new")

    def late() -> None:
        for each in old:
            sink.is_late(each)

    with between_decision_and_end(late):
        sink.commit(report)
    sink.sees("new")


def test_a_late_task_of_the_first_try_of_a_stage_aborts_no_decided_transaction(
    sink: Sink,
) -> None:
    plan = sink.plan()
    report = sink.write(plan, "repeated", task_id=7)
    with between_decision_and_end(lambda: sink.is_late(plan, task_id=5)):
        sink.commit(report)
    sink.sees("repeated")


def test_attempts_that_may_run_at_the_same_time_have_different_numbers() -> None:
    same_stage = {attempt_number(Driver(1, 3), each, 0) for each in range(4)}
    same_task_again = {attempt_number(Driver(1, 3), 0, each) for each in (8, 9, 10, 11)}
    plans = {attempt_number(Driver(1, each), 0, 0) for each in range(32_760, 32_767)}
    after_the_last_epoch = {attempt_number(Driver(2, each), 0, 0) for each in range(3)}
    assert len(same_stage) == len(same_task_again) == 4
    assert len(plans | after_the_last_epoch) == 10
    few = {attempt_number(Driver(1, e), 0, t) for e in range(100) for t in range(100)}
    assert len(few) == 64, "brokers remember each transactional ID for days"


def test_an_old_driver_cannot_commit_and_does_not_abort_the_new_ones_transactions(
    sink: Sink,
) -> None:
    old = sink.write(sink.plan(), "old")
    new = sink.write(sink.plan(), "new")
    with pytest.raises(RuntimeError, match="another run or another query has started"):
        sink.commit(old)
    sink.commit(new)
    sink.sees("new")


def test_a_driver_that_is_late_after_its_decision_sweeps_nothing_of_the_next_batch(
    sink: Sink,
) -> None:
    first = sink.write(sink.plan(), "first")
    reports: list[Report] = []
    original = Cluster.open_attempts

    def late(cluster: Cluster) -> Any:
        # Meanwhile another driver has continued with the next batch.
        if not reports:
            reports.append(Report("", Driver(-1, -1)))
            plan = sink.plan()
            assert plan.last is not None
            assert plan.last.batch == 0
            reports[0] = sink.write(plan, "second", batch=1)
        return original(cluster)

    with mock.patch.object(Cluster, "open_attempts", late):
        sink.commit(first)
    sink.commit(*reports, batch=1)
    sink.sees("first", "second")


def test_the_abort_of_an_old_driver_keeps_what_the_new_one_has_decided(sink: Sink) -> None:
    old = sink.write(sink.plan(), "old")
    new = sink.write(sink.plan(), "new")
    with between_decision_and_end(lambda: driver.abort_batch(sink.options, [old])):
        sink.commit(new)
    sink.sees("new")


def test_the_abort_of_an_old_run_does_not_stop_the_batch_of_the_new_run(sink: Sink) -> None:
    old = sink.write(sink.plan(), "old")
    new = sink.write(sink.plan(), "new")
    with pytest.raises(RuntimeError, match="another run or another query has started"):
        sink.commit(old)
    driver.abort_batch(sink.options, [old])  # Spark calls it after a failed commit
    driver.abort_batch(sink.options, [None])  # no task has reported
    sink.commit(new)
    sink.sees("new")


def test_an_abort_ends_transactions_that_begin_while_spark_stops_the_tasks(sink: Sink) -> None:
    plan = sink.plan()
    report = sink.write(plan, "early")
    original, late = Cluster.end_all, list[Report]()

    def end_all(cluster: Cluster, *given: Any, **named: Any) -> Any:
        ended = original(cluster, *given, **named)
        if not late:
            # A task that had looked whether it is late just before the driver aborted.
            with mock.patch.object(tasks, "_check_driver"):
                late.append(sink.write(plan, "late", partition=1))
        return ended

    with mock.patch.object(Cluster, "end_all", end_all):
        driver.abort_batch(sink.options, [report, None])
    assert late
    with cluster_of(sink.options) as cluster:
        assert cluster.open_attempts() == []
    assert sink.seen() == []


def test_after_an_abort_older_plans_cannot_be_decided(sink: Sink) -> None:
    report = sink.write(sink.plan(), "aborted")
    driver.abort_batch(sink.options, [report])
    with pytest.raises(RuntimeError, match="another run or another query has started"):
        sink.commit(report)
    plan = sink.plan()
    other = sink.write(plan, "left", partition=1)
    again = sink.write(plan, "again", attempt=1)
    driver.abort_batch(sink.options, [other, again])
    with (
        mock.patch.object(driver, "check"),  # as if it had come before
        pytest.raises(RuntimeError, match="another run or another query has started"),
    ):
        sink.commit(other, again)
    assert sink.seen() == []


def test_a_missing_permission_does_not_count_as_a_lost_transaction(sink: Sink) -> None:
    report = sink.write(sink.plan(), "row")
    original = Cluster._end

    def refused(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> Any:
        if prepared.transactional_id.endswith("-driver"):
            return original(cluster, prepared, commit=commit)
        raise TransactionalIdAuthorizationFailedError("WRITE is missing")

    delivery = replace(sink.options.exactly_once, skips_lost=True)  # type: ignore[type-var]
    sink.options = replace(sink.options, exactly_once=delivery)
    with (
        mock.patch.object(Cluster, "_end", refused),
        pytest.raises(TransactionalIdAuthorizationFailedError),
    ):
        sink.commit(report)
    # An administrator has granted the permission, and the query has restarted.
    sink.commit(sink.write(sink.plan(), "row"))
    sink.sees("row")


def test_a_repeated_batch_ends_what_was_decided_and_sweeps_the_rest(sink: Sink) -> None:
    plan = sink.plan()
    report = sink.write(plan, "decided")
    sink.write(plan, "speculative", attempt=1)

    def dies() -> None:
        raise KeyboardInterrupt

    with between_decision_and_end(dies), pytest.raises(KeyboardInterrupt):
        sink.commit(report)
    assert sink.seen() == []
    repeated = sink.write(sink.plan(), "never sent")
    assert repeated.is_repeated
    sink.commit(repeated)
    sink.sees("decided")
    # A reader does not wait for the speculative attempt.
    sink.commit(sink.write(sink.plan(), "next", batch=1), batch=1)
    sink.sees("decided", "next")


def test_a_repeated_batch_fails_if_another_driver_has_continued(sink: Sink) -> None:
    sink.commit(sink.write(sink.plan(), "first"))
    repeated = sink.write(sink.plan(), "first")
    assert repeated.is_repeated
    sink.commit(sink.write(sink.plan(), "second", batch=1), batch=1)
    with pytest.raises(RuntimeError, match="cannot commit its batch"):
        sink.commit(repeated)
    sink.sees("first", "second")


def test_two_queries_with_one_prefix_do_not_both_commit(sink: Sink) -> None:
    one = sink.write(sink.plan(), "one")
    other = sink.write(sink.plan(), "other", query=ANOTHER)
    sink.commit(other)
    with pytest.raises(RuntimeError, match=rf"transactional.id.prefix='{sink.topic}'"):
        sink.commit(one)
    with pytest.raises(RuntimeError, match=f"belongs to the query {ANOTHER}"):
        sink.write(sink.plan(), "one")
    sink.sees("other")


def test_a_batch_without_rows_changes_nothing(sink: Sink) -> None:
    sink.commit(sink.write(sink.plan(), "first"))
    plan = sink.plan()
    with mock.patch.object(driver, "cluster_of", side_effect=AssertionError("a request")):
        sink.commit(Report(QUERY, plan.driver), Report(QUERY, plan.driver), batch=1)
    assert sink.plan().last == plan.last


def test_a_commit_does_not_fail_if_the_sweep_after_it_fails(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    report = sink.write(sink.plan(), "committed")
    with mock.patch.object(Cluster, "open_attempts", side_effect=KafkaTimeoutError("no broker")):
        sink.commit(report)
    sink.sees("committed")
    assert "The batch is committed" in caplog.text


def test_a_timeout_that_the_brokers_do_not_allow_names_the_option(sink: Sink) -> None:
    long = replace(delivery_of(sink.options), timeout_ms=10**9)
    with pytest.raises(InvalidTransactionTimeoutError, match=r"kafka.transaction.timeout.ms=10{9}"):
        driver.plan(replace(sink.options, exactly_once=long))


@pytest.mark.parametrize("ahead_s", [0, 860, 1_200])
def test_the_clock_of_the_driver_may_be_wrong(sink: Sink, ahead_s: int) -> None:
    """The timeout is 900 s. Only 860 s leave too little of it by the driver's clock."""
    report = sink.write(sink.plan(), "row")
    clock = SimpleNamespace(time=lambda: time.time() + ahead_s, sleep=time.sleep)
    with mock.patch("thalweg.spark.exactly_once.driver.time", clock):
        if ahead_s == 860:
            with pytest.raises(RuntimeError, match="is about to expire"):
                sink.commit(report)
        else:
            sink.commit(report)
            sink.sees("row")


def test_a_decided_batch_that_has_no_tasks_when_it_is_repeated_is_committed(sink: Sink) -> None:
    report = sink.write(sink.plan(), "a", batch=0)
    with (
        mock.patch.object(driver, "end_all", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        sink.commit(report, batch=0)  # the driver dies after the decision
    sink.plan()
    sink.commit(batch=0)
    sink.sees("a")
    sink.commit(batch=1)  # it was never decided
    sink.commit(sink.write(sink.plan(), "b", batch=2), batch=2)
    sink.sees("a", "b")
