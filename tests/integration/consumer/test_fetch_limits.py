"""fetch_min_bytes, fetch_max_wait_ms, fetch_max_bytes, max_partition_fetch_bytes, sessions."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, fill, read, read_more, within
from tests.support.brokers import Broker
from tests.support.scale import scaled
from thalweg import EmbeddedBroker, TopicPartition


@pytest.mark.parametrize(
    "limits",
    [
        {"fetch_max_bytes": 1},
        {"max_partition_fetch_bytes": 1},
        {"fetch_max_bytes": 1000, "max_partition_fetch_bytes": 1000},
        {"fetch_buffer_memory": 1},
    ],
)
def test_a_first_batch_over_the_limits_is_read_all_the_same(
    broker: Broker, clients: Clients, limits: dict[str, int]
) -> None:
    """KIP-74: whatever the limits are, the consumer continues to read. Scenario 7."""
    topic = broker.create_topic("overlimit", 2)
    producer = clients.producer(broker)
    values = [bytes([number]) * 300_000 for number in range(6)]
    for number, value in enumerate(values):
        producer.send(topic, value, partition=number % 2)
    producer.flush(30)
    records = by_partition(read(clients.consumer(broker, topic, (0, 1), **limits), 6))
    for partition in (0, 1):
        assert [each.value for each in records[partition]] == values[partition::2]


def test_small_limits_read_everything_in_order(broker: Broker, clients: Clients) -> None:
    count = scaled(100_000, minimum=1000)
    topic = broker.create_topic("small", 3)
    expected = {
        p: fill(clients, broker, topic, count, partition=p, batch_size=2000) for p in range(3)
    }
    consumer = clients.consumer(
        broker, topic, range(3), max_partition_fetch_bytes=3000, fetch_max_bytes=5000
    )
    records = by_partition(read(consumer, 3 * count))
    for partition, values in expected.items():
        assert [each.value for each in records[partition]] == values


def test_a_seek_into_the_middle_of_a_batch_gives_no_earlier_record(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("middle")
    producer = clients.producer(broker, linger_ms=200, compression_type="lz4")
    producer.send_many(topic, [b"%d" % n for n in range(100)]).get(20)
    consumer = clients.consumer(broker, topic)
    for offset in (37, 99, 1):
        consumer.seek(TopicPartition(topic, 0), offset)
        assert read(consumer, 1)[0].offset == offset


def test_fetch_min_bytes_holds_the_response_back(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("minbytes")
    consumer = clients.consumer(
        broker, topic, fetch_min_bytes=50_000, fetch_max_wait_ms=6000, auto_offset_reset="earliest"
    )
    began = time.monotonic()
    consumer.poll(200)
    producer = clients.producer(broker)
    producer.send(topic, b"small").get(20)
    found = read_more(consumer, 0.5)
    assert found == [] or time.monotonic() - began > 5.9  # the machine has paused
    with within(20):
        assert [each.value for each in found or read(consumer, 1)] == [b"small"]


def test_enough_bytes_end_the_wait_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("enough")
    consumer = clients.consumer(
        broker, topic, fetch_min_bytes=10_000, fetch_max_wait_ms=20_000, request_timeout_ms=40_000
    )
    consumer.poll(300)
    producer = clients.producer(broker)
    threading.Timer(0.3, producer.send, (topic, bytes(20_000))).start()
    with within(10):
        assert len(read(consumer, 1)) == 1


def test_records_come_through_many_partitions_of_one_session(
    broker: Broker, clients: Clients
) -> None:
    partitions = scaled(1000, minimum=50)
    topic = broker.create_topic("session", partitions)
    producer = clients.producer(broker, linger_ms=5)
    for number in range(partitions * 3):
        producer.send(topic, b"%d" % number, partition=number % partitions)
    producer.flush(60)
    consumer = clients.consumer(broker, topic, range(partitions))
    records = by_partition(read(consumer, partitions * 3))
    assert all([r.offset for r in records[p]] == [0, 1, 2] for p in range(partitions))
    producer.send(topic, b"later", partition=partitions // 2).get(20)
    assert [each.value for each in read(consumer, 1)] == [b"later"]


def test_partitions_come_and_go_within_a_session(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("comego", 4)
    for partition in range(4):
        fill(clients, broker, topic, 10, partition=partition)
    consumer = clients.consumer(broker, topic, (0, 1))
    assert set(by_partition(read(consumer, 20))) == {0, 1}
    consumer.assign([TopicPartition(topic, p) for p in (1, 2, 3)])
    assert set(by_partition(read(consumer, 20))) == {2, 3}
    fill(clients, broker, topic, 1, partition=0)
    fill(clients, broker, topic, 1, partition=1)
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(1, 10)]


def test_without_sessions_everything_is_read_too(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("nosession", 2)
    values = fill(clients, broker, topic, 500)
    consumer = clients.consumer(broker, topic, (0, 1), enable_incremental_fetch_sessions=False)
    assert [each.value for each in read(consumer, 500)] == values


@pytest.mark.parametrize("error", ["INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_ID_NOT_FOUND"])
def test_a_lost_session_is_opened_again(start_embedded: Any, clients: Clients, error: str) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("lost")
    consumer = clients.consumer(broker, "lost")
    fill(clients, broker, "lost", 10)
    assert len(read(consumer, 10)) == 10
    with broker.faults.on("Fetch").then_fail(error) as fault:
        # A fetch that already waited when the fault was set may return the first of these.
        fill(clients, broker, "lost", 10)
        assert [each.offset for each in read(consumer, 10)] == list(range(10, 20))
        fill(clients, broker, "lost", 10)
        assert [each.offset for each in read(consumer, 10)] == list(range(20, 30))
        assert fault.hits == 1


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "REPLICA_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_SERVER_ERROR",
    ],
)
def test_passing_errors_of_a_fetch_are_tried_again(
    start_embedded: Any, clients: Clients, error: str
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("passing")
    values = fill(clients, broker, "passing", 50)
    with broker.faults.on("Fetch", topic="passing").then_fail(error, times=2) as fault:
        consumer = clients.consumer(broker, "passing")
        with within(20):
            assert [each.value for each in read(consumer, 50)] == values
        assert fault.hits == 2
