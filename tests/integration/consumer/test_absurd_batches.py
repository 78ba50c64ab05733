"""Batches made to exhaust or crash a reader cause an error for their partition, and no more."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.integration.consumer.bombs import bomb
from tests.integration.support.clients import Clients, fill, read, within
from tests.integration.support.scripted import ScriptedBroker, stored_batches
from tests.integration.support.scripts import run
from tests.support.batches import batch, record, varint
from tests.support.brokers import Broker
from thalweg import TopicPartition
from thalweg.errors import CorruptRecordError

READER = """
import resource

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
consumer.assign([TopicPartition("t", 1)])
while not consumer.poll(1000):
    pass
before = used()
consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
consumer.seek_to_beginning(TopicPartition("t", 1))
refused = read = 0
while not (refused and read):
    try:
        read += sum(len(each) for each in consumer.poll(1000).values())
    except errors.CorruptRecordError as error:
        refused += 1
        print(error.topic_partition.partition, error.offset, error)
print(used() - before)
"""


@pytest.fixture
def good(embedded: Broker, clients: Clients) -> bytes:
    """A valid batch of ten records."""
    topic = embedded.create_topic("sound")
    fill(clients, embedded, topic, 10, linger_ms=60_000)  # one batch
    return stored_batches(embedded.bootstrap_servers, topic, 0)[0]


def test_a_decompression_bomb_costs_neither_memory_nor_the_process(
    scripted: ScriptedBroker, good: bytes
) -> None:
    """The client refuses 256 KiB that become 8 GiB, and continues to read other partitions.

    Scenario 8.
    """
    scripted.logs["t", 0] = [bomb(8 << 30)]
    scripted.logs["t", 1] = [good]
    assert len(scripted.logs["t", 0][0]) < 300 << 10
    error, grown_mib = run(READER, scripted.bootstrap_servers).lines[-2:]
    assert error.startswith("0 0 ")
    assert str(256 << 20) in error
    assert int(grown_mib) < 1024


MAX, MIN = 2**31 - 1, -(2**31)
SOUND = record(b"v")
ABSURD: dict[str, bytes] = {
    "more records than bytes": batch(SOUND, records=MAX),
    "a negative number of records": batch(SOUND, records=-1),
    "fewer records than there are": batch(SOUND * 3, records=2),
    "more headers than bytes": batch(record(b"v", headers=varint(MAX))),
    "a negative number of headers": batch(record(b"v", headers=varint(-1))),
    "a record longer than the batch": batch(varint(MAX) + SOUND[1:]),
    "a record of negative length": batch(varint(MIN) + SOUND[1:]),
    "a varint without an end": batch(b"\xff" * 40),
    "a batch shorter than its header": struct.pack(">qi", 0, 10) + SOUND * 10,
    "a batch of negative length": struct.pack(">qi", 0, -5) + SOUND * 10,
    "a batch of an unknown format": batch(SOUND)[:16] + b"\x7f" + batch(SOUND)[17:],
}


def test_a_batch_made_by_hand_is_read(scripted: ScriptedBroker, clients: Clients) -> None:
    """Shows that the absurd batches have no other faults: the valid one is made the same way."""
    scripted.logs["t", 0] = [batch(SOUND)]
    (found,) = read(clients.consumer(scripted, "t"), 1)
    assert (found.offset, found.key, found.value) == (0, None, b"v")


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_counts_and_lengths_are_errors_of_their_partition(
    scripted: ScriptedBroker, clients: Clients, good: bytes, name: str
) -> None:
    """Scenario 10."""
    scripted.logs["t", 0] = [good]
    honest = scripted._records
    wrong = TopicPartition("t", 0)
    scripted.logs["t", 1] = [good]

    def records(topic: str, index: int, offset: int, bytes_max: int) -> bytes:
        return ABSURD[name] if index == 0 else honest(topic, index, offset, bytes_max)

    scripted._records = records  # type: ignore[method-assign]
    consumer = clients.consumer(scripted, "t", (0, 1))
    found: list[Any] = []
    refused: list[CorruptRecordError] = []
    with within(20):
        while not (refused and len(found) == 10):
            try:
                for each in consumer.poll(1000).values():
                    found += each
            except CorruptRecordError as error:
                refused.append(error)
    assert {each.partition for each in found} == {1}
    assert "checksum" not in str(refused[0])
    assert (refused[0].topic_partition, refused[0].offset) == (wrong, 0)
    assert consumer.position(wrong) == 0
    scripted._records = honest  # type: ignore[method-assign]
    assert [each.partition for each in read(consumer, 10)] == [0] * 10
