"""Threads: many that use one producer, many clients at once, callbacks at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, read
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.errors import IllegalStateError

pytestmark = one_real_broker

THREADS = 8


def _run(target: Any, count: int = THREADS) -> None:
    """Runs target(0), target(1), ... in threads, and raises what one of them raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            target(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_threads_share_a_producer_and_keep_their_own_order(
    broker: Broker, clients: Clients, codec: str
) -> None:
    each = scaled(100_000, minimum=500)
    topic = broker.create_topic("shared", 3)
    producer = clients.producer(broker, linger_ms=5, compression_type=codec)
    futures: list[list[Any]] = [[] for _ in range(THREADS)]

    def send(thread: int) -> None:
        for number in range(each):
            value = b"%d:%d" % (thread, number)
            futures[thread].append(producer.send(topic, value, partition=number % 3))

    _run(send)
    producer.flush(60)
    records = by_partition(read(clients.consumer(broker, topic, range(3)), THREADS * each))
    for partition in range(3):
        found: dict[int, list[int]] = {}
        for record in records[partition]:
            thread, number = map(int, record.value.split(b":"))
            found.setdefault(thread, []).append(number)
            assert futures[thread][number].get(0).offset == record.offset
        assert found == {thread: list(range(partition, each, 3)) for thread in range(THREADS)}


def test_threads_send_lists_flush_and_ask_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("bustle", 2)
    producer = clients.producer(broker, linger_ms=5)
    rounds = scaled(1000, minimum=10)

    def bustle(thread: int) -> None:
        for number in range(rounds):
            if thread % 2:
                producer.send_many(topic, [b"m"] * 100, partition=number % 2).get(60)
            else:
                for _ in range(100):
                    producer.send(topic, b"s")
                producer.flush(60)
            producer.metrics()
            assert producer.partitions_for(topic) == {0, 1}

    _run(bustle)
    assert sum(broker.wire.end_offsets(topic).values()) == THREADS * rounds * 100


def test_close_from_another_thread_ends_a_send_loop(broker: Broker) -> None:
    topic = broker.create_topic("closing")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    sent: list[Any] = []
    ended: list[Exception] = []

    def loop() -> None:
        try:
            while True:
                sent.append(producer.send(topic, b"value"))
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    wait_until(lambda: len(sent) > 1000, 60)
    producer.close()
    thread.join(60)
    assert [type(each) for each in ended] == [IllegalStateError]
    # Each accepted record has an outcome, and each acknowledged record is in the log.
    assert all(each.is_done for each in sent)
    acknowledged = sum(each.succeeded() for each in sent)
    assert broker.wire.end_offsets(topic)[0] == acknowledged == len(sent)


def test_many_clients_run_side_by_side(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("many", THREADS)
    each = scaled(20_000, minimum=100)

    def both(number: int) -> None:
        servers = broker.bootstrap_servers
        with (
            KafkaProducer(bootstrap_servers=servers) as producer,
            KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition(topic, number)])
            for row in range(each):
                producer.send(topic, b"%d" % row, partition=number)
            producer.flush(60)
            found = read(consumer, each)
            assert [int(record.value) for record in found] == list(range(each))

    _run(both)


def test_a_consumer_may_change_hands_between_polls(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("hands")
    # One batch, because a poll need not return records of two.
    producer = clients.producer(broker, linger_ms=60_000)
    producer.send_many(topic, [b"%d" % n for n in range(100)])
    producer.flush(30)
    consumer = clients.consumer(broker, topic, max_poll_records=10)
    takers: list[tuple[int, list[int]]] = []

    def take(_: int) -> None:
        offsets = [each.offset for each in read(consumer, 10)]
        takers.append((threading.get_ident(), offsets))

    for _ in range(4):
        _run(take, count=1)
        take(0)  # and back to this thread
    assert [offsets for _, offsets in takers] == [
        list(range(first, first + 10)) for first in range(0, 80, 10)
    ]
    mine = threading.get_ident()
    assert [thread == mine for thread, _ in takers] == [False, True] * 4


def test_an_admin_client_is_shared_by_threads(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("adminshared", 2)
    admin = clients.admin(broker)

    def ask(_: int) -> None:
        for _ in range(10):
            (found,) = admin.describe_topics([topic])
            assert len(found["partitions"]) == 2
            assert topic in admin.list_topics()

    _run(ask)
