"""thalweg.aio: the same program as aiokafka's, record by record."""

from __future__ import annotations

import asyncio
from typing import Any

from benches.peers.clients.asyncio_program import consume, latency, produce
from benches.peers.clients.program import main
from benches.peers.equal import consumer_options, producer_options
from benches.peers.settings import Case
from thalweg import TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer


async def producer_of(case: Case) -> Any:
    options = producer_options("thalweg-aio", case)
    producer: Any = AIOKafkaProducer(bootstrap_servers=case.bootstrap, **options)
    await producer.start()
    return producer


async def consume_with(case: Case) -> Any:
    options = consumer_options("thalweg-aio", case)
    consumer: Any = AIOKafkaConsumer(bootstrap_servers=case.bootstrap, **options)
    return await consume(consumer, TopicPartition, case)


if __name__ == "__main__":
    main(
        produce=lambda case: asyncio.run(produce(producer_of, case)),
        consume=lambda case: asyncio.run(consume_with(case)),
        latency=lambda case: asyncio.run(latency(producer_of, case)),
    )
