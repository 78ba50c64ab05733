"""The exchange: each producer writes the same mix once, each consumer reads it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from tests.support import peers
from tests.support.brokers import Broker
from tests.support.records import CODECS, Record, encode, read_records, records, write_records
from tests.support.scale import scaled

PARTITIONS = 4
RECORDS = 1_000_000


@dataclass(frozen=True)
class Produced:
    """A topic that one producer has filled, and what should be in it, a file per partition."""

    topic: str
    count: int
    expected: dict[int, Path]


class Exchange:
    """Topics by broker and producer, each produced once, when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._produced: dict[tuple[str, str], Produced] = {}

    def produced(self, broker: Broker, producer: str) -> Produced:
        """The topic that `producer` filled on `broker`."""
        place = broker.kind, producer
        if place not in self._produced:
            self._produced[place] = self._produce(broker, producer)
        return self._produced[place]

    def consumed(self, broker: Broker, consumer: str, produced: Produced) -> Iterator[Record]:
        """What `consumer` reads from a produced topic."""
        file = self.folder / f"{broker.kind}-{consumer}-{produced.topic}"
        peers.consume(
            consumer, broker.bootstrap_servers, produced.topic, file, count=produced.count
        )
        yield from read_records(file)
        file.unlink()

    def _produce(self, broker: Broker, producer: str) -> Produced:
        """All codecs into one topic, so that every consumer meets all of them."""
        count = scaled(RECORDS, minimum=1000)
        topic = broker.create_topic(f"exchange-{producer}", PARTITIONS)
        mix = records(
            count,
            partitions=PARTITIONS,
            null_header_values=producer in peers.SENDS_NULL_HEADER_VALUES,
            neither=producer in peers.SENDS_NEITHER_KEY_NOR_VALUE,
        )
        sent = f"{broker.kind}-{producer}"
        expected = {p: self.folder / f"{sent}-{p}" for p in range(PARTITIONS)}
        files = {p: path.open("wb") for p, path in expected.items()}
        share = -(-count // len(CODECS))
        parts = {codec: self.folder / f"{sent}-{codec}" for codec in CODECS}
        for path in parts.values():
            part = list(islice(mix, share))
            write_records(path, part)
            for record in part:
                files[record.partition].write(encode(record))
        for file in files.values():
            file.close()
        peers.produce(producer, broker.bootstrap_servers, topic, parts)
        for path in parts.values():
            path.unlink()
        return Produced(topic, count, expected)


def first_difference(produced: Produced, consumed: Iterator[Record]) -> str | None:
    """Compares what was consumed with what was produced, in the order of each partition.

    Returns:
        None, or where the first difference is.
    """
    expected = {partition: read_records(path) for partition, path in produced.expected.items()}
    offsets = dict.fromkeys(expected, 0)
    for record in consumed:
        partition = record.partition
        wanted = next(expected[partition], None)
        if wanted is None:
            return f"partition {partition} has more records than were produced: {record!r:.300}"
        wanted = wanted._replace(offset=offsets[partition])
        offsets[partition] += 1
        if record != wanted:
            return f"partition {partition}, offset {wanted.offset}: {fields(wanted, record)}"
    for partition, rest in expected.items():
        if (wanted := next(rest, None)) is not None:
            return f"partition {partition} ends at {offsets[partition]}, before {wanted!r:.300}"
    return None


def fields(wanted: Record, got: Record) -> str:
    """The fields in which two records differ."""
    return "; ".join(
        f"{name}: wanted {a!r:.200}, got {b!r:.200}"
        for name, a, b in zip_longest(Record._fields, wanted, got)
        if a != b
    )
