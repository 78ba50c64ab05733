"""Produces and consumes with thalweg: kafka-python's program with one changed import."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from tests.support.clients.kafka_python import consume_with, produce_with
from tests.support.clients.program import main
from tests.support.records import Record


def produce(options: argparse.Namespace, records: Iterable[Record]) -> None:
    from thalweg import KafkaProducer

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
    from thalweg import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=options.bootstrap, check_crcs=True)
    yield from consume_with(consumer, TopicPartition, options)


if __name__ == "__main__":
    main(produce, consume)
