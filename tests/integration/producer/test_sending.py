"""send(): what a record may contain, and what its future returns."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import RecordMetadata, TopicPartition
from thalweg.errors import IllegalStateError, InvalidTopicError, KafkaTimeoutError


def test_a_record_comes_back_as_it_was_sent(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("sending")
    headers = [("a", b"1"), ("größe", b"\x00\xff"), ("a", b"2"), ("", b""), ("none", None)]
    sent = clients.producer(broker).send(
        topic, b"value", key=b"key", headers=headers, partition=0, timestamp_ms=1_234_567_890_123
    )
    metadata = sent.get(timeout=20)
    (record,) = read(clients.consumer(broker, topic), 1)

    assert (record.topic, record.partition, record.offset) == (topic, 0, 0)
    assert (record.key, record.value, record.headers) == (b"key", b"value", headers)
    assert (record.timestamp, record.timestamp_type) == (1_234_567_890_123, 0)
    sizes = record.serialized_key_size, record.serialized_value_size
    assert sizes == (3, 5)
    assert record.serialized_header_size == metadata.serialized_header_size
    assert record.leader_epoch == 0
    assert record.checksum is None


def test_the_metadata_of_a_record_is_kafka_pythons(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("sending", 2)
    producer = clients.producer(broker)
    sent = [
        producer.send(topic, b"four", key=b"key", partition=1, timestamp_ms=77) for _ in range(3)
    ]
    assert [each.get(20) for each in sent] == [
        RecordMetadata(topic, 1, TopicPartition(topic, 1), offset, 77, None, 3, 4, -1)
        for offset in range(3)
    ]
    assert sent[0].is_done
    assert sent[0].succeeded()
    assert not sent[0].failed()
    assert sent[0].value == sent[0].get()
    assert sent[0].exception is None


@pytest.mark.parametrize(
    "key, value",
    [
        pytest.param(b"key", None, id="null value"),
        pytest.param(None, b"value", id="null key"),
        pytest.param(b"", b"", id="empty"),
        pytest.param(bytes(range(256)), b"\x00" * 1000, id="binary"),
    ],
)
def test_null_is_not_empty(
    broker: Broker, clients: Clients, key: bytes | None, value: bytes | None
) -> None:
    topic = broker.create_topic("nulls")
    metadata = clients.producer(broker).send(topic, value, key=key).get(20)
    assert metadata.serialized_key_size == (-1 if key is None else len(key))
    assert metadata.serialized_value_size == (-1 if value is None else len(value))
    (record,) = read(clients.consumer(broker, topic), 1)
    assert (record.key, record.value) == (key, value)


@one_real_broker
def test_bytearray_and_memoryview_are_bytes(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("buffers")
    producer = clients.producer(broker)
    producer.send(topic, bytearray(b"value"), key=memoryview(b"key"))
    producer.send(topic, memoryview(b"a-value-b")[2:7], headers=[("h", bytearray(b"1"))])  # type: ignore[list-item]
    producer.flush(20)
    first, second = read(clients.consumer(broker, topic), 2)
    assert (first.key, first.value) == (b"key", b"value")
    assert (second.value, second.headers) == (b"value", [("h", b"1")])


def test_a_record_without_timestamp_gets_the_time_of_its_send(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("clock")
    before = int(time.time() * 1000)
    sent = clients.producer(broker).send(topic, b"value").get(20)
    after = int(time.time() * 1000)
    assert before <= sent.timestamp <= after
    (record,) = read(clients.consumer(broker, topic), 1)
    assert record.timestamp == sent.timestamp


def test_the_brokers_clock_counts_under_log_append_time(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("appendtime", configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000) - 1000
    sent = clients.producer(broker).send(topic, b"value", timestamp_ms=5).get(20)
    (record,) = read(clients.consumer(broker, topic), 1)
    assert record.timestamp == sent.timestamp >= before
    assert record.timestamp_type == 1


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_level_of_acks_writes(broker: Broker, clients: Clients, acks: Any) -> None:
    topic = broker.create_topic("acks")
    producer = clients.producer(broker, acks=acks, enable_idempotence=acks == "all")
    sent = [producer.send(topic, b"%d" % number) for number in range(100)]
    producer.flush(20)
    offsets = [each.get(20).offset for each in sent]
    assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
    records = read(clients.consumer(broker, topic), 100)
    assert [each.value for each in records] == [b"%d" % number for number in range(100)]


def test_a_topic_is_made_by_the_first_record(broker: Broker, clients: Clients) -> None:
    topic = f"made-by-send-{time.time_ns()}"
    assert clients.producer(broker).send(topic, b"first").get(30).offset == 0
    assert [each.value for each in read(clients.consumer(broker, topic), 1)] == [b"first"]


def test_partitions_for_names_all_partitions(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("partitions", 7)
    assert clients.producer(broker).partitions_for(topic) == set(range(7))


@one_real_broker
def test_flush_waits_for_everything_sent_before(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("flush", 4)
    producer = clients.producer(broker, linger_ms=60_000)
    sent = [producer.send(topic, b"value", partition=n % 4) for n in range(1000)]
    with within(30):  # far less than the linger
        producer.flush(30)
    assert all(each.is_done for each in sent)
    producer.flush(20)  # nothing to do


@one_real_broker
def test_records_linger(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("linger")
    producer = clients.producer(broker, linger_ms=400)
    producer.partitions_for(topic)
    with within(30, at_least_s=0.3):
        began = time.monotonic()
        sent = [producer.send(topic, b"value") for _ in range(10)]
        took = time.monotonic() - began
        # Reading is_done does not end the linger, as get() or flush() would.
        while not all(each.is_done for each in sent):
            time.sleep(0.01)
    assert [each.get(0).offset for each in sent] == list(range(10))
    # If the machine pauses within the sends, the linger may end before the last of them.
    assert len(list(broker.wire.batches(topic, 0))) == 1 or took > 0.3


@one_real_broker
@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"value": None}, ValueError),
        ({"value": "text"}, TypeError),
        ({"value": 5}, TypeError),
        ({"value": b"v", "key": "text"}, TypeError),
        ({"value": b"v", "headers": {"a": b"1"}}, TypeError),
        ({"value": b"v", "headers": [("a", "text")]}, TypeError),
        ({"value": b"v", "headers": [(b"a", b"1")]}, TypeError),
        ({"value": b"v", "headers": [("a",)]}, TypeError),
        ({"value": b"v", "partition": -1}, ValueError),
        ({"value": b"v", "partition": 1}, ValueError),
        ({"value": b"v", "partition": "0"}, TypeError),
        ({"value": b"v", "partition": 2**31}, ValueError),
    ],
)
def test_what_is_no_record_is_refused_at_once(
    broker: Broker, clients: Clients, arguments: dict[str, Any], error: type[Exception]
) -> None:
    topic = broker.create_topic("refused")
    producer = clients.producer(broker)
    with within(30), pytest.raises(error):
        producer.send(topic, **arguments)
    assert producer.send(topic, b"good").get(20).offset == 0


@pytest.mark.parametrize("serializer", [None, bytes], ids=["plain", "serializer"])
@pytest.mark.parametrize("early", [-1, -1_700_000_000_000])
def test_a_time_before_1970_is_refused(
    embedded: Broker, clients: Clients, early: int, serializer: Any
) -> None:
    """As in Java's ProducerRecord. -1 would mean that the record has no time."""
    topic = embedded.create_topic("early", configs={"retention.ms": "-1"})
    producer = clients.producer(embedded, value_serializer=serializer)
    with pytest.raises(ValueError) as caught:
        producer.send(topic, b"v", timestamp_ms=early)
    assert str(caught.value) == (
        f"timestamp_ms {early} of a record of topic {topic}: a timestamp is 0 or more"
    )
    metadata = producer.send(topic, b"v", timestamp_ms=0).get(20)
    assert (metadata.offset, metadata.timestamp) == (0, 0)


