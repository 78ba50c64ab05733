"""Real brokers killed (-9), stopped and started while records are sent with acks=all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.clients import Clients, read
from tests.integration.load import Load
from tests.integration.transactional_load import TransactionalLoad
from tests.support.kafka import RealKafka
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import TopicPartition

PARTITIONS = 4
BETWEEN = 500_000  # records between two kills, as in a full run: 2,000,000 in all
KILLS = scaled(3, minimum=1)
NODES_IN_TURN = (1, 2, 3)[: scaled(3, minimum=2)]


@pytest.mark.parametrize("version", ["4.3", "3.9"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_broker_killed_and_restarted_loses_and_doubles_nothing(
    start_kafka: Callable[..., RealKafka], clients: Clients, version: str, codec: str
) -> None:
    kafka = start_kafka(version)
    kafka.create_topic("t", PARTITIONS)
    producer = clients.producer(kafka, acks="all", compression_type=codec, linger_ms=2)
    more = scaled(BETWEEN)
    with Load(producer, "t", PARTITIONS) as load:
        load.wait_for(more)
        for _ in range(KILLS):
            kafka.kill(1)
            kafka.start_node(1)
            load.wait_for(more)
    load.check(clients.consumer(kafka))


def test_leaders_killed_in_turn_lose_and_double_nothing(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    """Scenario 1."""
    kafka = _three_nodes(start_kafka)
    producer = clients.producer(kafka, acks="all", linger_ms=2)
    more = scaled(BETWEEN)
    with Load(producer, "t", PARTITIONS) as load:
        load.wait_for(more)
        for node in NODES_IN_TURN:
            kafka.kill(node)
            load.wait_for(more)  # it goes on with two of three
            kafka.start_node(node)
            wait_until(lambda: _in_sync(clients, kafka), 60)
    load.check(clients.consumer(kafka))


def _three_nodes(start_kafka: Callable[..., RealKafka]) -> RealKafka:
    """A cluster that takes writes with two nodes of three, and its topic t."""
    kafka = start_kafka("4.3", nodes=3, configs={"min.insync.replicas": "2"})
    kafka.create_topic("t", PARTITIONS, replication_factor=3)
    return kafka


def _in_sync(clients: Clients, kafka: RealKafka) -> bool:
    with clients.admin(kafka) as admin:
        (topic,) = admin.describe_topics(["t"])
    return all(len(each["isr_nodes"]) == 3 for each in topic["partitions"])


def test_a_rolling_restart_is_not_seen_by_the_application(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    """Operators' way: each node hands its leaderships over first."""
    kafka = _three_nodes(start_kafka)
    producer = clients.producer(kafka, acks="all", linger_ms=2)
    consumer = clients.consumer(kafka, "t", range(PARTITIONS))
    more = scaled(BETWEEN)
    with Load(producer, "t", PARTITIONS) as load:
        for node in NODES_IN_TURN:
            kafka.stop_node(node)
            load.wait_for(more)
            kafka.start_node(node)
            assert read(consumer, more // 2)  # reading goes on too
            wait_until(lambda: _in_sync(clients, kafka), 60)
    load.check(clients.consumer(kafka))


def _coordinator_first(clients: Clients, kafka: RealKafka, transactional_id: str) -> list[int]:
    """All nodes, that of the transaction coordinator before the others."""
    with clients.admin(kafka) as admin:
        found = admin.describe_transactions([transactional_id])
    coordinator = found[transactional_id].coordinator_id
    return sorted((1, 2, 3), key=lambda node: node != coordinator)


def test_transactions_are_whole_whoever_is_killed(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    """Leaders and coordinators are killed in turn, within transactions."""
    kafka = _three_nodes(start_kafka)
    producer = clients.producer(kafka, transactional_id="killed", linger_ms=2)
    producer.init_transactions()
    more = scaled(BETWEEN)
    with TransactionalLoad(producer, "t", PARTITIONS) as load:
        load.wait_for(more)
        for node in _coordinator_first(clients, kafka, "killed")[: scaled(3)]:
            kafka.kill(node)
            load.wait_for(more)
            kafka.start_node(node)
            wait_until(lambda: _in_sync(clients, kafka), 60)
    load.check(clients.consumer(kafka, isolation_level="read_committed"))


def test_a_rolling_restart_costs_no_transaction(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    """Coordinators move; the application sees nothing of it."""
    kafka = _three_nodes(start_kafka)
    producer = clients.producer(kafka, transactional_id="rolled", linger_ms=2)
    producer.init_transactions()
    more = scaled(BETWEEN)
    with TransactionalLoad(producer, "t", PARTITIONS) as load:
        for node in _coordinator_first(clients, kafka, "rolled")[: scaled(3)]:
            kafka.stop_node(node)
            load.wait_for(more)
            kafka.start_node(node)
            wait_until(lambda: _in_sync(clients, kafka), 60)
    load.check(clients.consumer(kafka, isolation_level="read_committed"))
    assert load.failed == 0


def test_a_consumer_reads_on_where_it_was_when_its_broker_comes_back(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    kafka = start_kafka("4.3")
    kafka.create_topic("t")
    count = scaled(500_000)
    producer = clients.producer(kafka, linger_ms=5)
    producer.send_many("t", [b"%d" % number for number in range(count)]).get(60)
    consumer = clients.consumer(kafka, "t", max_partition_fetch_bytes=10_000)
    found = read(consumer, count // 3)
    kafka.kill(1)
    for _ in range(5):
        found += [each for batch in consumer.poll(200).values() for each in batch]
    kafka.start_node(1)
    found += read(consumer, count - len(found))
    assert [int(each.value) for each in found] == list(range(count))
    assert consumer.position(TopicPartition("t", 0)) == count
