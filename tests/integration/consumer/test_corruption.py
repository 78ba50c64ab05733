"""Damaged batches and absurd responses, from a broker that behaves as no real one does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, read, within
from tests.integration.support.scripted import (
    Close,
    Request,
    ScriptedBroker,
    flipped,
    stored_batches,
)
from tests.support.brokers import Broker
from tests.support.wire import FETCH, METADATA
from thalweg import TopicPartition
from thalweg.errors import CorruptRecordError, KafkaError, KafkaTimeoutError, NoBrokersAvailable

ROWS = 10
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _batches(broker: Broker, clients: Clients, codec: str, count: int = 3) -> list[bytes]:
    """Makes batches of ROWS records each, as a broker stores them."""
    topic = broker.create_topic("damaged")
    producer = clients.producer(broker, compression_type=codec, linger_ms=300, batch_size=100_000)
    for number in range(count):
        values = [b"value-%d-%d" % (number, row) for row in range(ROWS)]
        producer.send_many(topic, values).get(20)
    batches = stored_batches(broker.bootstrap_servers, topic, 0)
    assert len(batches) == count
    return batches


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_batch_is_raised_with_its_place_and_the_position_stays(
    broker: Broker, clients: Clients, scripted: ScriptedBroker, codec: str
) -> None:
    """A wrong checksum: no record of the batch is returned, for any codec. Scenario 6."""
    good = _batches(broker, clients, codec)
    scripted.logs["t", 0] = [good[0], flipped(good[1]), good[2]]
    where = TopicPartition("t", 0)
    consumer = clients.consumer(scripted, "t")
    assert [each.offset for each in read(consumer, ROWS)] == list(range(ROWS))
    for _ in range(2):  # the error repeats until the application acts
        with within(20), pytest.raises(CorruptRecordError, match=f"t-0.*{ROWS}") as caught:
            consumer.poll(20_000)
        assert caught.value.topic_partition == where
        assert caught.value.offset == ROWS
        assert consumer.position(where) == ROWS
    consumer.seek(where, 2 * ROWS)
    assert [each.offset for each in read(consumer, ROWS)] == list(range(2 * ROWS, 3 * ROWS))


def test_other_partitions_flow_past_a_damaged_batch(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    """Scenario 6."""
    good = _batches(broker, clients, "none")
    scripted.logs["t", 0] = [flipped(good[0]), *good[1:]]
    scripted.logs["t", 1] = good
    consumer = clients.consumer(scripted, "t", (0, 1))
    found: list[Any] = []
    errors = 0
    with within(30):
        while len(found) < 3 * ROWS or not errors:
            try:
                for records in consumer.poll(1000).values():
                    found += records
            except CorruptRecordError:
                errors += 1
    assert set(by_partition(found)) == {1}
    assert [each.offset for each in found] == list(range(3 * ROWS))
    assert consumer.position(TopicPartition("t", 0)) == 0


def test_poll_arrow_and_iteration_raise_it_too(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    good = _batches(broker, clients, "lz4", 2)
    scripted.logs["t", 0] = [good[0], flipped(good[1])]
    consumer = clients.consumer(scripted, "t")
    assert consumer.poll_arrow(20_000).num_rows == ROWS
    with within(20), pytest.raises(CorruptRecordError):
        consumer.poll_arrow(20_000)
    consumer.seek(TopicPartition("t", 0), 0)
    assert [next(consumer).offset for _ in range(ROWS)] == list(range(ROWS))
    with within(20), pytest.raises(CorruptRecordError):
        next(consumer)


def test_without_check_crcs_what_can_be_read_is_read(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    good = _batches(broker, clients, "none", 1)
    scripted.logs["t", 0] = [flipped(good[0])]
    records = read(clients.consumer(scripted, "t", check_crcs=False), ROWS)
    assert [each.value for each in records][:-1] == [b"value-0-%d" % n for n in range(ROWS - 1)]
    assert records[-1].value == b"value-0-8"  # "9" with its last bit flipped


@pytest.mark.parametrize("codec", CODECS)
def test_damage_anywhere_in_a_batch_never_crashes_or_goes_unseen(
    broker: Broker, clients: Clients, scripted: ScriptedBroker, codec: str
) -> None:
    """Damages every byte that the checksum covers, and the checksum itself."""
    (good,) = _batches(broker, clients, codec, 1)
    scripted.logs["t", 0] = [good]
    consumer = clients.consumer(scripted, "t", fetch_max_wait_ms=10)
    where = TopicPartition("t", 0)
    for at in range(17, len(good), max(1, len(good) // 25)):
        scripted.logs["t", 0] = [flipped(good, at)]
        consumer.seek(where, 0)
        with within(20), pytest.raises(CorruptRecordError):
            consumer.poll(20_000)
    scripted.logs["t", 0] = [good]
    consumer.seek(where, 0)
    assert len(read(consumer, ROWS)) == ROWS


def test_a_cut_off_last_batch_is_fetched_again(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    """Brokers fill a response up to the last byte, so its last batch is often cut. Scenario 7."""
    good = _batches(broker, clients, "none")
    scripted.logs["t", 0] = good
    size = len(good[0]) + len(good[1]) // 2
    honest, cut = scripted._records, 0

    def records(topic: str, index: int, offset: int, bytes_max: int) -> bytes:
        nonlocal cut
        found = honest(topic, index, offset, bytes_max)
        cut += 0 < len(found) == bytes_max
        return found

    scripted._records = records  # type: ignore[method-assign]
    consumer = clients.consumer(scripted, "t", max_partition_fetch_bytes=size)
    assert [each.offset for each in read(consumer, 3 * ROWS)] == list(range(3 * ROWS))
    assert cut > 0


def test_a_compacted_log_has_gaps_that_are_stepped_over(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    """Scenario 38."""
    good = _batches(broker, clients, "none", 5)
    scripted.logs["t", 0] = [good[0], good[2], good[4]]
    consumer = clients.consumer(scripted, "t")
    records = read(consumer, 3 * ROWS)
    assert [each.offset for each in records] == [*range(10), *range(20, 30), *range(40, 50)]
    consumer.seek(TopicPartition("t", 0), 15)
    assert read(consumer, 1)[0].offset == 20


HOSTILE: dict[str, Callable[[Request], bytes | None]] = {
    "noise": lambda _: os.urandom(200),
    "empty": lambda _: b"",
    "absurd counts": lambda _: b"\x00" * 4 + b"\x7f\xff\xff\xff" * 20,
    "negative counts": lambda _: b"\x00" * 4 + b"\xff\xff\xff\xfe" * 20,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_absurd_fetch_response_is_reported_and_requested_again(
    broker: Broker,
    clients: Clients,
    scripted: ScriptedBroker,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Counts and lengths that make no sense, in the fields of the response itself. Scenario 10."""
    good = _batches(broker, clients, "none", 1)
    scripted.logs["t", 0] = good
    honest = scripted._fetch
    responses = [HOSTILE[name]] * 3

    def hostile(request: Request) -> Any:
        return responses.pop()(request) if responses else honest(request)

    scripted.respond(FETCH, hostile)
    consumer = clients.consumer(scripted, "t")
    found: list[Any] = []
    with within(30):
        while len(found) < ROWS:
            try:
                for records in consumer.poll(1000).values():
                    found += records
            except KafkaError:
                continue  # reported clearly, and the consumer may continue
    assert [each.offset for each in found] == list(range(ROWS))
    assert not responses
    assert "a response of node 1 with records cannot be read" in caplog.text


