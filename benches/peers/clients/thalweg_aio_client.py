"""thalweg.aio: the same program as aiokafka's, record by record."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benches.peers.clients.program import WARM_UP_RECORDS, Stopwatch, main, percentiles
from benches.peers.equal import producer_options
from benches.peers.settings import Case, payloads
from thalweg.aio import AIOKafkaProducer


async def producer_of(case: Case) -> Any:
    options = producer_options("thalweg-aio", case)
    producer: Any = AIOKafkaProducer(bootstrap_servers=case.bootstrap, **options)
    await producer.start()
    return producer


async def all_of(waiting: list[Any]) -> None:
    """Each in turn: asyncio.gather costs more than either client does."""
    for future in waiting:
        await future


async def produce(case: Case) -> dict[str, Any]:
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


async def latency(case: Case) -> dict[str, Any]:
    producer, value = await producer_of(case), payloads(case.size)[0]
    took: list[float] = []
    for number in range(case.records + 500):
        begin = time.perf_counter()
        await producer.send_and_wait(case.topic, value)
        if number >= 500:
            took.append(time.perf_counter() - begin)
    await producer.stop()
    return {"records": case.records, "seconds": sum(took), **percentiles(took)}


if __name__ == "__main__":
    main(
        produce=lambda case: asyncio.run(produce(case)),
        latency=lambda case: asyncio.run(latency(case)),
    )
