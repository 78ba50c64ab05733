"""Produces and consumes with kafka-python. thalweg runs it with one changed import."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.clients.program import Patience, main
from tests.support.records import Record

IN_FLIGHT = 5_000


def produce_with(producer: Any, options: argparse.Namespace, records: Iterable[Record]) -> None:
    """Sends all records and waits for each of them."""
    waiting: deque[Any] = deque()
    for record in records:
        while len(waiting) >= IN_FLIGHT:
            waiting.popleft().get(timeout=60)
        future = producer.send(
            options.topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.partition,
            timestamp_ms=record.timestamp,
        )
        waiting.append(future)
    producer.flush(120)
    for future in waiting:
        future.get(timeout=60)
    producer.close()


def consume_with(
    consumer: Any, topic_partition: Any, options: argparse.Namespace
) -> Iterator[Record]:
    """Yields `options.count` records of all partitions, from the beginning."""
    partitions = consumer.partitions_for_topic(options.topic)
    consumer.assign([topic_partition(options.topic, each) for each in sorted(partitions)])
    consumer.seek_to_beginning()
    patience, count = Patience(), 0
    while count < options.count:
        batches = consumer.poll(timeout_ms=500)
        patience.note(batches)
        for batch in batches.values():
            for record in batch:
                count += 1
                yield Record(
                    record.partition,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    tuple(record.headers or ()),
                )
    consumer.close()


def produce(options: argparse.Namespace, records: Iterable[Record]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=options.bootstrap,
        compression_type=None if options.codec == "none" else options.codec,
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        max_request_size=2_000_000,
    )
    produce_with(producer, options, records)


def consume(options: argparse.Namespace) -> Iterator[Record]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=options.bootstrap, check_crcs=True)
    yield from consume_with(consumer, TopicPartition, options)


if __name__ == "__main__":
    main(produce, consume)
