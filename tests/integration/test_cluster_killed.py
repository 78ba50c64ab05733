"""Nodes of a real cluster killed (-9) and restarted in turn while records are sent with acks=all.

The cluster is the file's; every test leaves its three nodes running and in sync.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.integration.clients import Clients, read, within
from tests.integration.load import Load
from tests.integration.transactional_load import TransactionalLoad
from tests.support.kafka import RealKafka
from tests.support.scale import scaled
from tests.support.waiting import wait_until

PARTITIONS = 4
BETWEEN = 500_000  # records between two kills, as in a full run: 2,000,000 in all
NODES_IN_TURN = (1, 2, 3)[: scaled(3, minimum=2)]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def _nodes() -> Iterator[RealKafka]:
    """Three nodes; writes are taken while two of them are in sync."""
    configs = {
        "min.insync.replicas": "2",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with RealKafka("4.3", nodes=3, configs=configs) as kafka:
        yield kafka


@pytest.fixture
def cluster(_nodes: RealKafka) -> RealKafka:
    """The cluster, whole: what a failed test left killed is started again."""
    for node in _nodes.nodes:
        if not node.running:
            _nodes.start_node(node.node_id)
    return _nodes


def _new_topic(cluster: RealKafka) -> str:
    topic = f"t-{next(_numbers)}"
    cluster.create_topic(topic, PARTITIONS, replication_factor=3)
    return topic


def _in_sync(clients: Clients, cluster: RealKafka, topic: str) -> bool:
    with clients.admin(cluster) as admin:
        (found,) = admin.describe_topics([topic])
    return all(len(each["isr_nodes"]) == 3 for each in found["partitions"])


def test_leaders_killed_in_turn_lose_and_double_nothing(
    cluster: RealKafka, clients: Clients
) -> None:
    """Scenario 1."""
    topic = _new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2)
    more = scaled(BETWEEN)
    with Load(producer, topic, PARTITIONS) as load:
        load.wait_for(more)
        for node in NODES_IN_TURN:
            cluster.kill(node)
            load.wait_for(more)  # it goes on with two of three
            cluster.start_node(node)
            wait_until(lambda: _in_sync(clients, cluster, topic), 60)
    load.check(clients.consumer(cluster))


def test_a_rolling_restart_is_not_seen_by_the_application(
    cluster: RealKafka, clients: Clients
) -> None:
    """Operators' way: each node hands its leaderships over first."""
    topic = _new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2)
    consumer = clients.consumer(cluster, topic, range(PARTITIONS))
    more = scaled(BETWEEN)
    with Load(producer, topic, PARTITIONS) as load:
        for node in NODES_IN_TURN:
            cluster.stop_node(node)
            load.wait_for(more)
            cluster.start_node(node)
            assert read(consumer, more // 2)  # reading goes on too
            wait_until(lambda: _in_sync(clients, cluster, topic), 60)
    load.check(clients.consumer(cluster))


def test_a_closer_replica_is_read_from_until_it_dies(cluster: RealKafka, clients: Clients) -> None:
    """KIP-392."""
    topic = _new_topic(cluster)
    with clients.admin(cluster) as admin:
        (found,) = admin.describe_topics([topic])
    leader = found["partitions"][0]["leader_id"]
    near = next(node for node in (1, 2, 3) if node != leader)
    producer = clients.producer(cluster, acks="all")
    consumer = clients.consumer(cluster, topic, (0,), client_rack=f"rack-{near}")

    def send() -> None:
        producer.send_many(topic, [b"v"] * 100, partition=0).get(60)

    def replica() -> float:
        return consumer.metrics()[f"consumer-fetch-manager-metrics.{topic}-0"][
            "preferred-read-replica"
        ]

    def asked() -> float:
        return consumer.metrics()[f"consumer-node-metrics.node-{near}"]["request-total"]

    send()
    read(consumer, 100)
    wait_until(lambda: not consumer.poll(20) and replica() == near)
    before = asked()
    send()
    read(consumer, 100)
    assert asked() > before
    assert replica() == near
    cluster.kill(near)
    send()
    with within(5):
        read(consumer, 100)
    assert replica() == -1
    cluster.start_node(near)
    wait_until(lambda: _in_sync(clients, cluster, topic), 60)
    send()
    read(consumer, 100)


def _coordinator_first(clients: Clients, cluster: RealKafka, transactional_id: str) -> list[int]:
    """All nodes, that of the transaction coordinator before the others."""
    with clients.admin(cluster) as admin:
        found = admin.describe_transactions([transactional_id])
    coordinator = found[transactional_id].coordinator_id
    return sorted((1, 2, 3), key=lambda node: node != coordinator)


def test_transactions_are_whole_whoever_is_killed(cluster: RealKafka, clients: Clients) -> None:
    """Leaders and coordinators are killed in turn, within transactions."""
    topic = _new_topic(cluster)
    producer = clients.producer(cluster, transactional_id="killed", linger_ms=2)
    producer.init_transactions()
    more = scaled(BETWEEN)
    with TransactionalLoad(producer, topic, PARTITIONS) as load:
        load.wait_for(more)
        for node in _coordinator_first(clients, cluster, "killed")[: scaled(3)]:
            cluster.kill(node)
            load.wait_for(more)
            cluster.start_node(node)
            wait_until(lambda: _in_sync(clients, cluster, topic), 60)
    load.check(clients.consumer(cluster, isolation_level="read_committed"))


def test_a_rolling_restart_costs_no_transaction(cluster: RealKafka, clients: Clients) -> None:
    """Coordinators move; the application sees nothing of it."""
    topic = _new_topic(cluster)
    producer = clients.producer(cluster, transactional_id="rolled", linger_ms=2)
    producer.init_transactions()
    more = scaled(BETWEEN)
    with TransactionalLoad(producer, topic, PARTITIONS) as load:
        for node in _coordinator_first(clients, cluster, "rolled")[: scaled(3)]:
            cluster.stop_node(node)
            load.wait_for(more)
            cluster.start_node(node)
            wait_until(lambda: _in_sync(clients, cluster, topic), 60)
    load.check(clients.consumer(cluster, isolation_level="read_committed"))
    assert load.failed == 0
