"""AIOKafkaProducer: a call that is cancelled writes a record once or never, and loses nothing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from tests.integration.aio.producers import MEMORY, made
from tests.integration.support.aio import run, until
from tests.integration.support.clients import Clients, read, read_more
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import EmbeddedBroker


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
        await until(lambda: figure("waiting-threads") > 0, "a thread that waits for memory")
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
    # It only has to outlast the start: the second one has a connection of its own.
    fault = broker.faults.on("Metadata").then_delay(60_000)

    async def program() -> int:
        producer = made(broker)
        starting = asyncio.create_task(producer.start())
        await until(lambda: fault.hits > 0, "a request of the start")
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with producer:
            return (await producer.send_and_wait(topic, b"v")).offset

    assert run(program()) == 0
