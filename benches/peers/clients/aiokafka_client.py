"""aiokafka."""

from __future__ import annotations

import time

_started = time.perf_counter()
import aiokafka  # noqa: E402

_import_s = time.perf_counter() - _started

import asyncio  # noqa: E402
from typing import Any  # noqa: E402

from benches.peers.clients.asyncio_program import latency, produce  # noqa: E402
from benches.peers.clients.program import Stopwatch, Waiting, main  # noqa: E402
from benches.peers.equal import consumer_options, producer_options  # noqa: E402
from benches.peers.settings import PARTITIONS, Case  # noqa: E402


async def producer_of(case: Case) -> Any:
    options = producer_options("aiokafka", case)
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=case.bootstrap, **options)
    await producer.start()
    return producer


async def consume(case: Case) -> dict[str, Any]:
    options = consumer_options("aiokafka", case)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=case.bootstrap, **options)
    await consumer.start()
    partitions = [aiokafka.TopicPartition(case.topic, each) for each in range(PARTITIONS)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    count = size = 0
    waiting = Waiting()
    with Stopwatch() as watch:
        while count < case.records:
            batches = await consumer.getmany(timeout_ms=100, max_records=10_000)
            waiting.got(batches)
            for batch in batches.values():
                for record in batch:
                    size += len(record.value)
                count += len(batch)
    await consumer.stop()
    return watch.result(count, value_bytes=size)


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
        consume=lambda case: asyncio.run(consume(case)),
        latency=lambda case: asyncio.run(latency(producer_of, case)),
        start=lambda case: asyncio.run(start(case)),
    )
