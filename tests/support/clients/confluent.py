"""Produces and consumes with confluent-kafka (librdkafka)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

import confluent_kafka as ck

from tests.support.clients.program import Patience, main
from tests.support.records import Record


def produce(options: argparse.Namespace, records: Iterable[Record]) -> None:
    producer = ck.Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "compression.type": options.codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.max.bytes": 2_000_000,
        }
    )
    failed: list[object] = []

    def done(error: Any, message: Any) -> None:
        if error:
            failed.append(error)

    for record in records:
        while True:
            try:
                producer.produce(
                    options.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers) or None,
                    on_delivery=done,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(120)
    if failed or left:
        raise SystemExit(f"{len(failed)} failed, {left} left: {failed[:3]}")


def consume(options: argparse.Namespace) -> Iterator[Record]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": f"interop-{options.topic}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    partitions = consumer.list_topics(options.topic, 30).topics[options.topic].partitions
    consumer.assign([ck.TopicPartition(options.topic, each, 0) for each in partitions])
    patience, count = Patience(), 0
    while count < options.count:
        messages = consumer.consume(1000, 0.5)
        patience.note(messages)
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
            count += 1
            yield Record(
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
    consumer.close()


if __name__ == "__main__":
    main(produce, consume)
