"""Offsets without a record: transaction markers, aborted data, compacted logs (real Kafka)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.support.clients import Clients, fill, read, read_more
from tests.integration.support.scripted import ScriptedBroker, stored_batches
from tests.support import peers
from tests.support.batches import batch
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import TopicPartition
from thalweg.errors import OffsetOutOfRangeError
from thalweg.range_reader import OffsetRange, RangeReader


def _transactions(broker: Broker, topic: str, *steps: str) -> None:
    module = "tests.integration.consumer.transactional"
    peers.run_module("confluent-kafka", module, broker.bootstrap_servers, topic, *steps)


def _values(records: list[Any]) -> list[str]:
    return [each.value.decode() for each in records]


@pytest.fixture(params=["poll", "poll_arrow"])
def reader(request: pytest.FixtureRequest) -> Callable[[Any, int], list[str]]:
    """Reads a number of values, with `poll` or with `poll_arrow`."""
    if request.param == "poll":
        return lambda consumer, count: _values(read(consumer, count))

    def by_columns(consumer: Any, count: int) -> list[str]:
        found: list[bytes] = []

        def enough() -> bool:
            found.extend(consumer.poll_arrow(200).to_pyarrow().column("value").to_pylist())
            return len(found) >= count

        wait_until(enough, 60, every=0)
        return [each.decode() for each in found]

    return by_columns


def test_aborted_records_and_markers_are_hidden(
    kafka: Broker, clients: Clients, reader: Callable[[Any, int], list[str]]
) -> None:
    """As in librdkafka #3020: compressed records of aborted transactions were delivered.

    Scenario 39, bug 10.
    """
    topic = kafka.create_topic("transactions")
    _transactions(kafka, topic, "plain:2", "commit:2", "abort:3", "plain:1", "commit:1", "abort:1")
    where = TopicPartition(topic, 0)
    # 10 records and 4 markers.
    committed = clients.consumer(kafka, topic, isolation_level="read_committed")
    assert reader(committed, 6) == [
        "plain-0",
        "plain-1",
        "commit-2",
        "commit-3",
        "plain-7",
        "commit-8",
    ]
    wait_until(lambda: committed.poll(50) == {} and committed.position(where) == 14, 20)
    uncommitted = clients.consumer(kafka, topic, isolation_level="read_uncommitted")
    values = reader(uncommitted, 10)
    assert [int(each.split("-")[1]) for each in values] == list(range(10))
    wait_until(lambda: uncommitted.poll(50) == {} and uncommitted.position(where) == 14, 20)


def test_nothing_is_read_past_an_open_transaction(kafka: Broker, clients: Clients) -> None:
    topic = kafka.create_topic("open")
    _transactions(kafka, topic, "commit:2", "open:2")
    clients.producer(kafka).send(topic, b"behind").get(20)
    where = TopicPartition(topic, 0)
    committed = clients.consumer(kafka, topic, isolation_level="read_committed")
    assert _values(read(committed, 2)) == ["commit-0", "commit-1"]
    assert read_more(committed) == []
    assert committed.end_offsets([where]) == {where: 3}  # the last stable offset
    uncommitted = clients.consumer(kafka, topic)
    assert _values(read(uncommitted, 5))[-1] == "behind"
    assert uncommitted.end_offsets([where]) == {where: 6}


def test_iteration_steps_over_aborted_records(kafka: Broker, clients: Clients) -> None:
    topic = kafka.create_topic("iterated")
    _transactions(kafka, topic, "abort:5", "commit:1", "abort:5", "commit:1")
    consumer = clients.consumer(
        kafka, topic, isolation_level="read_committed", consumer_timeout_ms=60_000
    )
    assert [next(consumer).value for _ in range(2)] == [b"commit-5", b"commit-11"]
    assert read_more(consumer) == []


def test_seek_to_end_under_read_committed_is_the_last_stable_offset(
    kafka: Broker, clients: Clients
) -> None:
    topic = kafka.create_topic("stable")
    _transactions(kafka, topic, "plain:3", "open:2")
    consumer = clients.consumer(kafka, topic, isolation_level="read_committed")
    consumer.seek_to_end()
    assert consumer.position(TopicPartition(topic, 0)) == 3


def test_a_compacted_log_is_read_without_its_gaps(
    start_kafka: Callable[..., RealKafka], clients: Clients
) -> None:
    """kafka-python #1571 and others: a consumer was stuck on batches without remaining records.

    Scenario 38, bug 9.
    """
    kafka = start_kafka("4.3", configs={"log.cleaner.backoff.ms": "100"})
    kafka.create_topic(
        "compacted",
        configs={
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "segment.ms": "300",
            "min.compaction.lag.ms": "0",
        },
    )
    rounds = scaled(2500, minimum=20)
    producer = clients.producer(kafka, linger_ms=5)
    for number in range(rounds):
        for key in range(10):
            producer.send("compacted", b"%d" % number, key=b"%d" % key)
        producer.flush(20)

    def compacted() -> Any:
        # Kafka never compacts the active segment, so each try starts a new segment.
        producer.send("compacted", b"roll", key=b"roll").get(20)
        found = _all(clients, kafka)
        return found if len(found) < rounds * 5 else None

    found = wait_until(compacted, 180, every=0.5)
    offsets = [each.offset for each in found]
    assert offsets == sorted(set(offsets))
    last = {each.key: each.value for each in found}
    assert all(last[b"%d" % key] == b"%d" % (rounds - 1) for key in range(10))
    # Seek into every gap, and to the end.
    consumer = clients.consumer(kafka, "compacted")
    where = TopicPartition("compacted", 0)
    for offset in range(0, rounds * 10, max(1, rounds * 10 // 40)):
        consumer.seek(where, offset)
        assert read(consumer, 1)[0].offset >= offset


def _all(clients: Clients, kafka: RealKafka) -> list[Any]:
    """Reads the complete log."""
    with clients.consumer(kafka, "compacted") as consumer:
        where = TopicPartition("compacted", 0)
        end = consumer.end_offsets([where])[where]
        found: list[Any] = []
        while consumer.position(where) < end:
            found += [each for records in consumer.poll(5000).values() for each in records]
        return found


@pytest.mark.parametrize("emptied", [0, 1])
def test_a_batch_of_which_nothing_is_left_is_no_partition_with_records(
    embedded: Broker, clients: Clients, scripted: ScriptedBroker, emptied: int
) -> None:
    """Its position advances. poll returns only the other partition, without an empty list."""
    topic = embedded.create_topic("kept")
    fill(clients, embedded, topic, 3)
    nothing_left, kept = TopicPartition("t", emptied), TopicPartition("t", 1 - emptied)
    scripted.logs["t", nothing_left.partition] = [batch(b"", records=0)]
    scripted.logs["t", kept.partition] = stored_batches(embedded.bootstrap_servers, topic, 0)
    consumer = clients.consumer(scripted, "t", (0, 1))
    polled: list[dict[TopicPartition, list[Any]]] = []

    def both_are_read() -> bool:
        polled.append(consumer.poll(100))
        return consumer.position(nothing_left) == 1 and consumer.position(kept) == 3

    wait_until(both_are_read, 20, every=0)
    (given,) = filter(None, polled)
    assert {where: [each.offset for each in given[where]] for where in given} == {kept: [0, 1, 2]}


def test_a_range_reader_tells_what_is_gone(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aged")
    fill(clients, broker, topic, 10)
    clients.admin(broker).delete_records({TopicPartition(topic, 0): 4})
    config = {"bootstrap.servers": broker.bootstrap_servers}
    wanted = [OffsetRange(topic, 0, 0, 10)]
    with RangeReader(config) as reader:
        batches = list(reader.read(wanted, fail_on_data_loss=False))
        assert sum(pa.record_batch(each).num_rows for each in batches) == 6
        assert reader.lost == [OffsetRange(topic, 0, 0, 4)]
        with pytest.raises(OffsetOutOfRangeError, match=r"0 .* 4|they were deleted"):
            list(reader.read(wanted))


def test_a_range_reader_reads_many_ranges_with_one_client(broker: Broker, clients: Clients) -> None:
    topics = [broker.create_topic(f"many-{number}", 2) for number in range(3)]
    producer = clients.producer(broker)
    for topic in topics:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    with RangeReader({"bootstrap.servers": broker.bootstrap_servers}) as reader:
        for start, end in [(0, 10), (2, 7), (4, 4), (9, 10)]:
            ranges = [OffsetRange(topic, n, start, end) for topic in topics for n in range(2)]
            read = [pa.record_batch(each) for each in reader.read(ranges)]
            rows = [row for each in read for row in each.to_pylist()]
            found = [(row["topic"], row["partition"], row["offset"]) for row in rows]
            wanted = [(topic, n, at) for topic, n, *_ in ranges for at in range(start, end)]
            assert found == wanted
            assert len(read) <= 1, "small ranges share a batch"
        reader.rest()
        assert list(reader.read([])) == []


def test_a_range_reader_refuses_ranges_that_it_cannot_read(broker: Broker) -> None:
    with RangeReader({"bootstrap.servers": broker.bootstrap_servers}) as reader:
        with pytest.raises(ValueError, match="twice-1 has two ranges"):
            reader.read([OffsetRange("twice", 1, 0, 3), OffsetRange("twice", 1, 3, 6)])
        with pytest.raises(ValueError, match=r"range -2 to 4 of t-0 has a negative offset"):
            reader.read([OffsetRange("t", 0, -2, 4)])
        with pytest.raises(ValueError, match="colour"):
            reader.read([OffsetRange("t", 0, 0, 4)], columns=["colour"])
        with pytest.raises(ValueError, match="batch_rows must be at least 1"):
            reader.read([OffsetRange("t", 0, 0, 4)], batch_rows=0)
        with pytest.raises(ValueError, match="batch_bytes must be at least 1"):
            reader.read([OffsetRange("t", 0, 0, 4)], batch_bytes=0)
