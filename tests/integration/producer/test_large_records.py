"""Records at and above the limits: max_request_size, the broker's limits, the fetch limits."""

from __future__ import annotations

import pytest

from tests.integration.support.clients import Clients, by_partition, read, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from thalweg.errors import MessageSizeTooLargeError, RecordTooLargeError


def _noise(size: int, seed: int = 7) -> bytes:
    import random

    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_record_of_the_brokers_limit_goes_through(
    broker: Broker, clients: Clients, codec: str
) -> None:
    """The record is far larger than batch_size and than a fetch of one partition."""
    topic = broker.create_topic("large", configs={"max.message.bytes": "12000000"})
    producer = clients.producer(broker, max_request_size=12_000_000, compression_type=codec)
    values = [_noise(size, size) for size in (10, 1_000_000, 5_000_000, 10_000_000, 20)]
    for value in values:
        producer.send(topic, value)
    producer.flush(60)
    records = read(clients.consumer(broker, topic), len(values))
    assert [each.value for each in records] == values


@one_real_broker
def test_a_record_over_max_request_size_is_refused_at_once(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("toolarge")
    producer = clients.producer(broker)
    producer.partitions_for(topic)
    with within(30), pytest.raises(RecordTooLargeError, match="max_request_size"):
        producer.send(topic, bytes(2_000_000))
    # The size is wrong whatever the partition is.
    with within(30), pytest.raises(RecordTooLargeError, match="max_request_size"):
        producer.send(topic, bytes(2_000_000), partition=-1)
    assert producer.send(topic, b"small").get(20).offset == 0


@one_real_broker
def test_a_record_over_buffer_memory_is_refused_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("overmemory")
    producer = clients.producer(
        broker, buffer_memory=100_000, batch_size=1000, max_request_size=10_000_000
    )
    producer.partitions_for(topic)
    with within(30), pytest.raises(RecordTooLargeError, match="buffer_memory"):
        producer.send(topic, bytes(200_000))
    assert producer.send(topic, b"small").get(20).offset == 0


@one_real_broker
def test_the_error_is_kafka_pythons(broker: Broker, clients: Clients) -> None:
    producer = clients.producer(broker)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(broker.create_topic("kafkapython"), bytes(2_000_000))


def test_a_record_over_the_topics_limit_fails_alone(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("limit", configs={"max.message.bytes": "5000"})
    producer = clients.producer(broker)
    first = producer.send(topic, b"first")
    large = producer.send(topic, _noise(50_000))
    last = producer.send(topic, b"last")
    with within(20), pytest.raises(MessageSizeTooLargeError):
        large.get(30)
    assert first.get(20).offset == 0
    assert last.get(20).offset == 1
    records = read(clients.consumer(broker, topic), 2)
    assert [each.value for each in records] == [b"first", b"last"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_over_the_topics_limit_is_split_in_order(
    broker: Broker, clients: Clients, codec: str
) -> None:
    """KIP-126: no record is lost or written twice."""
    topic = broker.create_topic("split", configs={"max.message.bytes": "5000"})
    producer = clients.producer(
        broker,
        batch_size=100_000,
        linger_ms=200,
        compression_type=codec,
        max_request_size=2_000_000,
    )
    values = [b"%04d" % number + _noise(400, number) for number in range(scaled(50_000, 500))]
    sent = [producer.send(topic, value) for value in values]
    producer.flush(60)
    assert producer.metrics()["producer-metrics"]["batch-split-total"] > 0
    assert [each.get(0).offset for each in sent] == list(range(len(values)))
    records = read(clients.consumer(broker, topic), len(values))
    assert [each.value for each in records] == values


def test_one_large_record_within_a_batch_fails_and_the_others_are_written(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("odd", configs={"max.message.bytes": "5000"})
    producer = clients.producer(broker, batch_size=200_000, linger_ms=300)
    values = [b"%d" % number for number in range(10)]
    values[4] = _noise(20_000)
    sent = [producer.send(topic, value) for value in values]
    producer.flush(30)
    failed = [number for number, each in enumerate(sent) if each.failed()]
    assert failed == [4]
    assert isinstance(sent[4].exception, MessageSizeTooLargeError)
    offsets = [each.get(0).offset for number, each in enumerate(sent) if number != 4]
    assert offsets == list(range(9))


def test_records_of_all_sizes_keep_their_order(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("sizes", 2)
    producer = clients.producer(broker, linger_ms=5)
    sizes = [0, 1, 100, 16_000, 16_384, 17_000, 100_000, 900_000, 3, 500_000, 64]
    values = [b"%d:" % number + bytes(size) for number, size in enumerate(sizes * 3)]
    for number, value in enumerate(values):
        producer.send(topic, value, partition=number % 2)
    producer.flush(60)
    records = by_partition(read(clients.consumer(broker, topic, (0, 1)), len(values)))
    for partition in (0, 1):
        assert [each.value for each in records[partition]] == values[partition::2]
