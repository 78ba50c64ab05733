"""The program for thalweg: by record, by list and by column."""

from __future__ import annotations

import time

_started = time.perf_counter()
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402
from thalweg.interceptor import ConsumerInterceptor  # noqa: E402

_import_s = time.perf_counter() - _started

from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

from benches.peers.clients.program import (  # noqa: E402
    WARM_UP_RECORDS,
    Samples,
    Stopwatch,
    Waiting,
    end_to_end,
    in_threads,
    main,
)
from benches.peers.equal import consumer_options, producer_options  # noqa: E402
from benches.peers.security import connection_options  # noqa: E402
from benches.peers.settings import Case, payloads  # noqa: E402

PIECE = 65_536


def producer_of(case: Case) -> Any:
    options = producer_options("thalweg", case)
    return KafkaProducer(**connection_options("thalweg", case), **options)


def produce(case: Case) -> dict[str, Any]:
    values, producer = payloads(case.size), producer_of(case)
    if case.is_spread:
        return _produce_spread(case, producer, values)
    send = {"send": _send, "send_many": _send_many, "send_arrow": _send_arrow}[case.variant]
    send(producer, case.topic, values, WARM_UP_RECORDS)
    count = case.records - WARM_UP_RECORDS
    prepared = send(None, case.topic, values, count)
    with Stopwatch() as watch:
        prepared(producer)
    producer.close()
    return watch.result(count)


def _produce_spread(case: Case, producer: Any, values: list[bytes]) -> dict[str, Any]:
    ways = {"send": _spread, "send_many": _spread_many, "send_arrow": _spread_arrow}
    send = ways[case.variant](producer, case, values)

    def run(count: int) -> None:
        in_threads(case.threads, count, send)
        producer.flush()

    run(WARM_UP_RECORDS)
    count = case.records - WARM_UP_RECORDS
    with Stopwatch() as watch:
        run(count)
    failed = producer.metrics()["producer-metrics"]["record-error-total"]
    if failed:
        raise SystemExit(f"{failed} failed")
    producer.close()
    return watch.result(count)


def _spread(producer: Any, case: Case, values: list[bytes]) -> Callable[[int], None]:
    def run(count: int) -> None:
        send, topic, partitions, mask = producer.send, case.topic, case.partitions, len(values) - 1
        for number in range(count):
            send(topic, values[number & mask], partition=number % partitions)

    return run


