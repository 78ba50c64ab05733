"""Nodes of a real cluster killed (-9) and restarted in turn while records are sent."""

from __future__ import annotations

from tests.integration.clients import Clients, read, within
from tests.integration.load import RECORDS, Load
from tests.integration.three_nodes import PARTITIONS, new_topic, wait_in_sync, wait_moved
from tests.support.kafka import RealKafka
from tests.support.scale import scaled
from tests.support.waiting import wait_until

NODES_IN_TURN = (1, 2, 3)[: scaled(3, minimum=2)]
SHARE = RECORDS // (len(NODES_IN_TURN) + 1)


def test_leaders_killed_in_turn_lose_and_double_nothing(
    cluster: RealKafka, clients: Clients
) -> None:
    """Scenario 1."""
    topic = new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2)
    with Load(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in NODES_IN_TURN:
            cluster.kill(node)
            load.wait_for(SHARE)  # it goes on with two of three
            cluster.start_node(node)
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster))


def test_a_rolling_restart_is_not_seen_by_the_application(
    cluster: RealKafka, clients: Clients
) -> None:
    """Operators' way: each node hands its leaderships over first."""
    topic = new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2)
    consumer = clients.consumer(cluster, topic, range(PARTITIONS))
    with Load(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in NODES_IN_TURN:
            cluster.stop_node(node)
            load.wait_for(SHARE)
            cluster.start_node(node)
            assert read(consumer, SHARE // 2)  # reading goes on too
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster))


def test_leaders_that_stand_still_in_turn_lose_and_double_nothing(
    cluster: RealKafka, clients: Clients
) -> None:
    """Scenario 12: a node's connections stay open, it answers late, and leads no more when it does.

    What it had in hand it still tries to write, while the producer has sent the same elsewhere.
    """
    topic = new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2, request_timeout_ms=3000)
    with Load(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in NODES_IN_TURN:
            with cluster.paused(node):
                wait_moved(cluster, topic, node)
                load.wait_for(SHARE)
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster))


def test_a_closer_replica_is_read_from_until_it_dies(cluster: RealKafka, clients: Clients) -> None:
    """KIP-392."""
    topic = new_topic(cluster)
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
    wait_in_sync(clients, cluster, topic)
    send()
    read(consumer, 100)
