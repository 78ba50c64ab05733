"""Partitioners: Java's hash, and every interface that kafka-python has had."""

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.partitioner import (
    ConsistentRandomPartitioner,
    DefaultPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    murmur2,
    partition_function,
)


class Cluster:
    """The part of the cluster's metadata that a partitioner uses."""

    def __init__(self, partitions: set[int] | None, available: set[int] | None = None) -> None:
        self.partitions = partitions
        self.available = partitions if available is None else available

    def partitions_for_topic(self, topic: str) -> Any:
        return self.partitions

    def available_partitions_for_topic(self, topic: str) -> Any:
        return self.available


def choose(partitioner: Any, cluster: Any, key: bytes | None = None) -> int:
    found = partitioner.partition("t", key, key, b"v", b"v", cluster)
    assert isinstance(found, int)
    return found


# UtilsTest.testMurmur2 of Apache Kafka, as unsigned numbers.
JAVA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize("data, expected", JAVA)
def test_murmur2_is_javas(data, expected):
    assert murmur2(data) == expected % 2**32


@given(st.binary(max_size=64))
def test_murmur2_is_kafka_pythons(data):
    assert murmur2(data) == _kafka_python_murmur2(data)
    assert murmur2(bytearray(data)) == murmur2(memoryview(data)) == murmur2(data)


def _kafka_python_murmur2(data: bytes) -> int:
    """Computes the hash byte by byte, as Java's code does."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    result = 0x9747B28C ^ length
    for start in range(0, length - length % 4, 4):
        word = sum(data[start + each] << 8 * each for each in range(4))
        word = word * mix & mask
        word ^= word >> 24
        word = word * mix & mask
        result = result * mix & mask
        result ^= word
    left = length % 4
    base = length & ~3
    if left == 3:
        result ^= data[base + 2] << 16
    if left >= 2:
        result ^= data[base + 1] << 8
    if left >= 1:
        result ^= data[base]
        result = result * mix & mask
    result ^= result >> 13
    result = result * mix & mask
    return result ^ result >> 15


def test_a_key_goes_where_java_sends_it():
    cluster = Cluster(set(range(10)))
    for data, expected in JAVA:
        assert choose(DefaultPartitioner(), cluster, data) == (expected & 0x7FFFFFFF) % 10


def test_a_key_goes_to_its_partition_even_without_leader():
    cluster = Cluster({0, 1, 2, 3}, available={2})
    wanted = (murmur2(b"k") & 0x7FFFFFFF) % 4
    assert choose(DefaultPartitioner(), cluster, b"k") == wanted


@pytest.mark.parametrize(
    "partitioner",
    [
        DefaultPartitioner(),
        StickyPartitioner(),
        RoundRobinPartitioner(),
        ConsistentRandomPartitioner(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_records_without_key_go_to_partitions_with_leader_if_there_are_any(partitioner):
    some = Cluster({0, 1, 2, 3}, available={1, 3})
    assert {choose(partitioner, some) for _ in range(50)} <= {1, 3}
    none = Cluster({0, 1}, available=set())
    assert {choose(partitioner, none) for _ in range(50)} <= {0, 1}


@pytest.mark.parametrize("partitions", [None, set()])
def test_an_unknown_topic_is_a_value_error(partitions):
    for partitioner in (DefaultPartitioner(), StickyPartitioner(), RoundRobinPartitioner()):
        with pytest.raises(ValueError, match="Topic t not found"):
            choose(partitioner, Cluster(partitions))


def test_kafka_python_2s_call_works():
    partitioner = DefaultPartitioner()
    assert partitioner(b"k", [0, 1, 2], [0]) == (murmur2(b"k") & 0x7FFFFFFF) % 3
    assert partitioner(None, [0, 1, 2], [1]) == 1
    assert partitioner(None, [2], []) == 2


def test_a_sticky_partition_stays_until_a_new_batch():
    partitioner: Any = StickyPartitioner()
    cluster = Cluster(set(range(8)))
    first = choose(partitioner, cluster)
    assert {choose(partitioner, cluster) for _ in range(20)} == {first}
    partitioner.on_new_batch("t", cluster, first)
    second = choose(partitioner, cluster)
    assert second != first
    partitioner.on_new_batch("t", cluster, first)  # another thread has changed it already
    assert choose(partitioner, cluster) == second


def test_a_sticky_partition_that_lost_its_leader_is_left():
    partitioner: Any = StickyPartitioner()
    first = choose(partitioner, Cluster({0, 1}))
    other = 1 - first
    assert choose(partitioner, Cluster({0, 1}, available={other})) == other
    partitioner.on_new_batch("t", Cluster(None), other)


def test_round_robin_takes_turns_by_topic():
    partitioner, cluster = RoundRobinPartitioner(), Cluster({0, 1, 2})
    assert [choose(partitioner, cluster, b"same") for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    assert partitioner.partition("other", None, None, None, None, cluster) == 0  # type: ignore[arg-type]


def test_consistent_random_is_librdkafkas():
    cluster = Cluster(set(range(7)))
    assert choose(ConsistentRandomPartitioner(), cluster, b"key") == zlib.crc32(b"key") % 7


def test_the_native_core_has_the_built_in_ones_and_not_their_subclasses():
    class Own(DefaultPartitioner):
        pass

    for built_in in (
        None,
        "default",
        DefaultPartitioner(),
        StickyPartitioner(),
        RoundRobinPartitioner(),
    ):
        assert partition_function(built_in) is None
    own = Own()
    assert partition_function(own) == own.partition


def test_kafka_python_2s_callable_is_given_key_and_partitions():
    seen: list[Any] = []

    def old(key: Any, all_partitions: Any, available: Any) -> int:
        seen.append((key, all_partitions, available))
        return 2

    function = partition_function(old)
    assert function is not None
    assert function("t", "k", b"k", None, None, Cluster({2, 0, 1}, {1, 0})) == 2  # type: ignore[arg-type]
    assert seen == [(b"k", [0, 1, 2], [0, 1])]


@pytest.mark.parametrize("given", [5, object()])
def test_something_else_is_a_type_error(given):
    with pytest.raises(TypeError, match="Partitioner or a callable"):
        partition_function(given)


def test_the_base_class_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Partitioner()  # type: ignore[abstract]
