"""Cancelled reads of AIOKafkaConsumer lose no record: the next read returns it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.integration.support.aio import LIMIT_S, filled, made, run, until
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from thalweg.aio import AIOKafkaConsumer

pytestmark = one_real_broker

Consumer = AIOKafkaConsumer[Any, Any]
# About the time that a read of fetched records takes.
SHORT_S = 0.002
# Appends the numbers that it reads to the list. Nothing is awaited between the end of the call and
# the append.
Read = Callable[[Consumer, list[int]], Coroutine[Any, Any, None]]


async def _getone(consumer: Consumer, found: list[int]) -> None:
    found.append(int((await consumer.getone()).value))


async def _getmany(consumer: Consumer, found: list[int]) -> None:
    for records in (await consumer.getmany(timeout_ms=1000, max_records=3)).values():
        found.extend(int(each.value) for each in records)


async def _poll_arrow(consumer: Consumer, found: list[int]) -> None:
    table = await consumer.poll_arrow(1000, max_records=3)
    found.extend(map(int, table.to_pyarrow()["value"].to_pylist()))


async def _async_for(consumer: Consumer, found: list[int]) -> None:
    async for record in consumer:
        found.append(int(record.value))
        await asyncio.sleep(0)


READS: list[Read] = [_getone, _getmany, _poll_arrow, _async_for]


async def _any_of_them(consumer: Consumer, found: list[int]) -> None:
    await READS[len(found) % len(READS)](consumer, found)


@pytest.mark.parametrize("read", [*READS, _any_of_them], ids=lambda read: read.__name__)
def test_a_cancelled_read_has_taken_no_record(broker: Broker, clients: Clients, read: Read) -> None:
    """Scenario 43: cancels at the start, during the wait, as the record arrives, and after that."""
    count = scaled(3_000, 300)
    topic = filled(broker, clients, 20)
    producer = clients.producer(broker)
    rng = random.Random(5)
    found: list[int] = []

    async def program() -> None:
        cancelled = 0
        async with made(broker, topic, fetch_max_wait_ms=20) as consumer:
            for number in range(20, count):
                task = asyncio.create_task(read(consumer, found))
                if number % 3:
                    await asyncio.sleep(rng.random() * 0.004)
                producer.send(topic, b"%d" % number)
                if number % 2:
                    await asyncio.sleep(rng.random() * 0.002)
                for _ in range(rng.randrange(6)):  # a random number of turns of the loop
                    await asyncio.sleep(0)
                cancelled += await _cancelled(task)
            producer.flush(30)
            assert cancelled > 0
            rest = asyncio.create_task(_again_and_again(read, consumer, found))
            await until(lambda: rest.done() or len(found) >= count, "the last record")
            await _cancelled(rest)
        assert found == list(range(count))

    run(program())


async def _cancelled(task: asyncio.Task[None]) -> bool:
    """Cancels a task, and returns whether it was still running."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled()


async def _again_and_again(read: Read, consumer: Consumer, found: list[int]) -> None:
    while True:
        await read(consumer, found)


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_a_read_whose_time_is_over_has_taken_no_record(
    broker: Broker, clients: Clients, read: Read
) -> None:
    """`asyncio.timeout` cancels from within the task, often when the record is there already."""
    count = scaled(3_000, 300)
    topic = filled(broker, clients, count)
    rng = random.Random(6)
    found: list[int] = []

    async def program() -> None:
        end = time.monotonic() + LIMIT_S / 2
        async with made(broker, topic, fetch_max_wait_ms=20) as consumer:
            longest_s = SHORT_S
            while len(found) < count:
                assert time.monotonic() < end, f"{len(found)} of {count} records"
                before = len(found)
                try:
                    async with asyncio.timeout(rng.random() * longest_s):
                        await read(consumer, found)
                except TimeoutError:
                    pass
                # On a busy machine such a short time may never be enough.
                is_enough = len(found) > before
                longest_s = max(SHORT_S, longest_s / 2) if is_enough else longest_s * 1.1
        assert found == list(range(count))

    run(program())
