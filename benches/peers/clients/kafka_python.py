"""The program for kafka-python."""

from __future__ import annotations

import time

_started = time.perf_counter()
import kafka  # noqa: E402

_import_s = time.perf_counter() - _started

from typing import Any  # noqa: E402

from benches.peers.clients.program import (  # noqa: E402
    WARM_UP_RECORDS,
    Samples,
    Stopwatch,
    Waiting,
    end_to_end,
    main,
)
from benches.peers.equal import consumer_options, producer_options  # noqa: E402
from benches.peers.security import connection_options  # noqa: E402
from benches.peers.settings import Case, payloads  # noqa: E402


def producer_of(case: Case) -> Any:
    options = producer_options("kafka-python", case)
    return kafka.KafkaProducer(**connection_options("kafka-python", case), **options)


def produce(case: Case) -> dict[str, Any]:
    values, producer = payloads(case.size), producer_of(case)
    mask = len(values) - 1
    failed: list[BaseException] = []  # the futures themselves are not kept

    def send(count: int) -> None:
        for number in range(count):
            last = producer.send(case.topic, values[number & mask])
            last.add_errback(failed.append)
        producer.flush()
        if failed:
            raise SystemExit(f"{len(failed)} failed: {failed[0]!r}")
        if not last.succeeded():
            raise SystemExit("the last record is not written")

    send(WARM_UP_RECORDS)
    with Stopwatch() as watch:
        send(case.records - WARM_UP_RECORDS)
    return watch.result(case.records - WARM_UP_RECORDS)


def consumer_of(case: Case) -> Any:
    options = consumer_options("kafka-python", case)
    consumer = kafka.KafkaConsumer(**connection_options("kafka-python", case), **options)
    partitions = [kafka.TopicPartition(case.topic, each) for each in range(case.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    return consumer


def consume(case: Case) -> dict[str, Any]:
    consumer = consumer_of(case)
    count = size = 0
    waiting = Waiting()
    with Stopwatch() as watch:
        while count < case.records:
            batches = consumer.poll(timeout_ms=100, max_records=10_000)
            waiting.got(batches)
            for batch in batches.values():
                for record in batch:
                    size += len(record.value)
                count += len(batch)
    return watch.result(count, value_bytes=size)


def latency(case: Case) -> dict[str, Any]:
    producer, value, samples = producer_of(case), payloads(case.size)[0], Samples(case)
    for _ in samples:
        producer.send(case.topic, value).get(timeout=10)
    return samples.result()


def start(case: Case) -> dict[str, Any]:
    begin = time.perf_counter()
    producer = producer_of(case)
    producer.send(case.topic, b"first").get(timeout=30)
    first = time.perf_counter() - begin
    return {"records": 1, "seconds": first, "import_ms": _import_s * 1000, "first_ms": first * 1000}


if __name__ == "__main__":
    main(
        produce=produce,
        consume=consume,
        latency=latency,
        end_to_end=lambda case: end_to_end(producer_of(case), consumer_of(case), case),
        start=start,
    )
