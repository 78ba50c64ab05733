"""The reset policies, for positions that the log does not have."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.integration.support.aio import made, run
from tests.integration.support.clients import Clients, fill, read, within
from tests.support.brokers import Broker
from thalweg import OffsetAndMetadata, TopicPartition
from thalweg.errors import NoOffsetForPartitionError, OffsetOutOfRangeError


def _with_start(broker: Broker, clients: Clients) -> tuple[str, TopicPartition]:
    """Makes a topic whose log has only the offsets 20 to 49."""
    topic = broker.create_topic("range")
    fill(clients, broker, topic, 50)
    where = TopicPartition(topic, 0)
    clients.admin(broker).delete_records({where: 20})
    return topic, where


@pytest.mark.parametrize("target", [5, 1000])
def test_earliest_goes_to_the_log_start(broker: Broker, clients: Clients, target: int) -> None:
    topic, where = _with_start(broker, clients)
    consumer = clients.consumer(broker, topic, auto_offset_reset="earliest")
    consumer.seek(where, target)
    assert read(consumer, 30)[0].offset == 20


@pytest.mark.parametrize("target", [5, 1000])
def test_latest_goes_to_the_end(broker: Broker, clients: Clients, target: int) -> None:
    topic, where = _with_start(broker, clients)
    consumer = clients.consumer(broker, topic, auto_offset_reset="latest")
    consumer.seek(where, target)
    deadline = time.monotonic() + 20
    while consumer.position(where) == target and time.monotonic() < deadline:
        assert consumer.poll(50) == {}
    assert consumer.position(where) == 50
    fill(clients, broker, topic, 1)
    assert read(consumer, 1)[0].offset == 50


@pytest.mark.parametrize("target", [5, 1000])
def test_none_raises_with_the_partition_and_the_offset(
    broker: Broker, clients: Clients, target: int
) -> None:
    """Without a policy only the application can decide where to continue. Scenario 18."""
    topic, where = _with_start(broker, clients)
    consumer = clients.consumer(broker, topic, auto_offset_reset="none")
    consumer.seek(where, target)
    with within(20), pytest.raises(OffsetOutOfRangeError, match=topic) as caught:
        consumer.poll(20_000)
    assert caught.value.offsets == {where: target}
    assert consumer.position(where) == target
    with pytest.raises(OffsetOutOfRangeError):  # the error repeats until the application acts
        consumer.poll(20_000)
    consumer.seek(where, 49)
    assert read(consumer, 1)[0].offset == 49


def test_none_raises_without_any_position(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("noposition", 2)
    consumer = clients.consumer(broker, topic, (0, 1), auto_offset_reset="none")
    with within(20), pytest.raises(NoOffsetForPartitionError, match=topic) as caught:
        consumer.poll(20_000)
    assert sorted(caught.value.partitions) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def test_none_goes_on_raising_in_a_group(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("uncommitted")
    consumer = clients.consumer(
        broker, topic, group_id=topic, auto_offset_reset="none", enable_auto_commit=False
    )
    for _ in range(4):
        with within(60), pytest.raises(NoOffsetForPartitionError, match=topic):
            consumer.poll(60_000)
    consumer.seek(TopicPartition(topic, 0), 0)
    assert consumer.poll(100) == {}


@pytest.mark.parametrize("group", [False, True])
def test_none_refuses_a_position_at_once_and_again_as_a_poll_does(
    broker: Broker, clients: Clients, group: bool
) -> None:
    """Like Java's position(), which raises its NoOffsetForPartitionException."""
    topic = broker.create_topic("unpositioned")
    where = TopicPartition(topic, 0)
    options: dict[str, Any] = {"group_id": topic, "enable_auto_commit": False} if group else {}
    consumer = clients.consumer(broker, topic, auto_offset_reset="none", **options)
    text = rf"no committed offset for {topic}-0, and auto_offset_reset is 'none'"
    for call in [lambda: consumer.position(where), lambda: consumer.poll(60_000)] * 2:
        with within(30), pytest.raises(NoOffsetForPartitionError, match=text) as caught:
            call()
        assert caught.value.partitions == [where]
    if group:
        consumer.commit({where: OffsetAndMetadata(0)})
    else:
        consumer.seek(where, 0)
    assert consumer.position(where, timeout_ms=20_000) == 0


def test_none_refuses_a_position_in_a_task(embedded: Broker) -> None:
    topic = embedded.create_topic("unpositioned-aio")
    where = TopicPartition(topic, 0)

    async def program() -> None:
        async with made(embedded, auto_offset_reset="none") as consumer:
            consumer.assign([where])
            for _ in range(2):
                with within(20), pytest.raises(NoOffsetForPartitionError, match=topic):
                    await consumer.position(where)
            consumer.seek(where, 0)
            assert await consumer.position(where) == 0

    run(program())


def test_by_duration_goes_back_by_time(broker: Broker, clients: Clients) -> None:
    """KIP-1106: the consumer starts at a time before now. Scenario 18."""
    topic = broker.create_topic("duration")
    producer = clients.producer(broker)
    now = int(time.time() * 1000)
    for minutes in (180, 90, 30, 5):
        producer.send(topic, b"%d" % minutes, timestamp_ms=now - minutes * 60_000).get(20)
    consumer = clients.consumer(broker, topic, auto_offset_reset="by_duration:PT1H")
    assert [each.value for each in read(consumer, 2)] == [b"30", b"5"]
    older = clients.consumer(broker, topic, auto_offset_reset="by_duration:P1D")
    assert len(read(older, 4)) == 4


def test_other_partitions_flow_while_one_is_out_of_range(broker: Broker, clients: Clients) -> None:
    """Scenario 18."""
    topic = broker.create_topic("others", 2)
    fill(clients, broker, topic, 10)
    fill(clients, broker, topic, 10, partition=1)
    consumer = clients.consumer(broker, topic, (0, 1), auto_offset_reset="none")
    consumer.seek(TopicPartition(topic, 0), 999)
    consumer.seek(TopicPartition(topic, 1), 0)
    found = 0
    errors = 0
    deadline = time.monotonic() + 30
    while (found < 10 or not errors) and time.monotonic() < deadline:
        try:
            found += sum(map(len, consumer.poll(200).values()))
        except OffsetOutOfRangeError:
            errors += 1
    assert found == 10
    assert errors


def test_a_position_at_the_end_is_in_range(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("atend")
    fill(clients, broker, topic, 5)
    consumer = clients.consumer(broker, topic, auto_offset_reset="none")
    consumer.seek(TopicPartition(topic, 0), 5)
    assert consumer.poll(300) == {}
    fill(clients, broker, topic, 1)
    assert read(consumer, 1)[0].offset == 5
