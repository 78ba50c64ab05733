"""AIOKafkaProducer: results reach the loop, waits do not block it, cancelling writes once."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.aio import LIMIT_S, run, until
from tests.integration.support.clients import Clients, read, read_more, within
from tests.integration.support.scripts import run as run_program
from tests.support.brokers import Broker
from tests.support.ports import free_port
from tests.support.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, JsonSerializer, ProducerInterceptor, TopicPartition
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)

MEMORY = 1_000_000


def made(broker: Any, **options: Any) -> AIOKafkaProducer[Any, Any]:
    return AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options)


class Ticks:
    """Counts the turns of the loop during a block, and measures the longest pause between them."""

    async def __aenter__(self) -> Ticks:
        self.count, self.longest_s = 0, 0.0
        self._task = asyncio.create_task(self._tick())
        return self

    async def _tick(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            self.count, self.longest_s, last = self.count + 1, max(self.longest_s, now - last), now

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()


@pytest.fixture
def silent(start_embedded: Any) -> EmbeddedBroker:
    """A broker that accepts Produce requests and never responds to them."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("full")
    broker.faults.on("Produce").then_silence(times=None)
    return broker


# ---------------------------------------------------------------- sending


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
        async with made(broker, max_request_size=2000, max_block_ms=3000) as producer:
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
    wait_until(lambda: len(heard) == 4, 5, what=lambda: f"four outcomes in {heard}")
    assert Counter(kind for _, kind in heard) == {type(None): 3, TypeError: 1}


# ---------------------------------------------------------------- waiting


def test_a_full_buffer_suspends_the_send_and_not_the_loop(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded()
    broker.create_topic("slow")
    broker.faults.on("Produce").then_delay(10, times=None)

    async def program() -> float:
        options = {"buffer_memory": MEMORY, "batch_size": 20_000, "linger_ms": 0}
        async with made(broker, **options) as producer, Ticks() as ticks:
            for _ in range(4000):
                await producer.send("slow", bytes(1000))
                figures = producer.metrics()["producer-metrics"]
                assert 0 <= figures["buffer-available-bytes"] <= MEMORY
            assert figures["bufferpool-wait-time-ns-total"] > 0
            assert figures["buffer-exhausted-total"] == 0
            await producer.flush()
        assert ticks.count > 10
        return ticks.longest_s

    assert run(program()) < 1
    assert len(read(clients.consumer(broker, "slow"), 4000)) == 4000


def test_a_wait_for_memory_ends_with_max_block_ms(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY, max_block_ms=300)
        await producer.start()
        accepted: list[Any] = []

        async def fill() -> None:
            while True:
                accepted.append(await producer.send("full", bytes(1000)))

        with pytest.raises(BufferExhaustedError, match="max_block_ms"):
            await fill()
        assert 0.5 * MEMORY <= len(accepted) * 1000 <= MEMORY
        async with Ticks() as ticks:
            with pytest.raises(BufferExhaustedError):
                await producer.send("full", bytes(1000))
        assert ticks.count > 10
        assert not any(each.done() for each in accepted)
        await producer.stop(timeout=0)
        assert all(isinstance(each.exception(), KafkaTimeoutError) for each in accepted)

    run(program())


def test_columns_wait_for_memory_too(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY)
        await producer.start()
        values = [bytes(1000)] * 5000
        sending = asyncio.create_task(producer.send_many("full", values))
        exhausted = lambda: producer.metrics()["producer-metrics"]["waiting-threads"]  # noqa: E731
        await until(exhausted, "a full buffer")
        assert not sending.done()
        silent.faults.clear()
        # The swallowed requests are lost on this connection. The test only checks that all
        # records are sent once memory is available.
        await producer.stop(timeout=0)
        future = await sending
        error: Any = future.exception()
        assert error is not None
        assert len(error.errors) == 5000 - error.metadata.count

    run(program())


def test_waiting_for_a_topic_does_not_block_and_ends(broker: Broker) -> None:
    async def program() -> None:
        options = {"max_block_ms": 400, "allow_auto_create_topics": False}
        async with made(broker, **options) as producer, Ticks() as ticks:
            with pytest.raises(KafkaTimeoutError, match="max_block_ms"):
                await producer.send("aio-there-is-none", b"v")
            with pytest.raises(KafkaTimeoutError):
                await producer.partitions_for("aio-there-is-none")
        assert ticks.count > 20

    run(program())


def test_a_topic_that_appears_ends_the_wait(embedded: Broker) -> None:
    topic = embedded.unused_name("aio-appears")

    async def program() -> Any:
        async with made(embedded, allow_auto_create_topics=False) as producer:
            send = asyncio.create_task(producer.send_and_wait(topic, b"v"))
            await asyncio.sleep(0.05)
            assert not send.done()
            await asyncio.to_thread(embedded.wire.create_topic, topic)
            return await send

    with within(10):  # max_block_ms would allow 60 s
        record = run(program())
    assert (record.topic, record.offset) == (topic, 0)


def test_start_does_not_block_and_names_each_broker() -> None:
    address = f"127.0.0.1:{free_port()}"

    async def program() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, bootstrap_timeout_ms=500)
        async with Ticks() as ticks:
            with pytest.raises(NoBrokersAvailable, match=address):
                await producer.start()
        assert ticks.count > 20
        assert ticks.longest_s < 0.3
        with pytest.raises(IllegalStateError, match="start"):
            await producer.send("t", b"v")
        await producer.stop()

    run(program())