def test_a_wrong_correlation_id_ends_the_connection(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    """Each wrong response ends its connection, and none of it is used. Scenario 42."""
    honest, other = _batches(broker, clients, "none", 1), _batches(broker, clients, "gzip", 2)[1]
    scripted.logs["t", 0] = [b"\0" * 8 + other[8:]]  # a batch that claims to begin at offset 0
    connections: list[int] = []

    def fetch(request: Request) -> Any:
        connections.append(request.connection)
        if len(connections) <= 2:
            object.__setattr__(request, "correlation", request.correlation + 1000)
        else:
            scripted.logs["t", 0] = honest
        return scripted._fetch(request)

    scripted.respond(FETCH, fetch)
    values = [each.value for each in read(clients.consumer(scripted, "t"), ROWS)]
    assert values == [b"value-0-%d" % row for row in range(ROWS)]
    assert len(set(connections[:3])) == 3


def test_a_broker_that_closes_every_connection_is_not_available(
    clients: Clients, scripted: ScriptedBroker
) -> None:
    def close(_: Request) -> None:
        raise Close

    scripted.respond(METADATA, close)
    with within(30), pytest.raises((NoBrokersAvailable, KafkaTimeoutError)):
        clients.consumer(scripted, bootstrap_timeout_ms=1500)
    # The client waits between two tries and makes no busy loop.
    assert len(scripted.seen) < 100
