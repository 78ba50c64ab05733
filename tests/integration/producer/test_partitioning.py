"""Which partition a record is sent to."""

from __future__ import annotations

import zlib
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from thalweg.partitioner import (
    ConsistentRandomPartitioner,
    DefaultPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    murmur2,
)

pytestmark = one_real_broker

PARTITIONS = 5
# (key, murmur2 of the Java client): org.apache.kafka.common.utils.UtilsTest.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("partitioner", ["default", DefaultPartitioner(), "murmur2_random"])
def test_keys_go_where_java_puts_them(broker: Broker, clients: Clients, partitioner: Any) -> None:
    topic = broker.create_topic("murmur", PARTITIONS)
    producer = clients.producer(broker, partitioner=partitioner)
    for key, java in MURMUR2.items():
        assert murmur2(key) == java & 0xFFFFFFFF
        wanted = (java & 0x7FFFFFFF) % PARTITIONS
        assert producer.send(topic, b"v", key=key).get(20).partition == wanted


def test_the_given_partition_wins(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("given", PARTITIONS)
    producer = clients.producer(broker)
    for partition in range(PARTITIONS):
        assert producer.send(topic, b"v", key=b"k", partition=partition).get(20).partition == (
            partition
        )


def test_keyless_records_stick_to_a_partition_for_a_batch(broker: Broker, clients: Clients) -> None:
    """One batch's records stay together (KIP-480), and all partitions get a share (KIP-794)."""
    count = scaled(1_000_000, minimum=5000)
    topic = broker.create_topic("sticky", PARTITIONS)
    producer = clients.producer(broker, linger_ms=20, batch_size=1000)
    sent = [producer.send(topic, b"%050d" % number) for number in range(count)]
    producer.flush(60)
    placed = [each.get(0).partition for each in sent]
    shares = Counter(placed)
    assert set(shares) == set(range(PARTITIONS))
    switches = sum(a != b for a, b in pairwise(placed))
    # Records have about 60 bytes, so a batch has at least about 10 before the partition changes.
    assert switches < count / 8
    assert min(shares.values()) > count / PARTITIONS / 4


def test_ignoring_keys_spreads_equal_keys(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("ignore", PARTITIONS)
    producer = clients.producer(broker, partitioner_ignore_keys=True, batch_size=500, linger_ms=5)
    sent = [producer.send(topic, b"x" * 100, key=b"one key") for _ in range(500)]
    producer.flush(20)
    assert len({each.get(0).partition for each in sent}) > 1


@pytest.mark.parametrize("partitioner", ["round_robin", RoundRobinPartitioner()])
def test_round_robin_takes_all_in_turn(broker: Broker, clients: Clients, partitioner: Any) -> None:
    topic = broker.create_topic("robin", PARTITIONS)
    producer = clients.producer(broker, partitioner=partitioner)
    placed = [producer.send(topic, b"v", key=b"same").get(20).partition for _ in range(20)]
    assert Counter(placed) == Counter(dict.fromkeys(range(PARTITIONS), 4))


@pytest.mark.parametrize("partitioner", ["consistent_random", ConsistentRandomPartitioner()])
def test_consistent_random_is_librdkafkas_crc32(
    broker: Broker, clients: Clients, partitioner: Any
) -> None:
    topic = broker.create_topic("crc", PARTITIONS)
    producer = clients.producer(broker, partitioner=partitioner)
    for key in (b"key", b"another", b"a third one"):
        wanted = zlib.crc32(key) % PARTITIONS
        assert producer.send(topic, b"v", key=key).get(20).partition == wanted


class ByLength(Partitioner):
    """Chooses partitions by the length of values, and records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.closed = False

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int | None:
        self.asked.append((topic, key, serialized_key, value, serialized_value))
        return len(serialized_value or b"") % len(cluster.partitions_for_topic(topic))

    def close(self) -> None:
        self.closed = True


def test_a_partitioner_of_ones_own_sees_both_forms(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("own", PARTITIONS)
    partitioner = ByLength()
    with clients.producer(
        broker, partitioner=partitioner, key_serializer=str.encode, value_serializer=str.encode
    ) as producer:
        placed = [producer.send(topic, "x" * n, key=f"k{n}").get(20).partition for n in range(7)]
    assert placed == [n % PARTITIONS for n in range(7)]
    assert partitioner.asked[3] == (topic, "k3", b"k3", "xxx", b"xxx")
    assert partitioner.closed


def test_a_given_partition_asks_no_partitioner(embedded: Broker, clients: Clients) -> None:
    topic = embedded.create_topic("notasked", PARTITIONS)
    partitioner = ByLength()
    producer = clients.producer(embedded, partitioner=partitioner)
    assert producer.send(topic, b"x", partition=4).get(20).partition == 4
    assert partitioner.asked == []


def test_kafka_python_2s_callable_is_taken(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("callable", PARTITIONS)
    seen: list[Any] = []

    def last(key: bytes | None, everything: list[int], available: list[int]) -> int:
        seen.append((key, everything, available))
        return everything[-1]

    producer = clients.producer(broker, partitioner=last)
    assert producer.send(topic, b"v", key=b"k").get(20).partition == PARTITIONS - 1
    assert seen == [(b"k", list(range(PARTITIONS)), list(range(PARTITIONS)))]


@pytest.mark.parametrize("answer, error", [(None, ValueError), (-1, ValueError), (99, ValueError)])
def test_a_partitioner_that_is_wrong_fails_that_send_alone(
    embedded: Broker, clients: Clients, answer: Any, error: type[Exception]
) -> None:
    topic = embedded.create_topic("wrong", 2)
    answers = [answer, 1]
    producer = clients.producer(embedded, partitioner=lambda *_: answers.pop(0))
    with pytest.raises(error):
        producer.send(topic, b"bad")
    assert producer.send(topic, b"good").get(20).partition == 1


def test_a_partitioner_that_raises_fails_that_send_alone(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("raises", 2)

    def moody(key: bytes | None, *_: Any) -> int:
        if key == b"bad":
            raise LookupError("no partition for you")
        return 1

    producer = clients.producer(embedded, partitioner=moody)
    sent = [producer.send(topic, b"1", key=b"good")]
    with pytest.raises(LookupError, match="no partition for you"):
        producer.send(topic, b"2", key=b"bad")
    sent.append(producer.send(topic, b"3", key=b"good"))
    assert [each.get(20).offset for each in sent] == [0, 1]


class Moving(Partitioner):
    """A partitioner as in KIP-480: one partition until on_new_batch chooses the next."""

    def __init__(self) -> None:
        self.current = 0
        self.moved: list[tuple[str, int]] = []

    def partition(self, *_: Any) -> int | None:
        return self.current

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        self.moved.append((topic, prev_partition))
        self.current = (prev_partition + 1) % len(cluster.partitions_for_topic(topic))


def test_on_new_batch_moves_a_sticky_partitioner_on(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("newbatch", 3)
    partitioner = Moving()
    producer = clients.producer(broker, partitioner=partitioner, batch_size=1000, linger_ms=50)
    sent = [producer.send(topic, b"x" * 100) for _ in range(100)]
    producer.flush(20)
    placed = [each.get(0).partition for each in sent]
    assert set(placed) == {0, 1, 2}
    assert {name for name, _ in partitioner.moved} == {topic}
    switches = sum(a != b for a, b in pairwise(placed))
    assert 5 <= switches <= 50
