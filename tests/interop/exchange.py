"""The exchange: each producer writes the same mix once, and each consumer reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
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
    """A topic that one producer has filled, and its expected records, a file per partition."""

    topic: str
    count: int
    expected: dict[int, Path]


@dataclass(frozen=True)
class Mix:
    """Records in files: by codec, to be produced, and by partition, as consumers must read them."""

    count: int
    parts: dict[str, Path]
    expected: dict[int, Path]


class Exchange:
    """Topics by broker and producer. Each is produced once, when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._produced: dict[tuple[str, str], Produced] = {}
        self._mixes: dict[tuple[bool, bool], Mix] = {}

    def produced(self, broker: Broker, producer: str) -> Produced:
        """Returns the topic that `producer` filled on `broker`."""
        place = broker.kind, producer
        if place not in self._produced:
            self._produced[place] = self._produce(broker, producer)
        return self._produced[place]

    def consumed(self, broker: Broker, consumer: str, produced: Produced) -> Iterator[Record]:
        """Yields what `consumer` reads from a produced topic."""
        file = self.folder / f"{broker.kind}-{consumer}-{produced.topic}"
        peers.consume(
            consumer, broker.bootstrap_servers, produced.topic, file, count=produced.count
        )
        yield from read_records(file)
        file.unlink()

    def _produce(self, broker: Broker, producer: str) -> Produced:
        """Produces all codecs into one topic, so that every consumer reads all of them."""
        topic = broker.create_topic(f"exchange-{producer}", PARTITIONS)
        mix = self._mix(
            producer in peers.SENDS_NULL_HEADER_VALUES,
            producer in peers.SENDS_NEITHER_KEY_NOR_VALUE,
        )
        peers.produce(producer, broker.bootstrap_servers, topic, mix.parts)
        return Produced(topic, mix.count, mix.expected)

    def _mix(self, null_header_values: bool, neither: bool) -> Mix:
        """Makes one mix for all brokers and clients that can send it: a full mix fills a disk."""
        kind = null_header_values, neither
        if kind not in self._mixes:
            count = scaled(RECORDS, minimum=1000)
            mix = records(
                count,
                partitions=PARTITIONS,
                null_header_values=null_header_values,
                neither=neither,
            )
            self._mixes[kind] = self._written(mix, count, f"mix-{len(self._mixes)}")
        return self._mixes[kind]

    def _written(self, mix: Iterator[Record], count: int, name: str) -> Mix:
        expected = {p: self.folder / f"{name}-{p}" for p in range(PARTITIONS)}
        parts = {codec: self.folder / f"{name}-{codec}" for codec in CODECS}
        share = -(-count // len(CODECS))
        with ExitStack() as stack:
            files = {p: stack.enter_context(path.open("wb")) for p, path in expected.items()}
            for path in parts.values():
                part = list(islice(mix, share))
                write_records(path, part)
                for record in part:
                    files[record.partition].write(encode(record))
        return Mix(count, parts, expected)


def first_difference(produced: Produced, consumed: Iterator[Record]) -> str | None:
    """Compares the consumed records with the produced ones, in the order of each partition.

    Returns:
        The place of the first difference, or None.
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
    """Returns the fields in which two records differ."""
    return "; ".join(
        f"{name}: wanted {a!r:.200}, got {b!r:.200}"
        for name, a, b in zip_longest(Record._fields, wanted, got)
        if a != b
    )
