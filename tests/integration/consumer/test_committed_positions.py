"""A commit covers exactly what was handed out, with the epoch of the leader that wrote it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read
from tests.integration.support.scripted import ScriptedBroker, flipped, stored_batches
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.errors import CorruptRecordError, DeserializationError, LogTruncationError

COUNT, BAD = 10, 6


def _picky(data: bytes | None) -> bytes:
    if data == b"value-%d" % BAD:
        raise ValueError("on purpose")
    return data or b""


def _reader(clients: Clients, broker: Any, topic: str, **options: Any) -> Any:
    given = {"group_id": f"of-{topic}", "value_deserializer": _picky, **options}
    return clients.consumer(broker, topic, **given)


def _by_poll(consumer: Any) -> int:
    return sum(len(each) for each in consumer.poll(5000).values())


def _by_iteration(consumer: Any) -> int:
    next(consumer)
    return 1


def _until_it_fails(consumer: Any, take: Any) -> int:
    """Returns the number of records before the error."""
    taken = 0
    try:
        while True:
            taken += take(consumer)
    except DeserializationError:
        return taken


@pytest.mark.parametrize("take", [_by_poll, _by_iteration])
@pytest.mark.parametrize("autocommit", [True, False])
def test_an_error_commits_no_further_than_the_record_before_it(
    broker: Broker, clients: Clients, take: Any, autocommit: bool
) -> None:
    """As in librdkafka #4844: an error within a batch moved the offset that was committed next.

    Bug 16.
    """
    topic = broker.create_topic("halfway")
    fill(clients, broker, topic, COUNT)
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic, enable_auto_commit=autocommit, max_poll_records=4)
    taken = 0
    for _ in range(3):  # the same error each time, and nothing changes
        taken += _until_it_fails(consumer, take)
        assert taken == consumer.position(where) == BAD
    if autocommit:
        consumer.close()
    else:
        consumer.commit()
    other = _reader(clients, broker, topic, value_deserializer=None)
    assert other.committed(where) == BAD
    assert [each.offset for each in read(other, COUNT - BAD)] == list(range(BAD, COUNT))


def test_the_end_of_a_partition_commits_nothing_more(broker: Broker, clients: Clients) -> None:
    """As in librdkafka #4844: reaching the end of a partition moved the offset, too. Bug 16."""
    topic = broker.create_topic("ended")
    fill(clients, broker, topic, COUNT)
    where = TopicPartition(topic, 0)
    consumer = clients.consumer(broker, topic, group_id=f"of-{topic}", enable_auto_commit=False)
    for offset in range(COUNT):
        assert next(consumer).offset == offset
        assert consumer._positions()[where].offset == offset + 1
    for _ in range(5):
        assert consumer.poll(50) == {}
    consumer.commit()
    assert consumer.committed(where) == COUNT


def test_a_damaged_batch_moves_no_position(
    broker: Broker, clients: Clients, scripted: ScriptedBroker
) -> None:
    """As in librdkafka #4844: an unreadable batch moved the position and its epoch, too.

    Bug 16.
    """
    topic = broker.create_topic("damaged")
    fill(clients, broker, topic, COUNT, linger_ms=60_000)  # one batch
    (good,) = stored_batches(broker.bootstrap_servers, topic, 0)
    bad = bytearray(flipped(good))
    bad[:8] = COUNT.to_bytes(8, "big")  # its base offset, which no checksum covers
    scripted.logs["t", 0] = [good, bytes(bad)]
    consumer = clients.consumer(scripted, "t")
    read(consumer, COUNT)
    before = consumer._positions()
    assert before[TopicPartition("t", 0)].leader_epoch >= 0
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            consumer.poll(20_000)
        assert consumer._positions() == before


def test_commits_carry_the_epoch_of_the_last_batch_even_of_a_marker(
    start_embedded: Any, clients: Clients
) -> None:
    """KAFKA-19902, KAFKA-20507: offsets committed without an epoch were reset after a truncation.

    Also the client must not use a marker's epoch for the records before the marker. Otherwise the
    next leader would find the position above the end of that epoch. Bug 18.
    """
    broker: EmbeddedBroker = start_embedded(nodes=2)
    broker.create_topic("marked")
    where = TopicPartition("marked", 0)
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "none"}
    consumer = clients.consumer(broker, "marked", group_id="g", **options)
    consumer.seek(where, 0)
    producer = clients.producer(broker, transactional_id="marking")
    producer.init_transactions()
    other = broker.nodes
    for turn in range(4):
        producer.begin_transaction()
        producer.send("marked", b"%d" % turn).get(20)
        broker.move_leader(where, other[turn % 2])
        producer.commit_transaction()
        end = 2 * (turn + 1)
        assert [each.value for each in read(consumer, 1)] == [b"%d" % turn]
        _come_to(consumer, where, end)
        consumer.commit()
        found: Any = consumer.committed(where, metadata=True)
        assert (found.offset, found.leader_epoch) == (end, _epoch(consumer))
    second = clients.consumer(broker, "marked", group_id="g", **options)
    assert second.position(where) == 8


def _come_to(consumer: Any, where: TopicPartition, offset: int) -> None:
    with suppress(LogTruncationError):
        wait_until(lambda: consumer.poll(50) == {} and consumer.position(where) == offset, 20)
        return
    raise AssertionError("nothing was cut off")


def _epoch(consumer: Any) -> int:
    """Returns the epoch of the partition's leader."""
    topics = consumer._core_client.metadata(["marked"])["Topics"]
    return int(topics[0]["Partitions"][0]["LeaderEpoch"])
