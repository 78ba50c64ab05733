"""Two things at the same time: two streams in one driver, a restart while leaders move."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.spark.conftest import Source, Topics
from tests.spark.exactly_once.conftest import AT_ONCE, Copy, committed
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from tests.support.spark_queries import begun
from tests.support.waiting import wait_until
from tests.support.wire import Wire
from thalweg import KafkaAdminClient, KafkaProducer, TopicPartition

NODES = [1, 2, 3]


def _knows(wire: Wire, topic: str) -> bool:
    return bool(wire.metadata(topic).topics.get(topic))


@pytest.fixture(scope="module")
def kafka_nodes() -> Iterator[RealKafka]:
    with RealKafka("4.3", nodes=len(NODES), heap="512m") as kafka:
        yield kafka


def test_two_streams_in_one_driver_write_to_the_same_topic(
    source: Source, both: Topics, tmp_path: Path
) -> None:
    copies = [Copy(source, both, tmp_path / str(each)) for each in range(2)]
    copies[1].options["topic"] = copies[0].target  # its prefix remains its own
    queries = [begun(partial(each.start, trigger=AT_ONCE)) for each in copies]
    sent: list[str] = []
    try:
        for number in range(4):
            for which, each in enumerate(copies):
                values = [f"{which}-{number}-{row}" for row in range(8)]
                both.send(each.origin, values)
                sent += values
            time.sleep(0.5)  # so that batches of both run at the same time
        wait_until(
            lambda: (
                len(committed(both.broker, copies[0].target)) >= len(sent)
                or not all(query.isActive for query in queries)
            ),
            120,
            what=lambda: f"{committed(both.broker, copies[0].target)}",
        )
        assert [query.exception() for query in queries] == [None, None]
    finally:
        for query in queries:
            query.stop()
    assert sorted(committed(both.broker, copies[0].target)) == sorted(sent)


def test_a_query_restarts_while_partitions_move_to_other_brokers(
    source: Source, kafka_nodes: RealKafka, tmp_path: Path
) -> None:
    broker = Broker("kafka-4.3", kafka_nodes.bootstrap_servers)
    copy = Copy(source, Topics(broker), tmp_path / "checkpoint")
    # Another node may learn of a new topic later than the one that has created it.
    for node in kafka_nodes.nodes:
        wire = Wire(f"{kafka_nodes.host}:{node.ports['PLAINTEXT']}")
        for topic in (copy.origin, copy.target):
            wait_until(partial(_knows, wire, topic), 60, what=f"{topic} in node {node.node_id}")
    rows = [f"{each:04}" for each in range(60)]
    with (
        KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        for step in range(3):
            moves = {
                TopicPartition(topic, partition): [NODES[(partition + step) % len(NODES)]]
                for topic, count in ((copy.origin, 2), (copy.target, 3))
                for partition in range(count)
            }
            admin.alter_partition_reassignments(moves)
            for row in rows[step * 20 : (step + 1) * 20]:
                producer.send(copy.origin, row.encode(), partition=int(row) % 2)
            query = begun(lambda: copy.start(trigger=AT_ONCE))  # the leaders move now
            assert query.exception() is None
            query.stop()
        producer.flush(120)
    copy.run()
    wait_until(lambda: len(committed(broker, copy.target)) >= len(rows), 60)
    assert sorted(committed(broker, copy.target)) == rows
