"""A real broker killed (-9) and restarted while records are sent with acks=all."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.load import RECORDS, Load, Numbers
from tests.support.kafka.cluster import RealKafka
from tests.support.scale import scaled
from thalweg import TopicPartition

PARTITIONS = 4
# Longer than a broker needs to start on a slow machine.
PATIENT = {"max_block_ms": 300_000, "delivery_timeout_ms": 300_000}
KILLS = scaled(3, minimum=2)
SHARE = RECORDS // (KILLS + 1)

# Longer than PATIENT, also in a full run: the mark overrides its option.
pytestmark = pytest.mark.timeout(600 + RECORDS // 300)


@pytest.mark.parametrize("version", ["4.3", "3.9"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_broker_killed_and_restarted_loses_and_doubles_nothing(
    start_kafka: Callable[..., RealKafka], clients: Clients, version: str, codec: str
) -> None:
    kafka = start_kafka(version)
    kafka.create_topic("t", PARTITIONS)
    producer = clients.producer(kafka, acks="all", compression_type=codec, linger_ms=2, **PATIENT)
    with Load(producer, "t", PARTITIONS) as load:
        load.wait_for(SHARE)
        for _ in range(KILLS):
            kafka.kill(1)
            kafka.start_node(1)
            load.wait_for(SHARE, limit=120)
    load.check(clients.consumer(kafka))


def test_a_consumer_reads_on_where_it_was_when_its_broker_comes_back(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    kafka = start_kafka("4.3")
    kafka.create_topic("t")
    producer = clients.producer(kafka, linger_ms=5)
    producer.send_many("t", [b"%d" % number for number in range(RECORDS)]).get(60)
    consumer = clients.consumer(kafka, "t", max_partition_fetch_bytes=10_000)
    log = Numbers()
    log.read(consumer, RECORDS // 3)
    kafka.kill(1)
    log.read_more(consumer, for_s=1)
    kafka.start_node(1)
    log.read(consumer, RECORDS - len(log))
    log.check(0, array("q", range(RECORDS)))
    assert consumer.position(TopicPartition("t", 0)) == RECORDS
