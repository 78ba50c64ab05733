"""Topics that grow, disappear and come back while clients use them."""

from __future__ import annotations

import pytest

from tests.integration.support.clients import Clients, fill, read, within
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import TopicPartition
from thalweg.errors import KafkaTimeoutError, UnknownTopicOrPartitionError


def test_new_partitions_are_found(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("growing")
    producer = clients.producer(broker, metadata_max_age_ms=500)
    assert producer.partitions_for(topic) == {0}
    broker.add_partitions(topic, 3)
    with within(30):
        assert producer.send(topic, b"value", partition=2).get(30).partition == 2
    assert producer.partitions_for(topic) == {0, 1, 2}


def test_a_subscription_reads_new_partitions(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("subscribed")
    consumer = clients.consumer(broker, metadata_max_age_ms=300)
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(50) == {} and len(consumer.assignment()) == 1, 20)
    broker.add_partitions(topic, 2)
    wait_until(lambda: consumer.poll(50) == {} and len(consumer.assignment()) == 2, 30)
    fill(clients, broker, topic, 3, partition=1)
    assert {each.partition for each in read(consumer, 3)} == {1}


def test_a_topic_deleted_and_made_again_is_written_to(broker: Broker, clients: Clients) -> None:
    """The new topic has another ID: sequence numbers and epochs restart (KIP-516). Scenario 20."""
    topic = broker.create_topic("recreated")
    # Otherwise the producer may create the deleted topic itself before the test has missed it.
    producer = clients.producer(broker, metadata_max_age_ms=500, allow_auto_create_topics=False)
    for number in range(20):
        assert producer.send(topic, b"old").get(20).offset == number
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    _make(broker, topic)
    with within(40):
        sent = producer.send(topic, b"new")
        assert sent.get(40).offset == 0
    assert [each.value for each in read(clients.consumer(broker, topic), 1)] == [b"new"]


def test_a_topic_deleted_and_made_again_is_read_from_its_beginning(
    broker: Broker, clients: Clients
) -> None:
    """The new topic has another ID (KIP-516): the old offset and epochs mean nothing in its log.

    Scenario 20.
    """
    topic = broker.create_topic("rereading")
    fill(clients, broker, topic, 50)
    consumer = clients.consumer(
        broker, topic, metadata_max_age_ms=300, allow_auto_create_topics=False
    )
    assert len(read(consumer, 50)) == 50
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    _make(broker, topic)
    values = fill(clients, broker, topic, 5)
    assert [each.value for each in read(consumer, 5)] == values
    assert consumer.position(TopicPartition(topic, 0)) == 5


@pytest.mark.parametrize("is_assigned", [True, False])
def test_marks_of_a_deleted_topic_do_not_count_for_the_topic_made_again(
    broker: Broker, clients: Clients, is_assigned: bool
) -> None:
    """A commit of these marks would skip records that no member has processed. Scenario 20."""
    topic = broker.create_topic("marked-again")
    where = TopicPartition(topic, 0)
    fill(clients, broker, topic, 10)
    consumer = clients.consumer(
        broker,
        topic if is_assigned else None,
        group_id=topic,
        enable_auto_commit=False,
        metadata_max_age_ms=300,
        allow_auto_create_topics=False,
    )
    if not is_assigned:
        consumer.subscribe([topic])
    old = read(consumer, 10)
    consumer.mark([each for each in old if each.offset != 5])
    consumer.commit_marked()
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    _make(broker, topic)
    values = fill(clients, broker, topic, 10)
    new = read(consumer, 10)
    assert [each.value for each in new] == values
    consumer.mark(new[:3])
    consumer.commit_marked()
    assert consumer.committed(where) == 3
    consumer.mark(new[3:6])
    consumer.commit_marked()
    assert consumer.committed(where) == 6


def test_the_old_offset_is_committed_again_in_the_topic_made_again(
    broker: Broker, clients: Clients
) -> None:
    """The broker has deleted the commits of the old topic. Scenario 20."""
    topic = broker.create_topic("committed-again")
    where = TopicPartition(topic, 0)
    fill(clients, broker, topic, 10)
    consumer = clients.consumer(
        broker,
        topic,
        group_id=topic,
        metadata_max_age_ms=300,
        auto_commit_interval_ms=100,
        allow_auto_create_topics=False,
    )
    read(consumer, 10)
    wait_until(lambda: consumer.poll(50) == {} and consumer.committed(where) == 10, 20)
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    _make(broker, topic)
    values = fill(clients, broker, topic, 10)
    assert [each.value for each in read(consumer, 10)] == values
    wait_until(lambda: consumer.poll(50) == {} and consumer.committed(where) == 10, 20)


@pytest.mark.parametrize("group_id", [None, "classic"])
def test_a_topic_made_again_with_more_partitions_is_read_whole(
    broker: Broker, clients: Clients, group_id: str | None
) -> None:
    """The consumer finds them long before metadata_max_age_ms is over. Scenario 20."""
    topic = broker.create_topic("grown-again")
    # Otherwise the consumer may create the deleted topic itself, with one partition.
    consumer = clients.consumer(broker, group_id=group_id and topic, allow_auto_create_topics=False)
    consumer.subscribe([topic])
    fill(clients, broker, topic, 5)
    assert len(read(consumer, 5)) == 5
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    _make(broker, topic, 3)
    for partition in range(3):
        fill(clients, broker, topic, 2, partition=partition)
    with within(60):
        found = read(consumer, 6)
    assert sorted(each.partition for each in found) == [0, 0, 1, 1, 2, 2]


def _make(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Creates the topic again. A real broker may still be deleting the old one."""

    def made() -> bool:
        try:
            broker.wire.create_topic(topic, partitions, exist_ok=True)
        except Exception:
            return False
        return True

    wait_until(made, 60, every=0.2)


def test_records_for_a_deleted_topic_fail_in_bounded_time(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("deleted")
    producer = clients.producer(
        broker,
        delivery_timeout_ms=8000,
        request_timeout_ms=4000,
        max_block_ms=8000,
        allow_auto_create_topics=False,
    )

    def is_written() -> bool:
        try:
            return bool(producer.send(topic, b"value").get(20))
        except KafkaTimeoutError:
            return False  # these limits are too short for a busy broker's first batch

    wait_until(is_written, 60)
    broker.wire.delete_topic(topic)
    wait_until(lambda: broker.wire.metadata(topic).errors[topic] == 3, 60)
    with within(40), pytest.raises((KafkaTimeoutError, UnknownTopicOrPartitionError), match=topic):
        producer.send(topic, b"value").get(40)


def test_a_missing_topic_is_read_once_it_exists(broker: Broker, clients: Clients) -> None:
    topic = f"{broker.create_topic('prefix')}-not-yet"
    consumer = clients.consumer(
        broker, topic, allow_auto_create_topics=False, metadata_max_age_ms=500
    )
    assert consumer.poll(300) == {}
    broker.wire.create_topic(topic)
    values = fill(clients, broker, topic, 3)
    assert [each.value for each in read(consumer, 3)] == values