# ---------------------------------------------------------------- cancelling


@one_real_broker
def test_cancelled_sends_are_written_once_or_never(broker: Broker, clients: Clients) -> None:
    """Scenario 43."""
    topic = broker.create_topic("aio-cancel", 2)
    rng = random.Random(4)

    async def program() -> tuple[set[int], set[int]]:
        # A request has one batch and only one is in flight, so memory becomes free slowly.
        options = {
            "buffer_memory": 300_000,
            "batch_size": 4000,
            "linger_ms": 2,
            "max_request_size": 4200,
            "max_in_flight_requests_per_connection": 1,
        }
        accepted, refused = set(), set()
        async with made(broker, **options) as producer:

            async def one(number: int) -> None:
                value = b"%06d" % number + bytes(rng.randrange(2000))
                try:
                    future = await producer.send(topic, value)
                except asyncio.CancelledError:
                    refused.add(number)
                    raise
                accepted.add(number)
                await future

            # Run until all have tried once and many wait for memory. Cancel some while they wait.
            tasks: list[asyncio.Task[None]] = []
            waiting: list[int] = []
            while len(tasks) < 1500 or len(waiting) < 100:
                assert len(tasks) < 200_000, "memory is back as fast as it is taken"
                numbers = range(len(tasks), len(tasks) + 500)
                tasks += [asyncio.create_task(one(number)) for number in numbers]
                await asyncio.sleep(0)
                waiting = [number for number in range(len(tasks)) if number not in accepted]
            for number in rng.sample(waiting, 100):
                tasks[number].cancel()
            cancelled = rng.sample(tasks, len(tasks) // 2 - 100)
            while cancelled:
                await asyncio.sleep(rng.choice((0, 0, 0, 0.001)))
                for task in cancelled[-20:]:
                    task.cancel()
                del cancelled[-20:]
            await asyncio.gather(*tasks, return_exceptions=True)
            await producer.flush()
        assert len(accepted) >= len(tasks) // 2
        return accepted, refused

    accepted, refused = run(program())
    assert len(refused) >= 100
    sent = sum(broker.wire.end_offsets(topic).values())
    consumer = clients.consumer(broker, topic, (0, 1))
    records = [*read(consumer, sent), *read_more(consumer)]
    found = Counter(int(each.value[:6]) for each in records)
    assert max(found.values()) == 1
    assert accepted <= found.keys()
    assert found.keys() - accepted <= refused


def test_a_send_that_is_cancelled_while_it_waits_is_not_sent(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY)
        await producer.start()
        figure = lambda name: producer.metrics()["producer-metrics"][name]  # noqa: E731
        tasks = [
            asyncio.create_task(producer.send("full", b"%04d" % each + bytes(9000)))
            for each in range(200)
        ]
        await until(lambda: figure("waiting-threads") > 0, "somebody waiting for memory")
        await asyncio.sleep(0)
        waiting = [each for each in tasks if not each.done()]
        assert waiting
        for each in waiting:
            each.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results)
        # They have given up their places in the queue for memory.
        assert figure("waiting-threads") == 0
        await producer.stop(timeout=0)
        assert figure("buffer-available-bytes") == MEMORY

    run(program())


