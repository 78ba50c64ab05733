"""Topics and partitions on a single node. test_replicas.py tests what needs three nodes."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Node
from tests.support.waiting import wait_until
from thalweg import OffsetSpec, TopicPartition
from thalweg.admin import NewPartitions, NewTopic
from thalweg.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)


def test_topics_are_created_described_and_deleted(node: Node) -> None:
    admin, name = node.admin, node.name("topic")
    made = NewTopic(name, 2, 1, topic_configs={"retention.ms": 5000})
    (row,) = admin.create_topics([made])["topics"]
    assert (row["name"], row["error_code"], row["num_partitions"]) == (name, 0, 2)
    assert row["configs"]["retention.ms"]["value"] == "5000"
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    (found,) = admin.describe_topics([name])
    assert [each["replica_nodes"] for each in found["partitions"]] == [[1], [1]]
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics(), 20)
    with pytest.raises(KafkaTimeoutError, match=name):
        admin.wait_for_topics([name], timeout_ms=300)


def test_options_that_do_not_fit_are_told_with_the_topic(node: Node) -> None:
    name = node.name("bad")
    with pytest.raises(InvalidConfigurationError, match=f"{name}.*retention.ms"):
        node.admin.create_topics([NewTopic(name, topic_configs={"retention.ms": "soon"})])


def test_partitions_are_added(node: Node) -> None:
    topic, admin = node.topic(), node.admin
    assert admin.create_partitions({topic: 3}, validate_only=True).results[0].error_code == 0
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 1
    result = admin.create_partitions({topic: NewPartitions(3, [[1], [1]])})
    assert [(row.name, row.error_code) for row in result.results] == [(topic, 0)]
    admin.wait_for_topics([topic])
    wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3, 20)
    with pytest.raises(InvalidPartitionsError, match=topic):
        admin.create_partitions({topic: 2})
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        admin.create_partitions({"no-such-topic": 2})


def test_records_are_deleted(node: Node) -> None:
    topic, admin = node.topic(2), node.admin
    node.fill(topic, 10)
    where = TopicPartition(topic, 0)
    result = admin.delete_records({where: 4})
    assert result == {where: {"partition_index": 0, "low_watermark": 4, "error_code": 0}}
    first = admin.list_partition_offsets({where: OffsetSpec.EARLIEST})[where]
    assert first.offset == 4
    assert admin.delete_records({where: -1})[where]["low_watermark"] == 10
    with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0"):
        admin.delete_records({where: 11})
    with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-9"):
        admin.delete_records({TopicPartition(topic, 9): 1})


def test_offsets_are_looked_up_by_name_and_by_time(node: Node) -> None:
    topic, admin = node.topic(), node.admin
    producer = node.producer()
    for timestamp in (3000, 1000, 2000):
        producer.send(topic, b"v", timestamp_ms=timestamp).get(20)
    where = TopicPartition(topic, 0)

    def offset(spec: int) -> int:
        return admin.list_partition_offsets({where: spec})[where].offset

    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (0, 3)
    assert (offset(OffsetSpec.MAX_TIMESTAMP), offset(OffsetSpec.EARLIEST_LOCAL)) == (0, 0)
    assert offset(OffsetSpec.LATEST_TIERED) == -1
    assert (offset(1500), offset(3001)) == (0, -1)
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic-0"):
        admin.list_partition_offsets({TopicPartition("no-such-topic", 0): OffsetSpec.LATEST})


def test_topics_are_described_page_by_page(node: Node) -> None:
    topic, admin = node.topic(3), node.admin
    first = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert [each["partition_index"] for each in first["topics"][0]["partitions"]] == [0, 1]
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    rest = admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [2]
    assert rest["next_cursor"] is None
    (row,) = admin.describe_topic_partitions(["no-such-topic"])["topics"]
    assert (row["name"], row["error_code"]) == (
        "no-such-topic",
        UnknownTopicOrPartitionError.errno,
    )
