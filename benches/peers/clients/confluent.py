"""The program for confluent-kafka, tuned for consuming: its defaults stall on small queues."""

from __future__ import annotations

import time

_started = time.perf_counter()
import confluent_kafka as ck  # noqa: E402

_import_s = time.perf_counter() - _started

from typing import Any  # noqa: E402

from benches.peers.clients.program import (  # noqa: E402
    WARM_UP_RECORDS,
    Samples,
    Stopwatch,
    Waiting,
    in_threads,
    main,
)
from benches.peers.equal import consumer_options, producer_options  # noqa: E402
from benches.peers.security import connection_options  # noqa: E402
from benches.peers.settings import PRODUCE_BATCH, QUIET, Case, payloads  # noqa: E402

TUNED = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 262_144,
    "fetch.queue.backoff.ms": 5,
}


def producer_of(case: Case) -> Any:
    options = producer_options("confluent-kafka", case)
    # Its own limit of 10,000 records per batch would be reached before the batch size.
    more = {"batch.num.messages": 1_000_000, "queue.buffering.max.messages": 1_000_000}
    return ck.Producer({**connection_options("confluent-kafka", case), **more, **options})


def produce(case: Case) -> dict[str, Any]:
    values, producer = payloads(case.size), producer_of(case)
    failed: list[Any] = []

    def done(error: Any, message: Any) -> None:
        if error:
            failed.append(error)

    heard = None if case.variant == QUIET else done

    def send_some(count: int) -> None:
        topic, mask, send_one, poll = case.topic, len(values) - 1, producer.produce, producer.poll
        for number in range(count):
            try:
                send_one(topic, values[number & mask], on_delivery=heard)
            except BufferError:
                poll(0.05)
                send_one(topic, values[number & mask], on_delivery=heard)
            if not number & 8191:
                poll(0)

    def batch_some(count: int) -> None:
        piece = [{"value": value} for value in values]
        while count:
            left = piece[:count]
            count -= len(left)
            while left:  # messages that do not fit into the queue are refused, from some message on
                left = left[producer.produce_batch(case.topic, left) :]
                producer.poll(0.05 if left else 0)

    def spread_some(count: int) -> None:
        topic, mask, send_one, poll = case.topic, len(values) - 1, producer.produce, producer.poll
        partitions = case.partitions
        for number in range(count):
            where = number % partitions
            while True:
                try:
                    send_one(topic, values[number & mask], partition=where, on_delivery=heard)
                    break
                except BufferError:  # another thread may take the space that this one waited for
                    poll(0.05)
            if not number & 8191:
                poll(0)

    def send(count: int) -> None:
        way = batch_some if case.variant == PRODUCE_BATCH else send_some
        in_threads(case.threads, count, spread_some if case.is_spread else way)
        producer.flush()

    send(WARM_UP_RECORDS)
    with Stopwatch() as watch:
        send(case.records - WARM_UP_RECORDS)
    if failed:
        raise SystemExit(f"{len(failed)} failed: {failed[0]}")
    return watch.result(case.records - WARM_UP_RECORDS)


def consumer_of(case: Case) -> Any:
    options = consumer_options("confluent-kafka", case)
    if case.variant != "defaults":
        options |= TUNED
    consumer = ck.Consumer(
        {**connection_options("confluent-kafka", case), "group.id": case.topic, **options}
        | {"enable.auto.commit": False}
    )
    consumer.list_topics(case.topic, 30)
    consumer.assign([ck.TopicPartition(case.topic, each, 0) for each in range(case.partitions)])
    return consumer


def consume(case: Case) -> dict[str, Any]:
    consumer = consumer_of(case)
    count = size = 0
    waiting = Waiting()
    with Stopwatch() as watch:
        while count < case.records:
            messages = consumer.consume(10_000, 0.1)
            waiting.got(messages)
            for message in messages:
                size += len(message.value())
            count += len(messages)
    consumer.close()
    return watch.result(count, value_bytes=size)


def latency(case: Case) -> dict[str, Any]:
    producer, value, samples = producer_of(case), payloads(case.size)[0], Samples(case)
    for _ in samples:
        acknowledged: list[Any] = []
        producer.produce(case.topic, value, on_delivery=lambda *a, to=acknowledged: to.append(a))
        while not acknowledged:
            producer.poll(1)
    return samples.result()


def end_to_end(case: Case) -> dict[str, Any]:
    producer, consumer, value = producer_of(case), consumer_of(case), payloads(case.size)[0]
    samples = Samples(case)
    for _ in samples:
        acknowledged: list[Any] = []
        producer.produce(
            case.topic, value, partition=0, on_delivery=lambda *a, to=acknowledged: to.append(a)
        )
        while not acknowledged:
            producer.poll(1)
        message = consumer.poll(10)
        if message is None or message.error():
            raise SystemExit("the record was not read")
    consumer.close()
    return samples.result()


def start(case: Case) -> dict[str, Any]:
    begin = time.perf_counter()
    producer = producer_of(case)
    producer.produce(case.topic, b"first")
    left = producer.flush(30)
    first = time.perf_counter() - begin
    if left:
        raise SystemExit("not acknowledged")
    return {"records": 1, "seconds": first, "import_ms": _import_s * 1000, "first_ms": first * 1000}


if __name__ == "__main__":
    main(produce=produce, consume=consume, latency=latency, end_to_end=end_to_end, start=start)