@one_real_broker
def test_a_cancelled_future_leaves_its_record(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-future")

    async def program() -> None:
        async with made(broker, linger_ms=100) as producer:
            first = await producer.send(topic, b"cancelled")
            assert first.cancel()
            waiting = asyncio.create_task(producer.send_and_wait(topic, b"waiting"))
            # One turn of the loop: the record is sent, and its response cannot have arrived.
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await producer.send_and_wait(topic, b"last")).offset == 2

    run(program())
    found = [each.value for each in read(clients.consumer(broker, topic), 3)]
    assert found == [b"cancelled", b"waiting", b"last"]


def test_a_future_is_used_as_asyncios_are(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    # A task that waits ends the linger. Then it waits for the slow broker.
    broker.faults.on("Produce").then_delay(300)

    async def program() -> None:
        called: list[Any] = []

        def never(future: Any) -> None:
            called.append("never")

        # Nothing is sent before something waits.
        async with made(broker, linger_ms=60_000) as producer:
            sent: list[Any] = [await producer.send("t", b"v") for _ in range(4)]
            first, second, third, fourth = sent
            assert asyncio.isfuture(first)
            assert first.get_loop() is asyncio.get_running_loop()
            assert not first.done()
            assert "pending" in repr(first)
            with pytest.raises(asyncio.InvalidStateError):
                first.result()
            first.add_done_callback(called.append)
            for _ in range(2):
                first.add_done_callback(never)
            assert first.remove_done_callback(never) == 2
            assert fourth.cancel("enough")
            assert not fourth.cancel()
            assert fourth.cancelled()
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await fourth
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(third), 0.01)
            waiting = asyncio.create_task(asyncio.wait([first, second]))
            await asyncio.sleep(0)
            await producer.flush()
            done, pending = await waiting
            assert done == {first, second}
            assert not pending
            found: list[Any] = await asyncio.gather(*sent, return_exceptions=True)
            assert [each.offset for each in found[:3]] == [0, 1, 2]
            assert isinstance(found[3], asyncio.CancelledError)
            assert first.exception() is None
            assert "finished" in repr(first)
            assert called == [first]
            # Callbacks that are added late run soon, too, and may await the future again.
            first.add_done_callback(called.append)
            assert len(called) == 1
            await asyncio.sleep(0)
            assert called == [first, first]
            assert await first == first.result()

    run(program())


