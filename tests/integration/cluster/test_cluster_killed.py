"""Nodes of a real cluster are killed (-9) and restarted in turn while records are sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.cluster.three_nodes import PARTITIONS, new_topic, wait_in_sync, wait_moved
from tests.integration.support.clients import Clients, read, within
from tests.integration.support.load import RECORDS, Load
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from tests.support.wire import Wire
from thalweg import TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer

NODES_IN_TURN = (1, 2, 3)
SHARE = RECORDS // (len(NODES_IN_TURN) + 1)

# Nodes start one after another. The mark overrides the option of a full run, which sends more.
pytestmark = pytest.mark.timeout(600 + RECORDS // 300)


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
            load.wait_for(SHARE)  # the load continues with two of three nodes
            cluster.start_node(node)
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster))


class AsyncLoad:
    """Sends numbered records with an AIOKafkaProducer while an AIOKafkaConsumer reads them."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._stopping = False
        self.futures: list[Any] = []
        self.read: dict[int, list[int]] = {each: [] for each in range(PARTITIONS)}

    async def send(self, producer: AIOKafkaProducer[Any, Any]) -> None:
        while not self._stopping:
            number = len(self.futures)
            sent = producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
            self.futures.append(await sent)
            if number % 10 == 0:
                await asyncio.sleep(0.01)
        await producer.flush()

    async def receive(self, consumer: AIOKafkaConsumer[Any, Any]) -> None:
        consumer.assign([TopicPartition(self._topic, each) for each in range(PARTITIONS)])
        while not self._stopping or sum(map(len, self.read.values())) < len(self.futures):
            for where, records in (await consumer.getmany(timeout_ms=200)).items():
                self.read[where.partition] += [int(each.value) for each in records]

    async def goes_on(self, count: int) -> None:
        """Waits until `count` more records are acknowledged and read."""
        wanted = len(self.futures) + count
        while sum(map(len, self.read.values())) < wanted or not self.futures[wanted - 1].done():
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        self._stopping = True


def test_asyncio_clients_lose_and_double_nothing_and_keep_the_order(
    cluster: RealKafka, clients: Clients
) -> None:
    """Scenario 1, for AIOKafkaProducer and AIOKafkaConsumer."""
    topic = new_topic(cluster)
    load = AsyncLoad(topic)
    servers = cluster.bootstrap_servers

    async def kill_in_turn() -> None:
        await load.goes_on(1000)
        for node in NODES_IN_TURN:
            await asyncio.to_thread(cluster.kill, node)
            await load.goes_on(1000)
            await asyncio.to_thread(cluster.start_node, node)
            await asyncio.to_thread(wait_in_sync, clients, cluster, topic)
        load.stop()

    async def program() -> None:
        async with (
            asyncio.timeout(480),
            AIOKafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=2) as producer,
            AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(load.send(producer))
            tasks.create_task(load.receive(consumer))
            tasks.create_task(kill_in_turn())

    asyncio.run(program())
    for partition in range(PARTITIONS):
        numbers = list(range(partition, len(load.futures), PARTITIONS))
        assert load.read[partition] == numbers
        offsets = [load.futures[number].result().offset for number in numbers]
        # -1: the batch was written, but its response was lost and the broker forgot the offset.
        assert all(offset in (at, -1) for at, offset in enumerate(offsets))
    ends = Wire(servers).end_offsets(topic)
    assert ends == {partition: len(found) for partition, found in load.read.items()}


def test_a_rolling_restart_is_not_seen_by_the_application(
    cluster: RealKafka, clients: Clients
) -> None:
    """The usual procedure of operators: each node hands over its leaderships first."""
    topic = new_topic(cluster)
    producer = clients.producer(cluster, acks="all", linger_ms=2)
    consumer = clients.consumer(cluster, topic, range(PARTITIONS))
    with Load(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in NODES_IN_TURN:
            cluster.stop_node(node)
            load.wait_for(SHARE)
            cluster.start_node(node)
            assert read(consumer, SHARE // 2)  # the consumer continues to read, too
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster))


def test_leaders_that_stand_still_in_turn_lose_and_double_nothing(
    cluster: RealKafka, clients: Clients
) -> None:
    """Scenario 12: a paused node keeps its connections and responds late, when it no longer leads.

    It still tries to write the requests it holds, while the producer has sent them to other nodes.
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
    """KIP-392: the consumer fetches from the replica in its own rack."""
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
    read(consumer, 100)  # a request that was waiting may have got them all
    wait_until(lambda: not consumer.poll(20) and asked() > before)
    assert replica() == near
    cluster.kill(near)
    send()
    with within(20):
        read(consumer, 100)
    wait_until(lambda: not consumer.poll(20) and replica() == -1)
    cluster.start_node(near)
    wait_in_sync(clients, cluster, topic)
    send()
    read(consumer, 100)