def _spread_many(producer: Any, case: Case, values: list[bytes]) -> Callable[[int], None]:
    piece, where = _piece_of(values), _partitions_of(case)

    def run(count: int) -> None:
        for _ in range(count // PIECE):
            producer.send_many(case.topic, piece, partition=where)
        left = count % PIECE
        if left:
            producer.send_many(case.topic, piece[:left], partition=where[:left])

    return run


def _spread_arrow(producer: Any, case: Case, values: list[bytes]) -> Callable[[int], None]:
    import pyarrow as pa

    columns = {
        "value": pa.array(_piece_of(values), pa.binary()),
        "partition": pa.array(_partitions_of(case), pa.int32()),
    }
    piece = pa.record_batch(columns)

    def run(count: int) -> None:
        for _ in range(count // PIECE):
            producer.send_arrow(case.topic, piece)
        left = count % PIECE
        if left:
            producer.send_arrow(case.topic, piece.slice(0, left))

    return run


def _piece_of(values: list[bytes]) -> list[bytes]:
    return (values * (PIECE // len(values)))[:PIECE]


def _partitions_of(case: Case) -> list[int]:
    """Returns the partition of each row of a piece, in turn."""
    return [number % case.partitions for number in range(PIECE)]


def _send(producer: Any, topic: str, values: list[bytes], count: int) -> Any:
    mask = len(values) - 1

    def run(producer: Any) -> None:
        send = producer.send
        for number in range(count):
            last = send(topic, values[number & mask])
        producer.flush()
        last.get(timeout=0)

    return run(producer) if producer else run


def _send_many(producer: Any, topic: str, values: list[bytes], count: int) -> Any:
    piece = _piece_of(values)
    tail = piece[: count % PIECE]

    def run(producer: Any) -> None:
        futures = [producer.send_many(topic, piece) for _ in range(count // PIECE)]
        if tail:
            futures.append(producer.send_many(topic, tail))
        producer.flush()
        for future in futures:
            future.get(timeout=0)

    return run(producer) if producer else run


def _send_arrow(producer: Any, topic: str, values: list[bytes], count: int) -> Any:
    import pyarrow as pa

    column = pa.array(_piece_of(values), pa.binary())
    piece = pa.record_batch({"value": column})
    tail = piece.slice(0, count % PIECE)

    def run(producer: Any) -> None:
        futures = [producer.send_arrow(topic, piece) for _ in range(count // PIECE)]
        if len(tail):
            futures.append(producer.send_arrow(topic, tail))
        producer.flush()
        for future in futures:
            future.get(timeout=0)

    return run(producer) if producer else run


class _Nothing(ConsumerInterceptor):
    """An interceptor that returns what it gets."""


# Options with which iteration takes another way through the client. No other client has a row.
_MORE_OPTIONS: dict[str, dict[str, Any]] = {
    "iterate-deserializer": {"value_deserializer": bytes.upper},
    "iterate-interceptor": {"interceptor_classes": [_Nothing()]},
}


def consumer_of(case: Case) -> Any:
    options = consumer_options("thalweg", case) | _MORE_OPTIONS.get(case.variant, {})
    if case.variant == "iterate-group":
        options |= {"group_id": f"group-{time.time_ns()}", "auto_offset_reset": "earliest"}
        return KafkaConsumer(case.topic, **connection_options("thalweg", case), **options)
    consumer = KafkaConsumer(**connection_options("thalweg", case), **options)
    partitions = [TopicPartition(case.topic, each) for each in range(case.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    return consumer


def consume(case: Case) -> dict[str, Any]:
    consumer = consumer_of(case)
    read = {"poll": _poll, "poll_arrow": _poll_arrow}.get(case.variant, _iterate)
    before = 0
    if case.variant == "iterate-group":
        next(consumer)  # the clock does not count the time in which the group forms
        before = 1
    with Stopwatch() as watch:
        count = read(consumer, case.records - before)
    consumer.close()
    return watch.result(count)


def _poll(consumer: Any, records: int) -> int:
    count = size = 0
    waiting = Waiting()
    while count < records:
        batches = consumer.poll(timeout_ms=100, max_records=10_000)
        waiting.got(batches)
        for batch in batches.values():
            for record in batch:
                size += len(record.value)
            count += len(batch)
    return count


def _iterate(consumer: Any, records: int) -> int:
    size = 0
    for count, record in enumerate(consumer, 1):
        size += len(record.value)
        if count == records:
            break
    return records


def _poll_arrow(consumer: Any, records: int) -> int:
    count = 0
    waiting = Waiting()
    while count < records:
        table = consumer.poll_arrow(timeout_ms=100)
        waiting.got(table.num_rows)
        count += table.num_rows
    return count


def latency(case: Case) -> dict[str, Any]:
    producer, value, samples = producer_of(case), payloads(case.size)[0], Samples(case)
    for _ in samples:
        producer.send(case.topic, value).get(timeout=10)
    producer.close()
    return samples.result()


def start(case: Case) -> dict[str, Any]:
    begin = time.perf_counter()
    producer = producer_of(case)
    producer.send(case.topic, b"first").get(timeout=30)
    first = time.perf_counter() - begin
    producer.close()
    return {"records": 1, "seconds": first, "import_ms": _import_s * 1000, "first_ms": first * 1000}


if __name__ == "__main__":
    main(
        produce=produce,
        consume=consume,
        latency=latency,
        end_to_end=lambda case: end_to_end(producer_of(case), consumer_of(case), case),
        start=start,
    )
