"""Produces and consumes with aiokafka."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.clients.program import Patience, main
from tests.support.records import Record
from tests.support.wire import Wire

IN_FLIGHT = 2_000


def produce(options: argparse.Namespace, records: Iterable[Record]) -> None:
    asyncio.run(_produce(options, records))


async def _produce(options: argparse.Namespace, records: Iterable[Record]) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=options.bootstrap,
        compression_type=None if options.codec == "none" else options.codec,
        enable_idempotence=True,
        linger_ms=5,
        max_request_size=2_000_000,
    )
    await producer.start()
    try:
        waiting: list[Any] = []
        for record in records:
            sent = await producer.send(
                options.topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers) or None,
            )
            waiting.append(sent)
            if len(waiting) >= IN_FLIGHT:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
    finally:
        await producer.stop()


def consume(options: argparse.Namespace) -> Iterator[Record]:
    return iter(asyncio.run(_consume(options)))


async def _consume(options: argparse.Namespace) -> list[Record]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    found: list[Record] = []
    consumer = AIOKafkaConsumer(bootstrap_servers=options.bootstrap, check_crcs=True)
    await consumer.start()
    try:
        partitions = Wire(options.bootstrap).metadata(options.topic).topics[options.topic]
        assigned = [TopicPartition(options.topic, each.index) for each in partitions]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        patience = Patience()
        while len(found) < options.count:
            batches = await consumer.getmany(timeout_ms=500)
            patience.note(batches)
            for batch in batches.values():
                found += [
                    Record(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                    for r in batch
                ]
    finally:
        await consumer.stop()
    return found


if __name__ == "__main__":
    main(produce, consume)