@one_real_broker
@pytest.mark.parametrize("topic", ["", ".", "..", "with space", "é", "a" * 250, "a/b"])
def test_an_impossible_topic_name_is_refused_at_once(
    broker: Broker, clients: Clients, topic: str
) -> None:
    producer = clients.producer(broker)
    for call in (lambda: producer.send(topic, b"value"), lambda: producer.partitions_for(topic)):
        with (
            within(30),
            pytest.raises(InvalidTopicError, match="must be 1 to 249 of the") as caught,
        ):
            call()
        assert isinstance(caught.value, ValueError)


def test_a_topic_must_be_text(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded)
    for topic in (b"bytes", 5, None):
        with pytest.raises(TypeError):
            producer.send(topic, b"value")  # type: ignore[arg-type]


def test_a_missing_topic_ends_the_wait_after_max_block_ms(broker: Broker, clients: Clients) -> None:
    producer = clients.producer(broker, max_block_ms=700, allow_auto_create_topics=False)
    for call in (lambda: producer.send("not-there", b"v"), lambda: producer.partitions_for("gone")):
        with within(30, at_least_s=0.6), pytest.raises(KafkaTimeoutError, match=r"there|gone"):
            call()


def test_a_future_that_is_not_done_times_out(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded()
    broker.create_topic("pending")
    producer = clients.producer(broker, request_timeout_ms=1500)
    with broker.faults.on("Produce").then_silence(times=None):
        sent = producer.send("pending", b"value")
        with within(30, at_least_s=0.25), pytest.raises(KafkaTimeoutError):
            sent.get(timeout=0.3)
        assert not sent.is_done
        assert sent.value is None
    assert sent.get(60).offset == 0


@one_real_broker
def test_metrics_count_what_was_sent(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("metrics")
    producer = clients.producer(broker)
    for _ in range(25):
        producer.send(topic, b"value")
    producer.flush(20)
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 25
    flat = {(name.group, name.name): each for name, each in producer.metrics(raw=True).items()}
    assert flat["producer-metrics", "record-send-total"].value() == 25


@one_real_broker
def test_nothing_is_sent_after_close(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("closed")
    producer = clients.producer(broker)
    with producer:
        sent = producer.send(topic, b"value")
    assert sent.get(0).offset == 0
    for call in (
        lambda: producer.send(topic, b"value"),
        lambda: producer.send_many(topic, [b"value"]),
        lambda: producer.partitions_for(topic),
        lambda: producer.flush(1),
    ):
        with pytest.raises(IllegalStateError):
            call()
    producer.close()


@pytest.mark.parametrize("serializer", [None, bytes], ids=["plain", "serializer"])
@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"timestamp_ms": 1700000000.25},
            "timestamp_ms must be an int, milliseconds since 1970 (int(time.time() * 1000) is"
            " now), got float 1700000000.25",
        ),
        (
            {"timestamp_ms": "now"},
            "timestamp_ms must be an int, milliseconds since 1970 (int(time.time() * 1000) is"
            " now), got str 'now'",
        ),
        ({"partition": "0"}, "partition must be an int, got str"),
        (
            {"headers": [("a", b"1"), ("lang", "en")]},
            "the value of header 'lang' must be bytes, bytearray, memoryview or None, got str;"
            " encode it: value.encode()",
        ),
        (
            {"headers": [("n", 5)]},
            "the value of header 'n' must be bytes, bytearray, memoryview or None, got int",
        ),
        (
            {"headers": [("a", b"1"), (b"lang", b"en")]},
            "headers must be a list of (str, bytes or None) tuples, but headers[1] is"
            " (bytes, bytes)",
        ),
        (
            {"headers": {"lang": b"en"}},
            "headers must be a list of (str, bytes or None) tuples, got dict."
            " Convert a dict with list(headers.items())",
        ),
        (
            {"headers": ["lang"]},
            "headers must be a list of (str, bytes or None) tuples, but headers[0] is str",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_given(
    embedded: Broker, clients: Clients, given: dict[str, Any], message: str, serializer: Any
) -> None:
    producer = clients.producer(embedded, value_serializer=serializer)
    with pytest.raises(TypeError) as caught:
        producer.send(embedded.create_topic("wrong"), b"v", **given)
    assert str(caught.value) == message
