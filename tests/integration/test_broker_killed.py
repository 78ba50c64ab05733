"""A real broker killed (-9) and restarted while records are sent with acks=all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.clients import Clients, read
from tests.integration.load import Load
from tests.support.kafka import RealKafka
from tests.support.scale import scaled
from thalweg import TopicPartition

PARTITIONS = 4
BETWEEN = 500_000  # records between two kills, as in a full run: 2,000,000 in all
KILLS = scaled(3, minimum=1)


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
