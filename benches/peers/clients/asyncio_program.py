"""The program for the asyncio clients, which have the same API: record by record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benches.peers.clients.program import WARM_UP_RECORDS, Samples, Stopwatch, Waiting
from benches.peers.settings import Case, payloads

# Makes and starts a producer for a case.
ProducerOf = Callable[[Case], Awaitable[Any]]


async def all_of(waiting: list[Any]) -> None:
    """Awaits each in turn: asyncio.gather costs more than either client does."""
    for future in waiting:
        await future


async def produce(producer_of: ProducerOf, case: Case) -> dict[str, Any]:
    values, producer = payloads(case.size), await producer_of(case)
    mask = len(values) - 1

    async def send(count: int) -> None:
        waiting = []
        for number in range(count):
            waiting.append(await producer.send(case.topic, values[number & mask]))
            if len(waiting) == 20_000:
                await all_of(waiting)
                waiting.clear()
        await all_of(waiting)

    await send(WARM_UP_RECORDS)
    with Stopwatch() as watch:
        await send(case.records - WARM_UP_RECORDS)
    await producer.stop()
    return watch.result(case.records - WARM_UP_RECORDS)


async def latency(producer_of: ProducerOf, case: Case) -> dict[str, Any]:
    producer, value, samples = await producer_of(case), payloads(case.size)[0], Samples(case)
    for _ in samples:
        await producer.send_and_wait(case.topic, value)
    await producer.stop()
    return samples.result()


async def end_to_end(
    producer_of: ProducerOf, consumer: Any, partition_of: Callable[[str, int], Any], case: Case
) -> Any:
    """Sends, acknowledges and reads one record at a time."""
    producer, value, samples = await producer_of(case), payloads(case.size)[0], Samples(case)
    await consumer.start()
    consumer.assign([partition_of(case.topic, 0)])
    await consumer.seek_to_beginning()
    for _ in samples:
        await producer.send_and_wait(case.topic, value, partition=0)
        await asyncio.wait_for(consumer.getone(), 10)
    await consumer.stop()
    await producer.stop()
    return samples.result()


async def consume(consumer: Any, partition_of: Callable[[str, int], Any], case: Case) -> Any:
    """Reads a topic from its beginning, with "getmany" or "iterate", and each record's value."""
    await consumer.start()
    partitions = [partition_of(case.topic, each) for each in range(case.partitions)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    read = _iterated if case.variant == "iterate" else _in_batches
    with Stopwatch() as watch:
        count, size = await read(consumer, case.records)
    await consumer.stop()
    return watch.result(count, value_bytes=size)


async def _in_batches(consumer: Any, records: int) -> tuple[int, int]:
    count = size = 0
    waiting = Waiting()
    while count < records:
        batches = await consumer.getmany(timeout_ms=100, max_records=10_000)
        waiting.got(batches)
        for batch in batches.values():
            for record in batch:
                size += len(record.value)
            count += len(batch)
    return count, size


async def _iterated(consumer: Any, records: int) -> tuple[int, int]:
    count = size = 0
    async for record in consumer:
        size += len(record.value)
        count += 1
        if count == records:
            break
    return count, size
