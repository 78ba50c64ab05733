"""AIOKafkaConsumer: how it starts, stops and ends with its loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.support.aio import LIMIT_S, filled, made, read_one, run, until
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.ports import free_port
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from thalweg.aio import AIOKafkaConsumer
from thalweg.errors import ConsumerStoppedError, IllegalStateError, NoBrokersAvailable


@one_real_broker
def test_stopping_ends_loops_and_waits(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 3)

    async def program() -> None:
        consumer = made(broker, topic)
        await consumer.start()
        found: list[int] = []

        async def read_all() -> None:
            async for record in consumer:
                found.append(int(record.value))  # noqa: PERF401, seen as they arrive

        reading = asyncio.create_task(read_all())
        await until(lambda: len(found) == 3)
        waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=50_000))
        await asyncio.sleep(0.05)
        await consumer.stop()
        await asyncio.wait_for(reading, 25)
        with pytest.raises(ConsumerStoppedError):
            await asyncio.wait_for(waiting, 25)
        for call in (consumer.getone, consumer.getmany, consumer.commit):
            with pytest.raises(ConsumerStoppedError):
                await call()
        await consumer.stop()
        assert consumer.closed

    run(program())


def test_a_call_that_begins_while_the_consumer_stops_says_so(start_embedded: Any) -> None:
    """Each call checks whether the client is closed. A stop may come at any point of the check."""
    broker = start_embedded()
    broker.create_topic("stopped")
    partition = TopicPartition("stopped", 0)

    async def ask_for_ever(consumer: AIOKafkaConsumer[Any, Any]) -> None:
        while True:
            for _ in range(100):
                # The public calls look at a flag of Python first.
                await consumer._calls.position(partition, 30_000)
            await asyncio.sleep(0)

    async def program() -> None:
        end = time.monotonic() + LIMIT_S / 4
        for _ in range(300):
            if time.monotonic() > end:
                break  # a slow machine makes fewer attempts
            consumer = made(broker)
            await consumer.start()
            consumer.assign([partition])
            await consumer.position(partition)
            stopping = asyncio.ensure_future(consumer.stop())
            with pytest.raises(ConsumerStoppedError):
                await ask_for_ever(consumer)
            await stopping

    run(program())


def test_a_stop_that_is_cancelled_goes_on(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 3)

    async def program() -> None:
        consumer = made(broker, topic, group_id=topic)
        await consumer.start()
        await consumer.getone()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        await consumer.stop()
        async with made(broker, topic, group_id=topic) as following:
            assert (await following.getone()).offset == 1

    run(program())


@one_real_broker
def test_a_start_that_found_no_broker_may_be_tried_again(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)

    async def program() -> None:
        nowhere = f"127.0.0.1:{free_port()}"
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=nowhere, bootstrap_timeout_ms=200)
        await consumer.unsubscribe()
        consumer.unsubscribe()
        with pytest.raises(ValueError, match="topics or pattern"):
            consumer.subscribe()
        consumer.subscribe([topic])
        with pytest.raises(NoBrokersAvailable):
            await consumer.start()
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.getone()
        assert not consumer.closed
        consumer.config["bootstrap_servers"] = broker.bootstrap_servers.split(",")
        consumer.config["bootstrap_timeout_ms"] = 30_000
        await consumer.start()
        assert consumer.assignment() == {TopicPartition(topic, 0)}
        with pytest.raises(IllegalStateError, match="already started"):
            await consumer.start()
        await consumer.stop()

    run(program())


@one_real_broker
def test_it_belongs_to_the_loop_that_started_it(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 2)
    loop = asyncio.new_event_loop()
    consumer = made(broker, topic)
    loop.run_until_complete(consumer.start())
    try:
        with pytest.raises(IllegalStateError, match="another event loop"):
            asyncio.run(read_one(consumer))
        assert loop.run_until_complete(read_one(consumer)) == 0
    finally:
        loop.run_until_complete(consumer.stop())
        loop.close()


@one_real_broker
def test_one_that_was_not_stopped_is_told_of(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)
    before = _threads()

    async def program() -> None:
        consumer = made(broker, topic)
        await consumer.start()
        await consumer.getone()

    def forgotten() -> None:
        run(program())
        gc.collect()

    with pytest.warns(ResourceWarning, match="was not stopped"):
        forgotten()
    assert _threads() <= before


def _threads() -> set[threading.Thread]:
    """Returns the threads that Python started. enumerate() lists native ones that have logged."""
    dummy = threading._DummyThread
    return {each for each in threading.enumerate() if not isinstance(each, dummy)}


@one_real_broker
def test_who_knows_its_consumer_keeps_nothing_alive(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)

    class Knows(ConsumerRebalanceListener):
        consumer: Any = None

        def on_partitions_revoked(self, revoked: Any) -> None: ...
        def on_partitions_assigned(self, assigned: Any) -> None: ...

    def left_behind() -> list[weakref.ref[Any]]:
        async def program() -> weakref.ref[Any]:
            listener = Knows()
            consumer = listener.consumer = made(broker, group_id=topic)
            consumer.subscribe([topic], listener=listener)
            async with consumer:
                await consumer.getone()
            return weakref.ref(listener)

        listener = Knows()
        with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic) as it:
            listener.consumer = it
            it.subscribe([topic], listener=listener)
        return [run(program()), weakref.ref(listener)]

    references = left_behind()

    def all_gone() -> bool:
        gc.collect()
        return not any(each() for each in references)

    # The I/O thread gives up a moment later what was in progress at the close.
    wait_until(all_gone, 10, what="the listeners' end")


@one_real_broker
@pytest.mark.parametrize("call", ["getone", "getmany", "async for"])
def test_a_client_closed_in_the_middle_of_a_check_counts_as_stopped(
    broker: Broker, clients: Clients, call: str
) -> None:
    """The consumer looked whether it was stopped just before its client was closed."""
    topic = broker.create_topic("aio-closed")

    async def program() -> None:
        consumer = made(broker, topic, group_id=topic)
        work = consumer._driver.before_poll

        def closing(*arguments: Any) -> Any:
            consumer._consumer._shutdown(5000)
            return work(*arguments)

        is_closing = False
        consumer._driver.before_poll = lambda *given: (  # type: ignore[method-assign]
            closing(*given) if is_closing else work(*given)
        )
        await consumer.start()
        is_closing = True
        consumer.unsubscribe()  # so that the coordinator has work
        consumer.subscribe([topic])
        if call == "async for":
            assert [record async for record in consumer] == []
        else:
            waiting = consumer.getone() if call == "getone" else consumer.getmany(timeout_ms=30_000)
            with pytest.raises(ConsumerStoppedError):
                await waiting
        await consumer.stop()

    run(program())


@one_real_broker
def test_a_loop_that_ends_in_the_middle_of_a_wait_leaves_nothing_behind(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("aio-left")

    def left_behind() -> weakref.ref[Any]:
        loop = asyncio.new_event_loop()
        consumer = made(broker, topic)
        loop.run_until_complete(consumer.start())
        task = loop.create_task(consumer.getone())
        loop.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        return weakref.ref(consumer._consumer)

    with pytest.warns(ResourceWarning, match="was not stopped"):
        reference = left_behind()

    def gone() -> bool:
        gc.collect()
        return reference() is None

    wait_until(gone, 10, what="the consumer's end")


def test_another_loop_commits_nothing_and_moves_no_position(
    embedded: Broker, clients: Clients
) -> None:
    topic = filled(embedded, clients, 2)
    where = TopicPartition(topic, 0)
    calls: list[Callable[[Any], Awaitable[Any]]] = [
        lambda consumer: consumer.commit(),
        lambda consumer: consumer.commit({where: 1}),
        lambda consumer: consumer.commit_marked(),
        lambda consumer: consumer.seek_to_beginning(),
        lambda consumer: consumer.seek_to_end(where),
        lambda consumer: consumer.seek_to_committed(),
    ]
    consumer = made(embedded, topic, group_id=topic, enable_auto_commit=False)

    async def elsewhere(call: Callable[[Any], Awaitable[Any]]) -> None:
        await call(consumer)

    with asyncio.Runner() as runner:
        runner.run(consumer.start())
        try:
            record = runner.run(consumer.getone())
            consumer.mark(record)
            for call in calls:
                with pytest.raises(IllegalStateError, match="another event loop"):
                    asyncio.run(elsewhere(call))
            assert runner.run(consumer.position(where)) == 1
            assert runner.run(consumer.committed(where)) is None
            runner.run(consumer.commit())
            assert runner.run(consumer.committed(where)) == 1
        finally:
            runner.run(consumer.stop())


@one_real_broker
def test_it_is_stopped_in_its_own_loop_only(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-loops")
    loop = asyncio.new_event_loop()
    consumer = made(broker, topic)
    loop.run_until_complete(consumer.start())
    with pytest.raises(IllegalStateError, match="another event loop"):
        asyncio.run(consumer.stop())
    loop.run_until_complete(consumer.stop())
    assert consumer.closed
    loop.close()


@pytest.mark.parametrize("subscribes", [True, False])
def test_a_stop_closes_a_deserializer_after_the_last_record(
    embedded: Broker, clients: Clients, subscribes: bool
) -> None:
    topic = filled(embedded, clients, 20_000)

    class Deserializer:
        is_closed = False

        def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
            assert not self.is_closed
            return data

        def close(self) -> None:
            self.is_closed = True

    async def program() -> None:
        deserializer = Deserializer()
        consumer = made(embedded, value_deserializer=deserializer)
        if subscribes:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0)])
        await consumer.start()
        count = 0

        async def read() -> None:
            nonlocal count
            async for _ in consumer:
                count += 1
                await asyncio.sleep(0)

        reading = asyncio.create_task(read())
        await until(lambda: count >= 50)
        await consumer.stop()
        await reading  # it ends without an error
        assert deserializer.is_closed

    run(program())
