"""Quotas: clients that exceed them are slowed down, and see no error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

RATE = 50_000
RECORDS = [bytes(5_000)] * 160  # 800 KB


@contextmanager
def quota(broker: Broker, client_id: str, key: str) -> Iterator[dict[str, Any]]:
    """Sets a quota while the block runs. Returns the options of the client that has it."""
    # A broker shows a quota before it applies it, and applies one change after the other. So when
    # the second quota shows, the first is applied.
    entities = [{"client-id": each} for each in (client_id, f"{client_id}-later")]
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        for entity in entities:
            admin.alter_client_quotas(entity, {key: RATE})
            wait_until(partial(admin.describe_client_quotas, entity), 30)
        yield {"bootstrap_servers": broker.bootstrap_servers, "client_id": client_id}
        for entity in entities:
            admin.alter_client_quotas(entity, {key: None})


def check(took: float) -> None:
    """A quota counts over 10 seconds, so a burst of 500 KB is free. The rest takes its time."""
    assert took > 3, "the quota has no effect"
    assert took < 45, "the client waited for longer than its quota wants"


def test_a_producer_gets_the_rate_of_its_quota(broker: Broker) -> None:
    """Scenario 83."""
    topic, client_id = broker.create_topic("quota"), broker.unused_name("slow")
    with (
        quota(broker, client_id, "producer_byte_rate") as options,
        KafkaProducer(**options, batch_size=10_000, compression_type=None) as producer,
    ):
        began = time.monotonic()
        sent = [producer.send(topic, each) for each in RECORDS]
        for future in sent:
            future.get(60)
        check(time.monotonic() - began)


def test_a_consumer_gets_the_rate_of_its_quota(broker: Broker) -> None:
    """Scenario 83."""
    topic, client_id = broker.create_topic("quota"), broker.unused_name("slow")
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, batch_size=10_000, compression_type=None
    ) as producer:
        for each in RECORDS:
            producer.send(topic, each)
    limits: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 20_000}
    with (
        quota(broker, client_id, "consumer_byte_rate") as options,
        KafkaConsumer(**options, **limits) as consumer,
    ):
        began, count = time.monotonic(), 0
        consumer.assign([TopicPartition(topic, 0)])
        while count < len(RECORDS):
            count += sum(len(rows) for rows in consumer.poll(500).values())
            assert time.monotonic() < began + 60, "records are missing"
        check(time.monotonic() - began)
