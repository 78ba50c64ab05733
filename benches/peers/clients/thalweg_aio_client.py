"""The program for thalweg.aio: the same as aiokafka's, record by record."""

from __future__ import annotations

import asyncio
from typing import Any

from benches.peers.clients.asyncio_program import consume, end_to_end, latency, produce
from benches.peers.clients.program import main
from benches.peers.equal import consumer_options, producer_options
from benches.peers.security import connection_options
from benches.peers.settings import Case
from thalweg import TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer


async def producer_of(case: Case) -> Any:
    options = producer_options("thalweg-aio", case)
    producer: Any = AIOKafkaProducer(**connection_options("thalweg-aio", case), **options)
    await producer.start()
    return producer


def consumer_of(case: Case) -> Any:
    options = consumer_options("thalweg-aio", case)
    return AIOKafkaConsumer(**connection_options("thalweg-aio", case), **options)


async def consume_with(case: Case) -> Any:
    return await consume(consumer_of(case), TopicPartition, case)


async def end_to_end_with(case: Case) -> Any:
    return await end_to_end(producer_of, consumer_of(case), TopicPartition, case)


if __name__ == "__main__":
    main(
        produce=lambda case: asyncio.run(produce(producer_of, case)),
        consume=lambda case: asyncio.run(consume_with(case)),
        latency=lambda case: asyncio.run(latency(producer_of, case)),
        end_to_end=lambda case: asyncio.run(end_to_end_with(case)),
    )
