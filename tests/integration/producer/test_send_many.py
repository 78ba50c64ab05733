"""send_many(): a list of records in one call, each row with exactly one outcome."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, read, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import TopicPartition
from thalweg.errors import BatchSendError, MessageSizeTooLargeError, RecordTooLargeError


@one_real_broker
def test_rows_come_back_in_order_with_all_their_parts(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("many", 2)
    sent = clients.producer(broker).send_many(
        topic,
        [b"a", None, b"c", b""],
        keys=[b"1", b"2", None, b"4"],
        headers=[None, [("h", b"x"), ("h", None)], [], [("größe", b"")]],
        partition=[0, 1, 0, 1],
        timestamps_ms=[10, 20, 30, 40],
    )
    assert len(sent) == 4
    metadata = sent.get(20)
    assert metadata.count == len(metadata) == 4
    assert metadata.partitions == {
        TopicPartition(topic, 0): (2, 0, 1),
        TopicPartition(topic, 1): (2, 0, 1),
    }
    assert list(metadata.offsets) == [0, 0, 1, 1]
    assert metadata.offsets.format == "q"
    records = by_partition(read(clients.consumer(broker, topic, (0, 1)), 4))
    rows = [(r.key, r.value, r.headers, r.timestamp) for r in records[0] + records[1]]
    assert rows == [
        (b"1", b"a", [], 10),
        (None, b"c", [], 30),
        (b"2", None, [("h", b"x"), ("h", None)], 20),
        (b"4", b"", [("größe", b"")], 40),
    ]


@one_real_broker
def test_a_long_list_is_written_whole_and_in_order(broker: Broker, clients: Clients) -> None:
    count = scaled(1_000_000, minimum=2000)
    topic = broker.create_topic("long")
    values = [b"value-%d" % number for number in range(count)]
    metadata = clients.producer(broker).send_many(topic, values).get(60)
    assert metadata.partitions == {TopicPartition(topic, 0): (count, 0, count - 1)}
    assert list(metadata.offsets) == list(range(count))
    records = read(clients.consumer(broker, topic, max_poll_records=5000), count)
    assert [each.value for each in records] == values


@one_real_broker
def test_keys_spread_rows_as_single_sends_do(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("keyed", 5)
    producer = clients.producer(broker)
    keys = [b"key-%d" % number for number in range(200)]
    single = [producer.send(topic, b"v", key=key).get(20).partition for key in keys]
    producer.send_many(topic, [b"many"] * 200, keys=keys).get(20)
    records = read(clients.consumer(broker, topic, range(5)), 400)
    placed = {each.key: each.partition for each in records if each.value == b"many"}
    assert placed == dict(zip(keys, single, strict=True))


@one_real_broker
def test_more_than_buffer_memory_goes_through_piece_by_piece(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("backpressure", 2)
    producer = clients.producer(broker, buffer_memory=200_000, batch_size=16_384)
    values = [b"%06d" % number + b"x" * 994 for number in range(scaled(100_000, minimum=1000))]
    metadata = producer.send_many(topic, values, partition=1).get(60)
    assert metadata.count == len(values)
    records = read(clients.consumer(broker, topic, (1,)), len(values))
    assert [each.value for each in records] == values


@one_real_broker
def test_rows_that_fail_are_named_and_the_rest_is_written(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("partly")
    producer = clients.producer(broker, max_request_size=10_000)
    values = [b"good", b"x" * 20_000, b"good too", b"y" * 30_000]
    sent = producer.send_many(topic, values)
    with pytest.raises(BatchSendError) as caught:
        sent.get(20)
    assert [row for row, _ in caught.value.errors] == [1, 3]
    assert all(isinstance(error, RecordTooLargeError) for _, error in caught.value.errors)
    assert caught.value.metadata.count == 2
    assert list(caught.value.metadata.offsets) == [0, -1, 1, -1]
    assert sent.failed()
    assert isinstance(sent.exception, BatchSendError)
    records = read(clients.consumer(broker, topic), 2)
    assert [each.value for each in records] == [b"good", b"good too"]


def test_rows_of_a_partition_that_is_not_there_wait_once(broker: Broker, clients: Clients) -> None:
    """If each row waited for fresh metadata, this would take minutes."""
    topic = broker.create_topic("one")
    producer = clients.producer(broker, max_block_ms=5_000)
    producer.send(topic, b"first").get(20)
    with within(60):
        future = producer.send_many(topic, [b"x"] * 1_000, partition=[0, 7] * 500)
    with pytest.raises(BatchSendError, match="the topic has 1 partitions") as caught:
        future.get(20)
    assert [row for row, _ in caught.value.errors] == list(range(1, 1_000, 2))
    assert len(read(clients.consumer(broker, topic), 501)) == 501


def test_rows_that_the_broker_refuses_are_named(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("refused", configs={"max.message.bytes": "5000"})
    producer = clients.producer(broker)
    with pytest.raises(BatchSendError) as caught:
        producer.send_many(topic, [b"a", b"x" * 50_000, b"b"]).get(30)
    assert [row for row, _ in caught.value.errors] == [1]
    assert isinstance(caught.value.errors[0][1], MessageSizeTooLargeError)
    assert [r.value for r in read(clients.consumer(broker, topic), 2)] == [b"a", b"b"]


@one_real_broker
def test_callbacks_run_once_for_the_whole_list(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("batchcallback")
    calls: list[Any] = []
    sent = clients.producer(broker).send_many(topic, [b"a", b"b", b"c"])
    sent.add_callback(calls.append)
    sent.add_errback(calls.append)
    metadata = sent.get(20)
    assert sent.is_done
    wait_until(lambda: calls, 10)
    sent.add_both(calls.append)
    wait_until(lambda: len(calls) == 2, 10)  # the second runs after the first
    assert [each.count for each in calls] == [3, 3]
    assert metadata.count == 3


@one_real_broker
def test_an_empty_list_is_done_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("empty")
    sent = clients.producer(broker).send_many(topic, [])
    metadata = sent.get(5)
    assert (metadata.count, metadata.partitions, list(metadata.offsets)) == (0, {}, [])
    assert broker.wire.end_offsets(topic) == {0: 0}


@pytest.mark.parametrize(
    "more",
    [
        {"keys": [b"1"]},
        {"headers": [None, None, None]},
        {"partition": [0]},
        {"timestamps_ms": [1, 2, 3]},
    ],
)
def test_columns_of_unequal_length_are_refused_before_anything_is_sent(
    embedded: Broker, clients: Clients, more: dict[str, Any]
) -> None:
    topic = embedded.create_topic("unequal")
    producer = clients.producer(embedded)
    with pytest.raises(ValueError, match=r"length|rows|values"):
        producer.send_many(topic, [b"a", b"b"], **more)
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def test_a_row_of_a_wrong_type_is_named_and_nothing_is_sent(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("types")
    producer = clients.producer(embedded)
    values: list[Any] = [b"a", 5, b"c"]
    with pytest.raises(TypeError, match=r"row 1: value must be bytes.*got int"):
        producer.send_many(topic, values)
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


@pytest.mark.parametrize("serializer", [None, bytes], ids=["plain", "serializer"])
def test_a_row_of_a_time_before_1970_is_named_and_nothing_is_sent(
    embedded: Broker, clients: Clients, serializer: Any
) -> None:
    topic = embedded.create_topic("early")
    producer = clients.producer(embedded, value_serializer=serializer)
    with pytest.raises(ValueError, match=rf"^row 1: timestamp_ms -5 of a record of topic {topic}:"):
        producer.send_many(topic, [b"a", b"b", b"c"], timestamps_ms=[0, -5, None])
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def test_acks_zero_knows_no_offsets(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("unacked")
    producer = clients.producer(broker, acks=0, enable_idempotence=False)
    metadata = producer.send_many(topic, [b"a", b"b"]).get(20)
    assert metadata.count == 2
    assert list(metadata.offsets) == [-1, -1]
    assert len(read(clients.consumer(broker, topic), 2)) == 2


SINGLES = [b"abc", "abc", bytearray(b"abc"), memoryview(b"abc")]


@pytest.mark.parametrize("serializer", [None, str.encode], ids=["plain", "serializer"])
@pytest.mark.parametrize("single", SINGLES, ids=lambda each: type(each).__name__)
def test_one_value_is_no_list_of_values(
    embedded: Broker, clients: Clients, single: Any, serializer: Any
) -> None:
    producer = clients.producer(embedded, value_serializer=serializer, key_serializer=serializer)
    kind = type(single).__name__
    with pytest.raises(TypeError) as caught:
        producer.send_many("t", single)
    assert str(caught.value) == (
        "values must be a sequence with an element for each record, not one"
        f" {kind} object; did you mean send()?"
    )
    with pytest.raises(TypeError, match=rf"keys must be a sequence .*, not one {kind} object$"):
        producer.send_many("t", [b"1", b"2", b"3"], keys=single)


def test_a_row_with_a_wrong_part_is_named(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded)
    rows = [b"1", b"2"]
    with pytest.raises(TypeError, match=r"^row 1: timestamp_ms must be an int.*float 1\.5$"):
        producer.send_many("t", rows, timestamps_ms=[1, 1.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^row 0: partition must be an int, got str$"):
        producer.send_many("t", rows, partition=["0", 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^row 1: the value of header 'h' must be bytes.*encode"):
        producer.send_many("t", rows, headers=[None, [("h", "x")]])  # type: ignore[list-item]