def test_callbacks_of_a_future_come_in_the_order_of_their_adding(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-order-of-callbacks")

    async def program() -> list[int]:
        called: list[int] = []
        async with made(embedded, linger_ms=60_000) as producer:
            future = await producer.send(topic, b"v")
            future.add_done_callback(lambda _: called.append(1))
            # The record is sent and its batch done before the loop can call anything back.
            flushing = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            wait_until(future.done, LIMIT_S / 2)
            future.add_done_callback(lambda _: called.append(2))
            await flushing
            await asyncio.sleep(0)
        return called

    assert run(program()) == [1, 2]


def test_a_future_may_be_awaited_by_many_tasks(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-awaited")

    async def program() -> None:
        async with made(embedded, linger_ms=60_000) as producer:
            future = await producer.send(topic, b"v")

            async def wait() -> Any:
                return await future

            tasks = [asyncio.create_task(wait()) for _ in range(5)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            # As with asyncio's own futures, cancelling a task that awaits a future cancels the
            # future.
            assert all(isinstance(each, asyncio.CancelledError) for each in found)
            future = await producer.send(topic, b"v")
            waiting = asyncio.gather(*(wait() for _ in range(5)))
            await asyncio.sleep(0)
            await producer.flush()
            assert [each.offset for each in await waiting] == [1] * 5

    run(program())


@pytest.mark.parametrize("how", ["dropped", "kept", "called", "asked too early"])
def test_errors_that_nobody_asks_for_are_told_to_the_loop(start_embedded: Any, how: str) -> None:
    broker = start_embedded()
    broker.create_topic("t")
    broker.faults.on("Produce").then_fail(29)  # TOPIC_AUTHORIZATION_FAILED

    async def program() -> list[Any]:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        async with made(broker, linger_ms=60_000) as producer:
            futures: list[Any] = [await producer.send("t", b"v") for _ in range(3)]
            if how == "dropped":
                futures.clear()
            for each in futures:
                if how == "called":
                    each.add_done_callback(lambda _: None)
                if how == "asked too early":
                    with pytest.raises(asyncio.InvalidStateError):
                        each.result()
            await producer.flush()
            await asyncio.sleep(0)
            each = None
            futures.clear()
            await asyncio.sleep(0)
            # Outcomes that were awaited or successful are not reported.
            asked = await producer.send("t", b"v")
            await producer.send("t", b"v")
            await producer.flush()
            await asked
        return told

    told = run(program())
    assert len(told) == (1 if how == "dropped" else 3)
    assert "never retrieved" in told[0]["message"]
    assert ("3 records" in told[0]["message"]) == (how == "dropped")
    assert "authori" in str(told[0]["exception"]).lower()


def test_a_refused_record_keeps_no_frames(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("forbidden")

    class Held:
        """A local object of the task that awaits."""

    async def program() -> weakref.ref[Held]:
        async with made(broker) as producer:
            broker.faults.on("Metadata").then_fail(29, times=None)  # TOPIC_AUTHORIZATION_FAILED

            async def waits() -> weakref.ref[Held]:
                held = Held()
                future = await producer.send("forbidden", b"v")
                for _ in range(2):
                    with pytest.raises(TopicAuthorizationFailedError):
                        await future
                return weakref.ref(held)

            return await waits()

    gone = run(program())
    gc.collect()
    assert gone() is None


def test_a_loop_with_futures_that_nobody_completes_is_collected(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-collected")

    async def program(producer: Any) -> None:
        await producer.start()
        future = await producer.send(topic, b"v")
        future.add_done_callback(lambda _: future)

        async def waits() -> None:
            await future

        asyncio.get_running_loop().never_done = asyncio.create_task(waits())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    producer = made(embedded, linger_ms=60_000)
    loop = asyncio.SelectorEventLoop()
    loop.run_until_complete(program(producer))
    completions = producer._completions
    assert completions is not None
    gone = weakref.ref(loop), weakref.ref(completions)
    loop.close()
    producer._close_blocking(0)
    del loop, completions, producer
    gc.collect()
    assert [each() for each in gone] == [None, None]


@one_real_broker
def test_a_cancelled_flush_or_stop_loses_nothing(broker: Broker, clients: Clients) -> None:
    """Scenario 43."""
    topic = broker.create_topic("aio-stop")

    async def program() -> None:
        producer = made(broker, linger_ms=60_000)
        await producer.start()
        futures = [await producer.send(topic, b"%d" % each) for each in range(100)]
        flushing = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        stopping = asyncio.create_task(producer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.gather(flushing, stopping, return_exceptions=True)
        assert flushing.cancelled()
        # If this thread was not scheduled for a while, stop() has ended before the cancel.
        assert stopping.cancelled() or stopping.result() is None
        await producer.stop()
        assert producer.closed
        assert sorted(each.result().offset for each in futures) == list(range(100))

    run(program())
    assert len(read(clients.consumer(broker, topic), 100)) == 100


def test_a_cancelled_start_may_be_tried_again(start_embedded: Any) -> None:
    broker = start_embedded()
    topic = broker.create_topic("aio-again") or "aio-again"
    broker.faults.on("Metadata").then_delay(300)

    async def program() -> int:
        producer = made(broker)
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0.05)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with producer:
            return (await producer.send_and_wait(topic, b"v")).offset

    assert run(program()) == 0


# ---------------------------------------------------------------- stopping


@one_real_broker
def test_stop_sends_what_is_buffered_and_is_final(broker: Broker) -> None:
    topic = broker.create_topic("aio-final")

    async def program() -> None:
        producer = made(broker, linger_ms=60_000)
        await producer.start()
        futures = [await producer.send(topic, b"v") for _ in range(500)]
        await asyncio.gather(producer.stop(), producer.stop())
        assert [each.result().offset for each in futures] == list(range(500))
        await producer.stop()
        for call in (producer.send(topic, b"v"), producer.flush(), producer.partitions_for(topic)):
            with pytest.raises(IllegalStateError, match="closed"):
                await call
        with pytest.raises(IllegalStateError, match="started already"):
            await producer.start()

    run(program())
    assert broker.wire.end_offsets(topic) == {0: 500}


def test_stop_with_a_limit_counts_what_is_left(
    silent: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        producer = made(silent)
        await producer.start()
        futures = [await producer.send("full", b"v") for _ in range(7)]
        await producer.stop(timeout=0.3)
        for each in futures:
            with pytest.raises(KafkaTimeoutError, match="7 records"):
                await each

    with caplog.at_level(logging.WARNING, "thalweg"):
        run(program())
        assert "stopped with 7 records not acknowledged" in caplog.text


def test_stop_ends_sends_that_wait(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY, allow_auto_create_topics=False)
        await producer.start()
        waiting = [asyncio.create_task(producer.send("full", bytes(9000))) for _ in range(200)]
        waiting.append(asyncio.create_task(producer.send("nothing-here", b"v")))
        await asyncio.sleep(0.1)
        await producer.stop(timeout=0)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[-1], IllegalStateError)
        # A late record may have fitted into an open batch. Then the future of that one fails.
        refused = [each for each in found if isinstance(each, IllegalStateError)]
        accepted = [each for each in found if not isinstance(each, BaseException)]
        assert len(refused) > 50
        assert len(refused) + len(accepted) == len(found)
        assert all(isinstance(each.exception(), KafkaTimeoutError) for each in accepted)

    run(program())


@one_real_broker
def test_unsent_records_are_sent_at_the_interpreters_exit(broker: Broker) -> None:
    topic = broker.create_topic("aio-exit")
    source = """
    import asyncio
    from thalweg.aio import AIOKafkaProducer

    async def main():
        global producer
        producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        await producer.start()
        for _ in range(100):
            await producer.send(sys.argv[2], b"v")

    asyncio.run(main())
    """
    ended = run_program(source, broker.bootstrap_servers, topic)
    assert ended.code == 0, ended.err
    assert broker.wire.end_offsets(topic) == {0: 100}


def test_a_loop_that_closes_first_does_no_harm(
    start_embedded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_embedded()
    broker.create_topic("late")
    broker.faults.on("Produce").then_delay(200, times=None)

    async def program(producer: Any) -> Any:
        await producer.start()
        return await producer.send("late", b"v")

    for loop_factory in (asyncio.new_event_loop, WithoutReaders):
        producer = made(broker)
        loop = loop_factory()
        with caplog.at_level(logging.DEBUG, "thalweg"):
            future = loop.run_until_complete(program(producer))
            loop.close()
            wait_until(partial(acknowledged, producer), what="the record being written")
            producer._close_blocking(5)
        # The batch has its result, whatever happened to the loop.
        assert future.result().topic == "late"


def acknowledged(producer: Any) -> bool:
    metrics: dict[str, Any] = producer.metrics()["producer-metrics"]
    return bool(metrics["record-send-total"] >= 1 and metrics["requests-in-flight"] == 0)


# ---------------------------------------------------------------- loops, threads, processes


class WithoutReaders(asyncio.SelectorEventLoop):
    """Like Windows' proactor loop, it cannot watch the application's descriptors."""

    wakes = 0

    def add_reader(self, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError

    def remove_reader(self, *args: Any) -> bool:
        raise NotImplementedError

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        self.wakes += 1
        return super().call_soon_threadsafe(*args, **kwargs)


@one_real_broker
def test_a_loop_without_readers_is_woken_once_for_many_outcomes(broker: Broker) -> None:
    topic = broker.create_topic("aio-no-readers")

    async def program(count: int) -> list[int]:
        # The last batch is not full: its result arrives when the loop has waited for a long time.
        async with made(broker, linger_ms=500) as producer:
            futures = [await producer.send(topic, b"v") for _ in range(count)]
            return [(await each).offset for each in futures]

    with asyncio.Runner(loop_factory=WithoutReaders) as runner:
        assert runner.run(program(3000)) == list(range(3000))
        loop: Any = runner.get_loop()
        assert 0 < loop.wakes < 300


@one_real_broker
def test_two_loops_in_two_threads_have_a_producer_each(broker: Broker) -> None:
    topic = broker.create_topic("aio-threads", 2)
    failed: list[BaseException] = []

    async def program(partition: int) -> None:
        async with made(broker) as producer:
            for _ in range(20):
                futures = [
                    await producer.send(topic, b"v", partition=partition) for _ in range(100)
                ]
                await asyncio.gather(*futures)

    def thread(partition: int) -> None:
        try:
            run(program(partition))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread, args=(each,)) for each in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LIMIT_S)
    assert failed == []
    assert broker.wire.end_offsets(topic) == {0: 2000, 1: 2000}


def test_another_loop_is_refused_with_a_clear_error(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-loops")
    calls: list[Callable[[Any], Awaitable[Any]]] = [
        lambda producer: producer.send(topic, b"v"),
        lambda producer: producer.send_many(topic, [b"v"]),
        lambda producer: producer.flush(),
        lambda producer: producer.stop(),
    ]

    async def program() -> None:
        async with made(embedded) as producer:
            for call in calls:

                async def elsewhere(call: Any = call) -> None:
                    with pytest.raises(IllegalStateError, match="another event loop"):
                        await call(producer)

                await asyncio.to_thread(asyncio.run, elsewhere())
            # The producer still works in its own loop.
            await producer.send_and_wait(topic, b"v")

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 1}


def test_another_loop_is_refused_while_a_task_of_its_own_is_at_work(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-busy-loops")
    attempts = 2_000

    async def program() -> int:
        sent = 0
        async with made(embedded) as producer:
            await producer.send_and_wait(topic, b"v")

            async def elsewhere() -> None:
                for _ in range(attempts):
                    with pytest.raises(IllegalStateError, match="another event loop"):
                        await producer.send(topic, b"not this")

            other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
            while not other.done():
                await producer.send(topic, b"v")
                sent += 1
            await other
        return sent + 1

    sent = run(program())
    assert embedded.wire.end_offsets(topic) == {0: sent}


def test_awaitables_may_be_driven_by_hand(embedded: Broker) -> None:
    """Libraries that wrap coroutines call `send` and `next`, with results in StopIteration."""
    topic = embedded.create_topic("aio-by-hand")

    async def program() -> None:
        async with made(embedded) as producer:
            await producer.send_and_wait(topic, b"v")
            with pytest.raises(StopIteration) as sent:
                producer.send(topic, b"v").__await__().send(None)
            future = sent.value.value
            assert await future == future.result()
            with pytest.raises(StopIteration) as outcome:
                next(future.__await__())
            assert outcome.value.value == future.result()
            # When traced, the interpreter takes results as from any iterator.
            before = sys.gettrace()
            sys.settrace(lambda *event: None)
            try:
                traced = await producer.send_and_wait(topic, b"v")
            finally:
                sys.settrace(before)
            assert traced.offset == future.result().offset + 1
            in_a_task = await asyncio.create_task(producer.send(topic, b"v"))
            assert (await in_a_task).offset == traced.offset + 1
            call = producer.send(topic, b"v")
            await call
            with pytest.raises(RuntimeError, match="already awaited"):
                await call

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 5}


@pytest.mark.parametrize("option", ["value_serializer", "partitioner"])
def test_a_stop_iteration_of_the_users_is_an_error_and_no_result(
    embedded: Broker, option: str
) -> None:
    topic = embedded.create_topic("aio-stop-iteration")
    none_left: Any = iter(())

    async def program() -> None:
        async with made(embedded, **{option: lambda *given: next(none_left)}) as producer:
            for sent in (producer.send, lambda *record: _in_a_task(producer.send(*record))):
                with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
                    await sent(topic, b"v", b"k")
                assert isinstance(raised.value.__cause__, StopIteration)

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 0}


async def _in_a_task(call: Any) -> Any:
    return await asyncio.create_task(call)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_producer_starts_no_thread(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-no-threads")

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    async def program() -> list[int]:
        counts = []
        producers = []
        for _ in range(12):
            producers.append(made(embedded))
            await producers[-1].start()
            await producers[-1].send_and_wait(topic, b"v")
            counts.append(threads())
        for each in producers:
            await each.stop()
        return counts

    run(program())  # starts what is started once per process
    counts = run(program())
    assert max(counts) == min(counts), counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told_and_the_parent_goes_on(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-fork")
    source = """
    import asyncio, warnings
    from thalweg.aio import AIOKafkaProducer
    warnings.simplefilter("ignore")
    servers, topic = sys.argv[1:3]

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        await producer.send_and_wait(topic, b"before")
        pid = os.fork()
        if pid == 0:
            try:
                await producer.send(topic, b"child")
            except errors.IllegalStateError as told:
                await producer.stop()
                os._exit(0 if producer.closed and "fork" in str(told) else 2)
            os._exit(1)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        await producer.send_and_wait(topic, b"after")
        await producer.stop()

    asyncio.run(main())
    """
    ended = run_program(source, embedded.bootstrap_servers, topic)
    assert (ended.code, ended.out.strip()) == (0, "child 0"), ended.err
    assert embedded.wire.end_offsets(topic) == {0: 2}


def test_a_call_that_nobody_awaits_does_nothing_and_is_told(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-never")

    async def program() -> None:
        async with made(embedded) as producer:
            with pytest.warns(RuntimeWarning, match="never awaited"):
                producer.send(topic, b"v")  # type: ignore[unused-coroutine]
            call = producer.send(topic, b"v")
            await call
            with pytest.raises(RuntimeError, match="already awaited"):
                await call
            assert asyncio.iscoroutine(call)

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 1}


def test_a_loop_of_sends_leaves_turns_to_others(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-turns")

    async def program() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with made(embedded) as producer:
            await producer.partitions_for(topic)
            task = asyncio.create_task(other())
            for _ in range(10_000):
                await producer.send(topic, b"v")
            task.cancel()
        return turns

    assert run(program()) >= 15
