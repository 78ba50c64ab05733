"""assign, seek, position, and offset lookups."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, fill, read, within
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import (
    EmbeddedBroker,
    KafkaConsumer,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from thalweg.errors import IllegalStateError, KafkaTimeoutError


def test_a_consumer_reads_what_it_is_assigned(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("assign", 3)
    for partition in range(3):
        fill(clients, broker, topic, 20, partition=partition)
    consumer = clients.consumer(broker, topic, (0, 2))
    assert consumer.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 2)}
    assert set(by_partition(read(consumer, 40))) == {0, 2}


def test_partitions_that_stay_keep_position_and_buffer(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("reassign", 2)
    fill(clients, broker, topic, 100)
    fill(clients, broker, topic, 100, partition=1)
    consumer = clients.consumer(broker, topic, (0,))
    assert len(consumer.poll(20_000, max_records=30)) == 1
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert consumer.position(TopicPartition(topic, 0)) == 30
    found = by_partition(read(consumer, 170))
    assert [each.offset for each in found[0]] == list(range(30, 100))
    assert [each.offset for each in found[1]] == list(range(100))
    consumer.assign([])
    assert consumer.assignment() == set()
    with pytest.raises(IllegalStateError, match="not subscribed to any topics or assigned"):
        consumer.poll(100)


def test_a_revoked_partition_hands_out_nothing_more(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("revoked", 2)
    fill(clients, broker, topic, 100)
    consumer = clients.consumer(broker, topic, (0,))
    consumer.poll(20_000, max_records=1)
    consumer.assign([TopicPartition(topic, 1)])
    assert consumer.poll(500) == {}
    consumer.assign([TopicPartition(topic, 0)])  # starts at the reset policy's position again
    assert [each.offset for each in read(consumer, 100)] == list(range(100))


def test_seek_moves_the_position(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("seek")
    fill(clients, broker, topic, 100)
    where = TopicPartition(topic, 0)
    consumer = clients.consumer(broker, topic)
    for target in (50, 0, 99, 42):
        consumer.seek(where, target)
        assert consumer.position(where) == target
        assert consumer.poll(20_000, max_records=1)[where][0].offset == target
        assert consumer.position(where) == target + 1
    consumer.seek(where, OffsetAndMetadata(7, "", 0))
    assert consumer.poll(20_000, max_records=1)[where][0].offset == 7


def test_seek_within_iteration_counts_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("seekiter")
    fill(clients, broker, topic, 100)
    consumer = clients.consumer(broker, topic)
    assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
    consumer.seek(TopicPartition(topic, 0), 90)
    assert [next(consumer).offset for _ in range(10)] == list(range(90, 100))


def test_a_new_consumer_starts_where_its_policy_says(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("policy")
    fill(clients, broker, topic, 10)
    where = TopicPartition(topic, 0)
    assert clients.consumer(broker, topic, auto_offset_reset="earliest").position(where) == 0
    latest = clients.consumer(broker, topic, auto_offset_reset="latest")
    assert latest.position(where) == 10
    fill(clients, broker, topic, 1)
    assert read(latest, 1)[0].offset == 10


def test_the_default_policy_is_latest(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("default")
    fill(clients, broker, topic, 10)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position(TopicPartition(topic, 0)) == 10
        assert consumer.config["auto_offset_reset"] == "latest"


def test_seek_to_beginning_and_end(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("ends", 2)
    fill(clients, broker, topic, 30)
    fill(clients, broker, topic, 20, partition=1)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = clients.consumer(broker, topic, (0, 1))
    consumer.seek_to_end()
    assert (consumer.position(first), consumer.position(second)) == (30, 20)
    consumer.seek_to_beginning(second)
    assert (consumer.position(first), consumer.position(second)) == (30, 0)
    assert {each.partition for each in read(consumer, 20)} == {1}


def test_offsets_of_partitions_that_are_not_assigned(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("lookup", 2)
    fill(clients, broker, topic, 30)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    consumer = clients.consumer(broker)
    assert consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
    assert consumer.end_offsets(both) == {both[0]: 30, both[1]: 0}
    assert consumer.end_offsets([]) == {}


def test_the_log_start_moves_when_records_are_deleted(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("deleted")
    fill(clients, broker, topic, 50)
    where = TopicPartition(topic, 0)
    clients.admin(broker).delete_records({where: 20})
    consumer = clients.consumer(broker, topic)
    assert consumer.beginning_offsets([where]) == {where: 20}
    assert [each.offset for each in read(consumer, 30)] == list(range(20, 50))


def test_offsets_for_times(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("times")
    producer = clients.producer(broker)
    for number in range(10):
        producer.send(topic, b"v", timestamp_ms=1000 + 100 * number).get(20)
    where, empty = TopicPartition(topic, 0), TopicPartition(broker.create_topic("none"), 0)
    consumer = clients.consumer(broker)

    def at(timestamp: int) -> OffsetAndTimestamp | None:
        return consumer.offsets_for_times({where: timestamp})[where]

    for timestamp, offset, found in ((0, 0, 1000), (1000, 0, 1000), (1001, 1, 1100)):
        result = at(timestamp)
        assert result is not None
        assert (result.offset, result.timestamp) == (offset, found)
    result = at(1900)
    assert result is not None
    assert (result.offset, result.leader_epoch) == (9, 0)
    assert at(1901) is None
    assert consumer.offsets_for_times({empty: 0}) == {empty: None}
    with pytest.raises(ValueError, match="negative"):
        consumer.offsets_for_times({where: -5})


def test_offsets_for_times_within_a_batch(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("inbatch")
    producer = clients.producer(broker, linger_ms=200)
    for number in range(100):
        producer.send(topic, b"v", timestamp_ms=5000 + number)
    producer.flush(20)
    where = TopicPartition(topic, 0)
    result = clients.consumer(broker).offsets_for_times({where: 5042})[where]
    assert result is not None
    assert (result.offset, result.timestamp) == (42, 5042)


def test_highwater_is_known_after_a_fetch(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("highwater")
    fill(clients, broker, topic, 25)
    where = TopicPartition(topic, 0)
    consumer = clients.consumer(broker, topic)
    consumer.poll(20_000, max_records=5)
    assert consumer.highwater(where) == 25
    assert consumer.lag(where) == 20
    with pytest.raises(IllegalStateError):
        consumer.highwater(TopicPartition(topic, 1))


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda c, p: c.seek(p, -1), ValueError),
        (lambda c, p: c.seek(p, "5"), ValueError),
        (lambda c, p: c.seek(p, True), ValueError),
        (lambda c, p: c.seek(("t", 0), 5), TypeError),
        (lambda c, p: c.seek(TopicPartition("other", 0), 5), ValueError),
        (lambda c, p: c.position(("t", 0)), TypeError),
        (lambda c, p: c.position(TopicPartition("other", 0)), IllegalStateError),
        (lambda c, p: c.seek_to_end(TopicPartition("other", 0)), ValueError),
        (lambda c, p: c.assign([("t", 0)]), TypeError),
    ],
)
def test_impossible_positions_are_refused(
    embedded: Broker, clients: Clients, call: Any, error: type[Exception]
) -> None:
    topic = embedded.create_topic("impossible")
    consumer = clients.consumer(embedded, topic)
    with pytest.raises(error):
        call(consumer, TopicPartition(topic, 0))


def test_offsets_of_what_does_not_exist_end_in_bounded_time(
    broker: Broker, clients: Clients
) -> None:
    consumer = clients.consumer(broker, allow_auto_create_topics=False)
    where = TopicPartition("does-not-exist", 0)
    with within(20, at_least_s=0.7), pytest.raises(KafkaTimeoutError):
        consumer.end_offsets([where], timeout_ms=800)
    consumer.assign([where])
    with within(20, at_least_s=0.7), pytest.raises(KafkaTimeoutError):
        consumer.position(where, timeout_ms=800)


def test_topics_and_partitions_are_listed(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("listed", 4)
    consumer = clients.consumer(broker)
    assert topic in consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0, 1, 2, 3}
    assert consumer.partitions_for_topic("no-such-topic") == set()
    assert consumer.bootstrap_connected()


def test_subscribing_without_a_group_reads_all_partitions(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("subscribed", 3)
    for partition in range(3):
        fill(clients, broker, topic, 5, partition=partition)
    with KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert consumer.subscription() == {topic}
        assert set(by_partition(read(consumer, 15))) == {0, 1, 2}
        assert consumer.assignment() == {TopicPartition(topic, p) for p in range(3)}
        with pytest.raises(IllegalStateError):
            consumer.assign([TopicPartition(topic, 0)])
        consumer.unsubscribe()
        assert consumer.subscription() is None
        assert consumer.assignment() == set()


def test_a_pattern_finds_topics_made_later(broker: Broker, clients: Clients) -> None:
    prefix = broker.create_topic("pattern")
    consumer = clients.consumer(broker, metadata_max_age_ms=300)
    consumer.subscribe(pattern=f"^{prefix}")
    wait_until(lambda: consumer.poll(50) == {} and consumer.assignment(), 20)
    clients.admin(broker).create_topics([f"{prefix}-later"])
    wait_until(lambda: consumer.poll(50) == {} and len(consumer.assignment()) == 2, 30)
    fill(clients, broker, f"{prefix}-later", 3)
    assert {each.topic for each in read(consumer, 3)} == {f"{prefix}-later"}


# ---------------------------------------------------------------- missing partitions


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.name == "thalweg.consumer"]


def test_a_partition_that_the_topic_lacks_is_named_with_those_there_are(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create_topic("lacks", 3)
    why = f"topic {topic} has 3 partitions (0 to 2) and no partition 7"
    with caplog.at_level(logging.WARNING, "thalweg"):
        consumer = clients.consumer(broker, topic, (7,))
        wait_until(lambda: consumer.poll(100) == {} and bool(warned(caplog)), 20)
        with within(20), pytest.raises(KafkaTimeoutError) as caught:
            consumer.position(TopicPartition(topic, 7), timeout_ms=2500)
    assert str(caught.value).endswith(f"could not find the position of {topic}-7 in time: {why}")
    # Many responses have said so by now.
    assert warned(caplog) == [f"{why}. The consumer waits for it"]


def test_a_topic_that_does_not_exist_is_named(
    start_embedded: Callable[..., EmbeddedBroker],
    clients: Clients,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = start_embedded(configs={"auto.create.topics.enable": "false"})
    with caplog.at_level(logging.WARNING, "thalweg"):
        consumer = clients.consumer(broker, "nowhere")
        wait_until(lambda: consumer.poll(100) == {} and bool(warned(caplog)), 20)
        with within(20), pytest.raises(KafkaTimeoutError, match=r"there is no topic nowhere$"):
            consumer.position(TopicPartition("nowhere", 0), timeout_ms=2500)
    assert warned(caplog) == ["there is no topic nowhere. The consumer waits for it"]


def test_a_partition_that_comes_later_is_read(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("grows", 1)
    consumer = clients.consumer(broker, topic, (1,))
    assert consumer.poll(1500) == {}
    broker.add_partitions(topic, 2)
    fill(clients, broker, topic, 5, partition=1)
    with within(40):
        assert [each.offset for each in read(consumer, 5)] == list(range(5))


def test_a_topic_that_is_created_by_the_asking_is_no_reason_to_warn(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "thalweg"):
        begin = time.monotonic()
        consumer = clients.consumer(broker, f"created-{uuid.uuid4().hex}")
        (where,) = consumer.assignment()
        assert consumer.position(where, timeout_ms=60_000) == 0
        took = time.monotonic() - begin
    # The consumer warns about a topic that is missing for a second. A busy broker may need longer
    # than this to create it.
    assert took >= 1 or warned(caplog) == []
