"""Extreme headers, from every client to every client, and through Arrow.

Thousands of headers, hundreds of kilobytes in one, repeated names, names that are empty or not
ASCII, values that are empty or null.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support import peers
from tests.support.brokers import Broker
from tests.support.records import Record, read_records, write_records
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition

CODECS = ("none", "zstd")
# (producer, consumer). test_exchange.py covers Java, with headers of the usual sizes.
PAIRS = [
    ("thalweg", "thalweg"),
    ("thalweg", "kafka-python"),
    ("thalweg", "confluent-kafka"),
    ("kafka-python", "thalweg"),
    ("confluent-kafka", "thalweg"),
]
LARGE = 300_000
TIMESTAMP = 1_700_000_000_000
Headers = tuple[tuple[str, bytes | None], ...]


def _headers(nulls: bool) -> dict[str, Headers]:
    noise = random.Random(1).randbytes(LARGE)
    many = tuple((f"name-{number}", b"%d" % number) for number in range(5000))
    found: dict[str, Headers] = {
        "thousands": many,
        "thousands of one name": tuple(("same", value) for _, value in many),
        "large values": (("a", noise), ("b", noise[::-1]), ("b", noise)),
        "a large name": (("n" * 30_000, b"v"),),
        "not ASCII": (("größe", b"1"), ("名前", b"2"), ("🦀" * 100, b"3"), ("a\u0301", b"4")),
        "white space and controls": ((" ", b"1"), ("a\tb\n", b"2"), ("\x01", b"\x00")),
        "an empty name": (("", b"v"), ("", b""), ("", b"v")),
        "empty values": (("a", b""), ("b", b"")),
        "none": (),
    }
    if nulls:
        found["null values"] = (("a", None), ("", None), ("a", b""), ("a", None))
    return found


def _records(nulls: bool) -> list[Record]:
    """Makes one record for each kind of headers, with a plain record before and after each."""
    plain: Headers = (("plain", b"1"),)
    kinds = [headers for each in _headers(nulls).values() for headers in (plain, each)]
    return [
        Record(0, number, TIMESTAMP + number, b"", b"%d" % number, headers)
        for number, headers in enumerate([*kinds, plain])
    ]


@pytest.fixture(scope="module")
def sent() -> dict[tuple[str, str], tuple[str, list[Record]]]:
    """What each client has sent to each broker, made when it is first needed."""
    return {}


def _sent_by(
    client: str, broker: Broker, sent: dict[tuple[str, str], Any], folder: Path
) -> tuple[str, list[Record]]:
    """Returns a topic that the client filled, once in each codec, and its expected records."""
    if (client, broker.kind) not in sent:
        topic = broker.create_topic("headers")
        records = _records(client in peers.SENDS_NULL_HEADER_VALUES)
        write_records(folder / "given", records)
        peers.produce(
            client, broker.bootstrap_servers, topic, dict.fromkeys(CODECS, folder / "given")
        )
        wanted = [each._replace(offset=offset) for offset, each in enumerate(records * len(CODECS))]
        sent[client, broker.kind] = topic, wanted
    found: tuple[str, list[Record]] = sent[client, broker.kind]
    return found


def _check(found: list[Record], wanted: list[Record]) -> None:
    assert [each.offset for each in found] == [each.offset for each in wanted]
    for got, expected in zip(found, wanted, strict=True):
        # Not one assertion for all: pytest would print megabytes.
        assert got._replace(headers=()) == expected._replace(headers=())
        names = [name for name, _ in got.headers], [name for name, _ in expected.headers]
        assert names[0] == names[1], f"offset {got.offset}: {str(names)[:300]}"
        pairs = zip(got.headers, expected.headers, strict=True)
        differ = [at for at, (one, other) in enumerate(pairs) if one != other]
        assert not differ, f"offset {got.offset}: the values of headers {differ[:9]} differ"


@pytest.mark.parametrize("producer, consumer", PAIRS)
def test_headers_arrive_as_they_were_sent(
    modern_broker: Broker, sent: Any, tmp_path: Path, producer: str, consumer: str
) -> None:
    topic, wanted = _sent_by(producer, modern_broker, sent, tmp_path)
    file = tmp_path / "found"
    peers.consume(consumer, modern_broker.bootstrap_servers, topic, file, count=len(wanted))
    _check(list(read_records(file)), wanted)


def _table_of(broker: Broker, topic: str, count: int) -> Any:
    """Reads the complete topic as a pyarrow table."""
    import pyarrow as pa

    parts: list[Any] = []
    options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while sum(part.num_rows for part in parts) < count:
            parts.append(consumer.poll_arrow(20_000).to_pyarrow())
            assert parts[-1].num_rows
    return pa.concat_tables(parts)


def test_headers_pass_through_arrow(modern_broker: Broker, sent: Any, tmp_path: Path) -> None:
    """Reads one topic with `poll_arrow`, writes another with `send_arrow`, and reads that."""
    topic, wanted = _sent_by("thalweg", modern_broker, sent, tmp_path)
    table = _table_of(modern_broker, topic, len(wanted))
    _check(_rows(table), wanted)
    other = modern_broker.create_topic("headers-arrow")
    with KafkaProducer(
        bootstrap_servers=modern_broker.bootstrap_servers, max_request_size=2_000_000
    ) as producer:
        columns = table.select(["key", "value", "timestamp", "headers"])
        assert producer.send_arrow(other, columns, partition=0).get(30).count == len(wanted)
    _check(_rows(_table_of(modern_broker, other, len(wanted))), wanted)
    file = tmp_path / "found"
    peers.consume(
        "confluent-kafka", modern_broker.bootstrap_servers, other, file, count=len(wanted)
    )
    _check(list(read_records(file)), wanted)


def _rows(table: Any) -> list[Record]:
    return [
        Record(
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in table.to_pylist()
    ]
