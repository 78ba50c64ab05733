"""Structs: fields, defaults, and that they behave like tuples."""

import copy
import pickle

import pytest

from thalweg import structs
from thalweg.structs import (
    BrokerMetadata,
    ConsumerGroupMetadata,
    MemberState,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
    TopicPartitionReplica,
)


def test_a_partition_unpacks_compares_and_is_a_key():
    where = TopicPartition("t", 3)
    topic, partition = where
    assert (topic, partition) == where == ("t", 3)
    assert {where: 1}["t", 3] == 1  # type: ignore[index]
    assert min(TopicPartition("b", 0), TopicPartition("a", 9)).topic == "a"
    assert where._replace(partition=4) == TopicPartition("t", 4)
    assert TopicPartition(topic="t", partition=3) == where


def test_defaults_are_kafka_pythons():
    assert OffsetAndMetadata(5) == (5, "", -1)
    assert OffsetAndMetadata(5, "m", 7).leader_epoch == 7
    assert OffsetAndTimestamp(5, 6) == (5, 6, -1)
    assert ConsumerGroupMetadata("g") == ("g", -1, "", None, MemberState.UNJOINED)
    assert ConsumerGroupMetadata().group_id is None


def test_a_broker_has_both_of_its_names():
    broker = BrokerMetadata(1, "h", 9092)
    assert (broker.nodeId, broker.node_id, broker.rack) == (1, 1, None)
    assert BrokerMetadata(1, "h", 9092, "r") == (1, "h", 9092, "r")


@pytest.mark.parametrize(
    "value",
    [
        TopicPartition("t", 1),
        TopicPartitionReplica("t", 1, 2),
        OffsetAndMetadata(1),
        RecordMetadata("t", 1, TopicPartition("t", 1), 5, 6, None, -1, 3, -1),
    ],
)
def test_structs_pickle_and_copy(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert type(copy.copy(value)) is type(value)


def test_every_public_struct_is_a_documented_tuple():
    for name in structs.__all__:
        kind = getattr(structs, name)
        assert kind.__doc__, name
        assert kind is MemberState or issubclass(kind, tuple | str), name
