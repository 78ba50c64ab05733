"""The exactly-once sink: streams and batch writes, killed at every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics
from tests.spark.exactly_once.conftest import Copy
from tests.spark.exactly_once.killing import STEPS, KillingDataSource
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, PreparedTransaction, TopicPartition
from thalweg.spark.exactly_once.cluster import Cluster
from thalweg.spark.exactly_once.decisions import Attempt, Decision
from thalweg.structs import OffsetAndMetadata


@pytest.fixture
def admin(both: Topics) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=both.broker.bootstrap_servers) as made:
        yield made


def open_transactions(admin: KafkaAdminClient, prefix: str) -> list[str]:
    """Returns the transactional IDs of the open transactions of a sink."""
    listed = admin.list_transactions(state_filters=["Ongoing"]).values()
    names = (row.transactional_id for rows in listed for row in rows)
    return [name for name in names if name.startswith(f"{prefix}-")]


@pytest.mark.timeout(900)  # twenty queries, which take minutes on a busy machine
def test_a_stream_killed_at_every_step_writes_each_row_once(copy: Copy, tmp_path: Path) -> None:
    copy.source.spark.dataSource.register(KillingDataSource)
    expected: list[str] = []
    for number, step in enumerate(STEPS):
        new = [f"{number}-{each:02}" for each in range(10)]
        copy.topics.send(copy.origin, new)
        expected += new
        marker = tmp_path / step
        with pytest.raises(StreamingQueryException):
            copy.run("thalweg-killing", step=step, marker=str(marker))
        assert marker.exists(), f"the step {step!r} was not reached"
        copy.run()
        copy.sees(*expected)
    assert set(copy.seen("read_uncommitted")) == set(expected)


def test_a_batch_write_is_all_or_nothing(source: Source, both: Topics, admin: Any) -> None:
    topic = both.create(3)
    options = {
        "topic": topic,
        "delivery.guarantee": "exactly-once",
        "transactional.id.prefix": topic,
    }
    rows = source.spark.range(300).select(f.col("id").cast("string").alias("value"))
    source.write(rows, both, **options)
    level = {"kafka.isolation.level": "read_committed"}
    expected = sorted(str(each) for each in range(300))
    # A coordinator acknowledges the end of a transaction before readers see it.
    wait_until(lambda: source.values(both, subscribe=topic, **level) == expected, 60)
    broken = rows.select(
        f.when(f.col("value") == "299", f.raise_error(f.lit("broken")))
        .otherwise(f.col("value"))
        .alias("value")
    )
    with pytest.raises(PySparkException):
        source.write(broken, both, **options)
    assert source.values(both, subscribe=topic, **level) == expected
    assert open_transactions(admin, topic) == [], "nothing of it keeps readers waiting"


def test_an_old_driver_cannot_decide_any_more(copy: Copy) -> None:
    config = {"bootstrap.servers": copy.topics.broker.bootstrap_servers}
    decision = Decision("query", 7, (Attempt(0, 0, 1, 2),))
    with Cluster(config, copy.target, copy.target) as cluster:
        assert cluster.decision() is None
        old = cluster.become_driver(60_000)
        new = cluster.become_driver(60_000)
        with pytest.raises(Exception, match=r"epoch|fenced|newer"):
            cluster.decide(old, decision)
        assert cluster.decision() is None
        cluster.decide(new, decision)
        assert cluster.decision() == decision


def test_a_batch_that_fails_keeps_no_reader_waiting(copy: Copy, admin: Any) -> None:
    copy.topics.send(copy.origin, ["a", "b"])
    copy.run()
    copy.topics.send(copy.origin, [f"{each}" for each in range(10)])
    with pytest.raises(StreamingQueryException):
        copy.run(broken=True)
    # The attempts of the failed batch have the names of those of the decision.
    assert open_transactions(admin, copy.target) == []
    copy.run()
    copy.sees("a", "b", *(f"{each}" for each in range(10)))


def test_a_decision_with_many_tasks_has_several_pieces(copy: Copy) -> None:
    config = {"bootstrap.servers": copy.topics.broker.bootstrap_servers}
    many = tuple(Attempt(each, each % 3, each * 7919, each % 11) for each in range(3_000))
    with Cluster(config, copy.target, copy.target) as cluster:
        for attempts in (many, many[:5], ()):
            decision = Decision("query", len(attempts), attempts)
            cluster.decide(cluster.become_driver(60_000), decision)
            assert cluster.decision() == decision


def test_the_prefix_belongs_to_one_query_and_its_checkpoint(copy: Copy, tmp_path: Path) -> None:
    copy.topics.send(copy.origin, ["a", "b"])
    copy.run()
    with pytest.raises(StreamingQueryException, match="belongs to the query"):
        copy.run(checkpoint=tmp_path / "another")
    copy.sees("a", "b")


def test_an_offset_of_something_else_is_not_a_decision(copy: Copy, admin: Any) -> None:
    where = TopicPartition(copy.target, 0)
    admin.alter_group_offsets(copy.target, {where: OffsetAndMetadata(7, "not ours")})
    copy.topics.send(copy.origin, ["a"])
    with pytest.raises(StreamingQueryException, match="is not a decision"):
        copy.run()


def test_a_query_whose_decision_topic_has_changed_fails(copy: Copy, admin: Any) -> None:
    config = {"bootstrap.servers": copy.topics.broker.bootstrap_servers}
    # An offset of something else is not a decision.
    admin.alter_group_offsets(copy.target, {TopicPartition(copy.origin, 1): OffsetAndMetadata(7)})
    copy.topics.send(copy.origin, ["a"])
    copy.run()
    earlier = f"topic '{copy.target}', .* under '{copy.origin}'.*decisionTopic='{copy.target}'"
    with Cluster(config, copy.target, copy.origin) as cluster:
        cluster.become_driver(60_000)  # waits until that transaction has ended
        with pytest.raises(ValueError, match=earlier):
            cluster.decision()
    copy.topics.send(copy.origin, ["b"])
    copy.options["delivery.decisionTopic"] = copy.origin
    with pytest.raises(StreamingQueryException, match="a new checkpoint and a new prefix"):
        copy.run()
    copy.options["delivery.decisionTopic"] = copy.target
    copy.run()
    copy.sees("a", "b")


def test_a_lost_decided_transaction_fails_the_query(copy: Copy, admin: Any, tmp_path: Path) -> None:
    copy.source.spark.dataSource.register(KillingDataSource)
    copy.topics.send(copy.origin, ["a", "b"])
    marker = str(tmp_path / "marker")
    with pytest.raises(StreamingQueryException):
        copy.run("thalweg-killing", step="after decide", marker=marker)
    open_now = open_transactions(admin, copy.target)
    assert open_now
    for name, row in admin.describe_transactions(open_now).items():
        # As the coordinator does after the timeout.
        lost = PreparedTransaction(name, row.producer_id, row.producer_epoch)
        admin.end_transaction(lost, commit=False)
    with pytest.raises(StreamingQueryException, match="the rows of these tasks are lost"):
        copy.run()
    copy.options["delivery.lostTransactions"] = "skip"
    copy.run()
    copy.topics.send(copy.origin, ["c"])
    copy.run()
    copy.sees("c")


def test_open_transactions_of_a_dead_driver_are_swept(copy: Copy, tmp_path: Path) -> None:
    copy.source.spark.dataSource.register(KillingDataSource)
    copy.topics.send(copy.origin, ["a"])
    with pytest.raises(StreamingQueryException):
        copy.run("thalweg-killing", step="before check", marker=str(tmp_path / "marker"))
    copy.run()
    copy.sees("a")
