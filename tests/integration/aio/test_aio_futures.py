"""The futures of AIOKafkaProducer behave like those of asyncio."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tests.integration.aio.producers import made
from tests.integration.support.aio import LIMIT_S, run
from tests.integration.support.clients import Clients, read
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.errors import TopicAuthorizationFailedError


@one_real_broker
def test_a_cancelled_future_leaves_its_record(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-future")

    async def program() -> None:
        # Nothing is sent before something waits.
        async with made(broker, linger_ms=60_000) as producer:
            first = await producer.send(topic, b"cancelled")
            assert first.cancel()
            waiting = asyncio.create_task(producer.send_and_wait(topic, b"waiting"))
            # One turn of the loop: the record is in its batch, which is sent in the next turn.
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
    # A task that waits ends the linger. Then it waits until the broker accepts the batch.
    refusing = broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None)

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
            refusing.remove()
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

    def all_gone() -> bool:
        gc.collect()
        return not any(each() for each in gone)

    # The I/O thread gives up a moment later what was in progress at the close.
    wait_until(all_gone, what="the loop's end")
