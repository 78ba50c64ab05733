"""The program for aiokafka."""

from __future__ import annotations

import time

_started = time.perf_counter()
import aiokafka  # noqa: E402

_import_s = time.perf_counter() - _started

import asyncio  # noqa: E402
from typing import Any  # noqa: E402

from benches.peers.clients.asyncio_program import (  # noqa: E402
    consume,
    end_to_end,
    latency,
    produce,
)
from benches.peers.clients.program import main  # noqa: E402
from benches.peers.equal import consumer_options, producer_options  # noqa: E402
from benches.peers.security import connection_options  # noqa: E402
from benches.peers.settings import Case  # noqa: E402


async def producer_of(case: Case) -> Any:
    options = producer_options("aiokafka", case)
    producer = aiokafka.AIOKafkaProducer(**connection_options("aiokafka", case), **options)
    await producer.start()
    return producer


def consumer_of(case: Case) -> Any:
    options = consumer_options("aiokafka", case)
    return aiokafka.AIOKafkaConsumer(**connection_options("aiokafka", case), **options)


async def consume_with(case: Case) -> Any:
    return await consume(consumer_of(case), aiokafka.TopicPartition, case)


async def end_to_end_with(case: Case) -> Any:
    return await end_to_end(producer_of, consumer_of(case), aiokafka.TopicPartition, case)


async def start(case: Case) -> dict[str, Any]:
    begin = time.perf_counter()
    producer = await producer_of(case)
    await producer.send_and_wait(case.topic, b"first")
    first = time.perf_counter() - begin
    await producer.stop()
    return {"records": 1, "seconds": first, "import_ms": _import_s * 1000, "first_ms": first * 1000}


if __name__ == "__main__":
    main(
        produce=lambda case: asyncio.run(produce(producer_of, case)),
        consume=lambda case: asyncio.run(consume_with(case)),
        latency=lambda case: asyncio.run(latency(producer_of, case)),
        end_to_end=lambda case: asyncio.run(end_to_end_with(case)),
        start=lambda case: asyncio.run(start(case)),
    )
