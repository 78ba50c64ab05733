"""Serializers and deserializers, and records that they cannot handle."""

from __future__ import annotations

import contextlib
import traceback
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import Deserializer, JsonSerializer, Serializer, TopicPartition
from thalweg.errors import DeserializationError

pytestmark = one_real_broker


class Stamped(Serializer[str], Deserializer[str]):
    """Serializes text, with a header that names the writer."""

    def __init__(self) -> None:
        self.closed = 0

    def serialize(self, topic: str, headers: Any, data: str | None) -> bytes | None:
        headers.append(("serialized-for", topic.encode()))
        return None if data is None else data.encode()

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> str:
        return f"{topic}/{len(headers)}/{(data or b'').decode()}"

    def close(self) -> None:
        self.closed += 1


class Old:
    """The interface of kafka-python 2.x: no headers."""

    def serialize(self, topic: str, value: str) -> bytes:
        return f"{topic}:{value}".encode()

    def deserialize(self, topic: str, data: bytes) -> str:
        return data.decode().removeprefix(f"{topic}:")


def test_json_goes_in_and_comes_out(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("json")
    producer = clients.producer(
        broker, key_serializer=JsonSerializer(), value_serializer=JsonSerializer()
    )
    values = [{"a": [1, 2, None]}, "größe", 3.5, None, True]
    for number, value in enumerate(values):
        producer.send(topic, value, key=number)
    producer.flush(20)
    consumer = clients.consumer(
        broker, topic, key_deserializer=JsonSerializer(), value_deserializer=JsonSerializer()
    )
    records = read(consumer, len(values))
    assert [(each.key, each.value) for each in records] == list(enumerate(values))


def test_plain_functions_and_older_shapes_are_taken(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("shapes")
    producer = clients.producer(broker, key_serializer=str.encode, value_serializer=Old())
    producer.send(topic, "value", key="key").get(20)
    raw = read(clients.consumer(broker, topic), 1)[0]
    assert (raw.key, raw.value) == (b"key", f"{topic}:value".encode())
    consumer = clients.consumer(
        broker, topic, key_deserializer=bytes.decode, value_deserializer=Old()
    )
    (record,) = read(consumer, 1)
    assert (record.key, record.value) == ("key", "value")
    assert (record.serialized_key_size, record.serialized_value_size) == (3, len(raw.value))


def test_a_serializer_sees_the_topic_and_may_add_headers(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("headers")
    serializer = Stamped()
    with clients.producer(broker, value_serializer=serializer) as producer:
        producer.send(topic, "value", headers=[("own", b"1")]).get(20)
    assert serializer.closed == 1
    (raw,) = read(clients.consumer(broker, topic), 1)
    assert raw.headers == [("own", b"1"), ("serialized-for", topic.encode())]
    with clients.consumer(broker, topic, value_deserializer=serializer) as consumer:
        (record,) = read(consumer, 1)
    assert record.value == f"{topic}/2/value"
    assert serializer.closed == 2


def test_serializers_apply_to_each_row_of_a_list(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("rows")
    producer = clients.producer(
        broker, key_serializer=lambda key: b"k%d" % key, value_serializer=str.encode
    )
    producer.send_many(topic, ["a", "b"], keys=[1, 2]).get(20)
    records = read(clients.consumer(broker, topic), 2)
    assert [(each.key, each.value) for each in records] == [(b"k1", b"a"), (b"k2", b"b")]


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_that_raises_fails_that_send_alone(
    broker: Broker, clients: Clients, part: str
) -> None:
    topic = broker.create_topic("raising")

    def picky(data: Any) -> bytes:
        if data == "bad":
            raise LookupError("cannot write this")
        return str(data).encode()

    producer = clients.producer(broker, key_serializer=picky, value_serializer=picky)
    sent = [producer.send(topic, "good", key="good")]
    with pytest.raises(LookupError, match="cannot write this") as caught:
        producer.send(topic, **{"key": "good", "value": "good", part: "bad"})  # type: ignore[arg-type]
    assert any(part in note and topic in note for note in caught.value.__notes__)
    sent.append(producer.send(topic, "good", key="good"))
    assert [each.get(20).offset for each in sent] == [0, 1]


def test_a_serializer_that_gives_no_bytes_fails_that_send_alone(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("nobytes")
    producer = clients.producer(broker, value_serializer=lambda data: data)
    with pytest.raises(TypeError):
        producer.send(topic, 5)
    assert producer.send(topic, b"bytes").get(20).offset == 0


def _picky(data: bytes | None) -> str:
    text = (data or b"").decode()
    if text.startswith("poison"):
        raise ValueError(f"cannot read {text}")
    return text


def _poisoned(broker: Broker, clients: Clients, part: str = "value") -> str:
    """Makes a topic in which the deserializer fails for record 3 of 6."""
    topic = broker.create_topic("poison")
    producer = clients.producer(broker)
    for number in range(6):
        row: dict[str, Any] = {"value": b"v%d" % number, "key": b"k%d" % number}
        if number == 3:
            row[part] = b"poison"
        producer.send(topic, **row, headers=[("h", b"1")], timestamp_ms=1000 + number)
    producer.flush(20)
    return topic


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_poison_record_is_raised_after_the_good_ones_and_the_position_stays(
    broker: Broker, clients: Clients, part: str
) -> None:
    """KIP-334. Scenario 33."""
    topic = _poisoned(broker, clients, part)
    where = TopicPartition(topic, 0)
    consumer = clients.consumer(broker, topic, key_deserializer=_picky, value_deserializer=_picky)
    assert [each.offset for each in read(consumer, 3)] == [0, 1, 2]
    for _ in range(2):  # the error repeats until the application acts
        with within(20), pytest.raises(DeserializationError, match=topic) as caught:
            consumer.poll(20_000)
        assert consumer.position(where) == 3
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.timestamp) == (topic, 0, 3, 1003)
    raw = {"key": b"k3", "value": b"v3", part: b"poison"}
    assert (error.key, error.value, error.headers) == (raw["key"], raw["value"], [("h", b"1")])
    assert error.part == part
    assert isinstance(error.__cause__, ValueError)
    where_it_raised = traceback.extract_tb(error.__cause__.__traceback__)[-1]
    assert where_it_raised.name == "_picky"
    consumer.seek(where, error.offset + 1)  # type: ignore[operator]
    assert [each.offset for each in read(consumer, 2)] == [4, 5]


def test_a_poison_record_ends_iteration_with_its_error(broker: Broker, clients: Clients) -> None:
    topic = _poisoned(broker, clients)
    consumer = clients.consumer(broker, topic, value_deserializer=_picky)
    assert [next(consumer).value for _ in range(3)] == ["v0", "v1", "v2"]
    with pytest.raises(DeserializationError):
        next(consumer)
    consumer.seek(TopicPartition(topic, 0), 4)
    assert [next(consumer).value for _ in range(2)] == ["v4", "v5"]


def test_poll_arrow_reads_past_what_no_deserializer_could(broker: Broker, clients: Clients) -> None:
    topic = _poisoned(broker, clients)
    consumer = clients.consumer(broker, topic)
    values: list[bytes] = []
    while len(values) < 6:
        table = consumer.poll_arrow(20_000).to_pyarrow()
        assert table.num_rows, f"nothing more after {values}"
        values += table.column("value").to_pylist()
    assert values[3] == b"poison"


def test_other_partitions_flow_past_a_poison_record(broker: Broker, clients: Clients) -> None:
    """KIP-334: the record stays until the application seeks past it. Scenario 33."""
    topic = broker.create_topic("besides", 2)
    producer = clients.producer(broker)
    producer.send(topic, b"poison", partition=0)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=1)
    producer.flush(20)
    consumer = clients.consumer(broker, topic, (0, 1), value_deserializer=_picky)
    found: list[Any] = []
    with within(30):
        while len(found) < 10:
            with contextlib.suppress(DeserializationError):  # raised, and not sought past
                for records in consumer.poll(1000).values():
                    assert records, "only partitions that have any"
                    found += records
    assert [each.value for each in found] == [str(number) for number in range(10)]
    with pytest.raises(DeserializationError):
        consumer.poll(20_000)


def test_ctrl_c_in_a_deserializer_is_no_fault_of_the_record(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("ctrlc")
    producer = clients.producer(embedded)
    producer.send_many(topic, [b"%d" % number for number in range(5)]).get(20)
    interrupts = [2]

    def deserialize(data: bytes) -> int:
        if interrupts and int(data) == interrupts[0]:
            interrupts.pop()
            raise KeyboardInterrupt
        return int(data)

    consumer = clients.consumer(embedded, topic, value_deserializer=deserialize)
    assert [each.value for each in read(consumer, 2)] == [0, 1]
    with within(30), pytest.raises(KeyboardInterrupt):
        consumer.poll(20_000)
    assert [each.value for each in read(consumer, 3)] == [2, 3, 4]


def test_a_header_of_a_wrong_type_is_named(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded)
    with pytest.raises(TypeError, match=r"the value of header .* must be bytes.* got int$"):
        producer.send("t", b"v", headers=[("h", 1)])  # type: ignore[list-item]
