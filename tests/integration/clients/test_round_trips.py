"""A mix of records, by every way to send and every way to read, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.records import CODECS, Record, records
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from tests.support.wire import BatchHeader

PARTITIONS = 3
LEVELS = [
    ("gzip", 1),
    ("gzip", 9),
    ("lz4", 1),
    ("lz4", 17),
    ("zstd", -5),
    ("zstd", 1),
    ("zstd", 19),
]


def _mix(count: int, seed: int = 1) -> list[Record]:
    """Makes a deterministic mix, with the offset that each record will have."""
    ends = [0] * PARTITIONS
    found = []
    for record in records(count, seed=seed, partitions=PARTITIONS, neither=False):
        found.append(record._replace(offset=ends[record.partition]))
        ends[record.partition] += 1
    return found


def _send(producer: Any, topic: str, mix: Iterable[Record]) -> None:
    for r in mix:
        producer.send(topic, r.value, r.key, list(r.headers), r.partition, r.timestamp)
    producer.flush(60)


def _send_many(producer: Any, topic: str, mix: Iterable[Record]) -> None:
    columns: list[list[Any]] = [[] for _ in range(5)]
    for r in mix:
        row = r.value, r.key, list(r.headers), r.partition, r.timestamp
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
    producer.send_many(topic, *columns).get(60)


def _send_arrow(producer: Any, topic: str, mix: Iterable[Record]) -> None:
    rows = list(mix)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.array([r.value for r in rows], pa.binary()),
            "key": pa.array([r.key for r in rows], pa.binary()),
            "partition": pa.array([r.partition for r in rows], pa.int32()),
            "timestamp": pa.array([r.timestamp for r in rows], pa.int64()).cast(
                pa.timestamp("ms", "UTC")
            ),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in r.headers] for r in rows], headers
            ),
        }
    )
    producer.send_arrow(topic, table).get(60)


def _record(r: Any) -> Record:
    return Record(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))


def _poll(consumer: Any, count: int) -> list[Record]:
    found: list[Record] = []

    def enough() -> bool:
        for batch in consumer.poll(200).values():
            found.extend(map(_record, batch))
        return len(found) >= count

    wait_until(enough, 60, every=0)
    return found


def _iterate(consumer: Any, count: int) -> list[Record]:
    return [_record(next(consumer)) for _ in range(count)]


def _poll_arrow(consumer: Any, count: int) -> list[Record]:
    found: list[Record] = []

    def enough() -> bool:
        for row in consumer.poll_arrow(200).to_pyarrow().to_pylist():
            headers = tuple((h["key"], h["value"]) for h in row["headers"] or ())
            stamp = round(row["timestamp"].timestamp() * 1000)
            where = row["partition"], row["offset"], stamp
            found.append(Record(*where, row["key"], row["value"], headers))
        return len(found) >= count

    wait_until(enough, 60, every=0)
    return found


WAYS_IN: dict[str, Callable[..., None]] = {
    "send": _send,
    "send_many": _send_many,
    "send_arrow": _send_arrow,
}
WAYS_OUT: dict[str, Callable[..., list[Record]]] = {
    "poll": _poll,
    "iteration": _iterate,
    "poll_arrow": _poll_arrow,
}


def _check(found: list[Record], wanted: list[Record]) -> None:
    """Checks all records of each partition in order, and shows the first difference."""
    for partition in range(PARTITIONS):
        ours = [r for r in found if r.partition == partition]
        theirs = [r for r in wanted if r.partition == partition]
        for got, want in zip(ours, theirs, strict=False):
            assert got == want
        assert len(ours) == len(theirs)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("way_in", WAYS_IN)
def test_every_way_out_gives_what_every_way_in_took(
    broker: Broker, clients: Clients, way_in: str, codec: str
) -> None:
    mix = _mix(scaled(100_000, minimum=500))
    topic = broker.create_topic(f"{way_in}-{codec}", PARTITIONS)
    producer = clients.producer(broker, compression_type=codec, linger_ms=5)
    WAYS_IN[way_in](producer, topic, mix)
    # A batch that compression would make larger is sent uncompressed.
    assert CODECS.index(codec) in _codecs(broker, topic) <= {0, CODECS.index(codec)}
    for name, way_out in WAYS_OUT.items():
        consumer = clients.consumer(broker, topic, range(PARTITIONS))
        _check(way_out(consumer, len(mix)), mix)
        assert consumer.poll(0) == {}, name
        consumer.close()


@pytest.mark.parametrize("codec, level", LEVELS)
def test_every_level_of_a_codec_is_read_back(
    broker: Broker, clients: Clients, codec: str, level: int
) -> None:
    mix = _mix(scaled(25_000, minimum=300), seed=level)
    topic = broker.create_topic(f"level-{codec}", PARTITIONS)
    producer = clients.producer(
        broker, compression_type=codec, compression_level=level, linger_ms=5
    )
    _send(producer, topic, mix)
    _check(_poll(clients.consumer(broker, topic, range(PARTITIONS)), len(mix)), mix)


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 17), ("zstd", 1, 19)]
)
def test_the_level_reaches_the_codec(
    embedded: Broker, clients: Clients, codec: str, low: int, high: int
) -> None:
    """KIP-390, measured by the bytes written. lz4's 9 is its fast encoder, as in Java."""
    words = [b"%d times %d is %d, said the miller; " % (n, n, n * n) for n in range(20_000)]
    sizes = {}
    for level in (low, high):
        topic = embedded.create_topic("level")
        producer = clients.producer(
            embedded,
            compression_type=codec,
            compression_level=level,
            batch_size=1_000_000,
            linger_ms=60_000,
        )
        producer.send_many(topic, words)
        producer.flush(60)
        sizes[level] = sum(header.length for header in embedded.wire.batches(topic, 0))
    assert sizes[high] < 0.97 * sizes[low], sizes


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compression_makes_batches_smaller(broker: Broker, clients: Clients, codec: str) -> None:
    values = [b"all work and no play makes Jack a dull boy " * 20 for _ in range(500)]
    sizes = {}
    for compression in ("none", codec):
        topic = broker.create_topic(f"size-{compression}")
        producer = clients.producer(
            broker, compression_type=compression, batch_size=200_000, linger_ms=50
        )
        producer.send_many(topic, values).get(30)
        sizes[compression] = sum(header.length for header in broker.wire.batches(topic, 0))
    assert sizes[codec] < sizes["none"] / 5


def test_the_compressed_size_fills_a_batch(broker: Broker, clients: Clients) -> None:
    """batch_size limits the compressed size: more raw bytes fit once the ratio is known."""
    topic = broker.create_topic("ratio")
    producer = clients.producer(broker, compression_type="zstd", batch_size=16_384, linger_ms=100)
    value = b"all work and no play makes Jack a dull boy " * 10
    for _ in range(3):
        producer.send_many(topic, [value] * 2000).get(30)
    batches: list[BatchHeader] = list(broker.wire.batches(topic, 0))
    assert sum(each.records for each in batches) == 6000
    assert max(each.length for each in batches) <= 16_384
    # The estimate improves in small steps, as in Java.
    assert max(each.records for each in batches) > 1.5 * 16_384 / len(value)


def _codecs(broker: Broker, topic: str) -> set[int]:
    return {
        header.codec
        for partition in range(PARTITIONS)
        for header in broker.wire.batches(topic, partition)
    }
