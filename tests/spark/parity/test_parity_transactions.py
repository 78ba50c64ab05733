"""The connector's scenarios about transactions: 52, 53, 81 and 82.

The number in a test's name is that of the scenario in docs/spark-parity.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.spark.conftest import Source, Topics, texts
from tests.spark.parity.engine import Engine
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition

COMMITTED = {"kafka.isolation.level": "read_committed"}


def values(first: int, count: int) -> list[str]:
    return [f"{n:02d}" for n in range(first, first + count)]


class Writer:
    """A transactional producer that writes to partition 0 of one topic."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._topic = topic
        self.producer = KafkaProducer(
            bootstrap_servers=topics.broker.bootstrap_servers,
            transactional_id=topics.broker.unused_name("spark-parity"),
            # Transactions are open while Spark reads, which takes long on a busy machine.
            transaction_timeout_ms=600_000,
        )
        self.producer.init_transactions()
        self._committed = KafkaConsumer(
            bootstrap_servers=topics.broker.bootstrap_servers, isolation_level="read_committed"
        )

    def begin(self, those: list[str]) -> None:
        """Begins a transaction and writes values."""
        self.producer.begin_transaction()
        for value in those:
            self.producer.send(self._topic, value.encode(), partition=0)
        self.producer.flush()

    def commit(self, end: int) -> None:
        """Commits, and waits until readers see it: the last stable offset is `end`."""
        self.producer.commit_transaction()
        self._wait_for(end)

    def abort(self, end: int) -> None:
        """Aborts, and waits until readers see it: the last stable offset is `end`."""
        self.producer.abort_transaction()
        self._wait_for(end)

    def _wait_for(self, end: int) -> None:
        place = TopicPartition(self._topic, 0)
        wait_until(
            lambda: self._committed.end_offsets([place])[place] == end,
            60,
            what=f"the marker before offset {end}",
        )

    def close(self) -> None:
        self._committed.close()
        self.producer.close()


@pytest.fixture
def topic(both: Topics) -> str:
    return both.create()


@pytest.fixture
def writer(both: Topics, topic: str) -> Iterator[Writer]:
    with closing(Writer(both, topic)) as writer:
        yield writer


def batches_of(query: Engine) -> list[list[str]]:
    """Runs triggers until nothing is new. Returns their batches."""
    before = len(query.batches)
    while query.trigger():
        pass
    return [query.batches[n] for n in range(before, len(query.batches))]


def test_parity_52_to_53_a_stream_of_transactions(both: Topics, topic: str, writer: Writer) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    committed = Engine(both, **options, **COMMITTED)
    uncommitted = Engine(both, **options)
    committed.start()
    assert batches_of(committed) == [[]]  # the first batch always runs
    writer.begin(values(0, 5))  # offsets 0 to 4
    assert batches_of(committed) == []
    writer.commit(6)
    assert batches_of(committed) == [values(0, 3), values(3, 2)]
    writer.begin(values(5, 5))  # offsets 6 to 10
    writer.abort(12)
    # Aborted records, and a batch that has only the rest of them and the marker.
    assert batches_of(committed) == [[], []]
    writer.begin(values(10, 3))  # offsets 12 to 14
    writer.commit(16)
    assert batches_of(committed) == [values(10, 3), []]
    writer.begin(values(13, 2))  # offsets 16 and 17
    assert batches_of(committed) == []
    uncommitted.start()
    assert batches_of(uncommitted) == [
        values(0, 3),
        values(3, 2),  # offsets 3 to 5, of which 5 is a marker
        values(5, 3),
        values(8, 2),
        values(10, 3),
        values(13, 2),  # offsets 15 to 17
    ]
    writer.commit(19)
    assert batches_of(committed) == [values(13, 2)]
    committed.stop()
    uncommitted.stop()


def test_parity_81_to_82_batches_of_transactions(
    source: Source, both: Topics, topic: str, writer: Writer
) -> None:
    def check(committed: list[str], uncommitted: list[str]) -> None:
        for connector in ("thalweg", "kafka"):
            read = source.read(both, connector=connector, subscribe=topic, **COMMITTED)
            assert texts(read) == committed, connector
            read = source.read(both, connector=connector, subscribe=topic)
            assert texts(read) == uncommitted, connector

    writer.begin(values(0, 3))
    check([], values(0, 3))
    writer.commit(4)
    writer.begin(values(3, 3))
    writer.abort(8)
    check(values(0, 3), values(0, 6))
    writer.begin(values(6, 1))
    check(values(0, 3), values(0, 7))
    writer.commit(10)
    check([*values(0, 3), *values(6, 1)], values(0, 7))
