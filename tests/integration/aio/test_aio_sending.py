"""AIOKafkaProducer: every way of sending a record, and the errors of a send."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.integration.aio.producers import made
from tests.integration.support.aio import run
from tests.integration.support.clients import Clients, read
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import JsonSerializer, ProducerInterceptor, TopicPartition
from thalweg.errors import InvalidTopicError, RecordTooLargeError, TopicAuthorizationFailedError


def test_records_arrive_in_order_and_futures_tell_where(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-order")
    values = [b"%06d" % number for number in range(3000)]

    async def program() -> list[Any]:
        async with made(broker) as producer:
            futures = [await producer.send(topic, value) for value in values]
            assert all(asyncio.isfuture(each) for each in futures)
            return [await each for each in futures]

    found = run(program())
    assert [each.offset for each in found] == list(range(3000))
    assert found[7].topic_partition == TopicPartition(topic, 0)
    assert found[7].serialized_value_size == 6
    assert [each.value for each in read(clients.consumer(broker, topic), 3000)] == values


def test_every_field_of_a_record_is_sent(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-fields", 2)

    async def program() -> Any:
        async with made(broker) as producer:
            return await producer.send_and_wait(
                topic, b"v", b"k", 1, 1_700_000_000_000, [("a", b"1"), ("a", None)]
            )

    metadata = run(program())
    assert (metadata.partition, metadata.timestamp) == (1, 1_700_000_000_000)
    record = read(clients.consumer(broker, topic, (1,)), 1)[0]
    assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1_700_000_000_000)
    assert record.headers == [("a", b"1"), ("a", None)]


@one_real_broker
def test_many_coroutines_send_at_once(broker: Broker) -> None:
    topic = broker.create_topic("aio-many", 4)

    async def program() -> list[Any]:
        async with made(broker) as producer:
            sends = (producer.send_and_wait(topic, b"%d" % each) for each in range(2000))
            return await asyncio.gather(*sends)

    where = [(each.partition, each.offset) for each in run(program())]
    assert len(set(where)) == 2000
    assert sum(broker.wire.end_offsets(topic).values()) == 2000


def test_tasks_append_in_the_order_in_which_they_were_made(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-tasks")

    async def program() -> list[int]:
        async with made(embedded) as producer:
            await producer.partitions_for(topic)
            tasks = [asyncio.create_task(producer.send(topic, b"v")) for _ in range(1500)]
            return [(await (await each)).offset for each in tasks]

    assert run(program()) == list(range(1500))


@one_real_broker
def test_errors_are_raised_where_send_is_awaited(broker: Broker) -> None:
    topic = broker.create_topic("aio-errors")

    async def program() -> None:
        async with made(broker, max_request_size=2000) as producer:
            with pytest.raises(RecordTooLargeError, match="max_request_size"):
                await producer.send(topic, bytes(3000))
            with pytest.raises(ValueError, match="Need at least one"):
                await producer.send(topic)
            with pytest.raises(TypeError, match="value_serializer"):
                await producer.send(topic, "text")
            with pytest.raises(ValueError, match="partition 9 of topic"):
                await producer.send(topic, b"v", partition=9)
            with pytest.raises(InvalidTopicError):
                await producer.send("no topic!", b"v")
            with pytest.raises(TypeError, match="topic must be a str"):
                await producer.send(b"bytes", b"v")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"timestamp_ms must be an int, .*got float 1\.5"):
                await producer.send(topic, b"v", timestamp_ms=1.5)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=f"timestamp_ms -1 of a record of topic {topic}:"):
                await producer.send(topic, b"v", timestamp_ms=-1)
            with pytest.raises(TypeError, match=r"header 'h' must be bytes.*encode it"):
                await producer.send(topic, b"v", headers=[("h", "x")])  # type: ignore[list-item]
            with pytest.raises(TypeError, match=r"not one bytes object; did you mean send\(\)\?$"):
                await producer.send_many(topic, b"abc")
            # None of these errors harmed the producer.
            assert (await producer.send_and_wait(topic, b"v")).offset == 0

    run(program())


def test_an_error_of_the_broker_fills_the_future(start_embedded: Any) -> None:
    broker = start_embedded()
    broker.create_topic("t")
    broker.faults.on("Produce").then_fail(29)  # TOPIC_AUTHORIZATION_FAILED

    async def program() -> None:
        async with made(broker) as producer:
            failed = await producer.send("t", b"v")
            with pytest.raises(TopicAuthorizationFailedError):
                await failed
            assert (await producer.send_and_wait("t", b"v")).offset == 0

    run(program())


@one_real_broker
def test_a_batch_is_built_by_hand_and_sent(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-batch", 2)

    async def program() -> tuple[Any, int]:
        async with made(broker, max_batch_size=1000) as producer:
            batch = producer.create_batch()
            count = 0
            while batch.append(timestamp=None, key=b"k", value=b"%04d" % count, headers=[]):
                count += 1
            assert batch.record_count() == count
            assert batch.closed()
            assert 900 < batch.size() <= 1000
            return await (await producer.send_batch(batch, topic, partition=1)), count

    metadata, count = run(program())
    assert (metadata.partition, metadata.offset) == (1, 0)
    records = read(clients.consumer(broker, topic, (1,)), count)
    assert [each.value for each in records] == [b"%04d" % each for each in range(count)]


@one_real_broker
def test_lists_and_columns_are_sent_at_once(broker: Broker, clients: Clients) -> None:
    import pyarrow as pa

    topic, elsewhere = broker.create_topic("aio-columns"), broker.create_topic("aio-elsewhere", 3)
    values = [b"%06d" % number for number in range(5000)]

    async def program() -> tuple[Any, Any]:
        async with made(broker) as producer:
            listed = await producer.send_many(topic, values, headers=[[("h", b"%d" % 1)]] * 5000)
            table = pa.table({"value": pa.array(values, pa.binary())})
            columns = await producer.send_arrow(topic, table)
            chosen = await producer.send_arrow(elsewhere, table, partition=1)
            assert (await chosen).partitions == {(elsewhere, 1): (5000, 0, 4999)}
            return await listed, await columns

    listed, columns = run(program())
    assert (listed.count, columns.count) == (5000, 5000)
    assert list(listed.offsets) == list(range(5000))
    assert columns.partitions == {(topic, 0): (5000, 5000, 9999)}
    records = read(clients.consumer(broker, topic), 10_000)
    assert [each.value for each in records] == values * 2
    assert records[4999].headers == [("h", b"1")]


def test_python_steps_run_as_in_the_synchronous_producer(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("aio-steps", 3)
    heard: list[Any] = []

    class Tell(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            return record._replace(key="changed") if record.key == "key" else record

        def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
            heard.append((metadata and metadata.offset, type(exception)))

    def last(key: Any, all_partitions: list[int], available: list[int]) -> int:
        return all_partitions[-1]

    async def program() -> None:
        options: dict[str, Any] = {
            "value_serializer": JsonSerializer(),
            "key_serializer": lambda key: key and key.encode(),
            "partitioner": last,
            "interceptor_classes": [Tell()],
        }
        async with made(embedded, **options) as producer:
            assert (await producer.send_and_wait(topic, {"a": 1}, "key")).partition == 2
            with pytest.raises(TypeError) as raised:
                await producer.send(topic, {1, 2})
            assert f"topic '{topic}'" in raised.value.__notes__[0]
            many = await producer.send_many(topic, [[1], [2]])
            assert (await many).count == 2

    run(program())
    records = read(clients.consumer(embedded, topic, (2,)), 3)
    assert [(each.key, each.value) for each in records] == [
        (b"changed", b'{"a": 1}'),
        (None, b"[1]"),
        (None, b"[2]"),
    ]
    wait_until(lambda: len(heard) == 4, what=lambda: f"four outcomes in {heard}")
    assert Counter(kind for _, kind in heard) == {type(None): 3, TypeError: 1}
