"""The cluster: brokers, versions, features, the quorum, log directories."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Node
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient
from thalweg.errors import LogDirNotFoundError, NoError, UnknownTopicOrPartitionError
from thalweg.structs import TopicPartitionReplica


def test_the_cluster_is_described(node: Node) -> None:
    found = node.admin.describe_cluster()
    assert found["cluster_id"] == node.kafka.cluster_id
    (broker,) = found["brokers"]
    assert (broker["broker_id"], broker["host"]) == (1, "127.0.0.1")
    assert broker["port"] == node.kafka.node(1).ports["PLAINTEXT"]
    assert "ALTER" in found["cluster_authorized_operations"]


def test_versions_are_those_of_the_broker(node: Node) -> None:
    found = node.admin.api_versions()
    assert found == node.admin.get_broker_version_data(1)
    assert ("StreamsGroupDescribe" in found or "ShareGroupHeartbeat" in found) == node.modern
    least, greatest = found["Metadata"]
    assert 0 <= least <= greatest


def test_features_are_described_and_updated(modern_node: Node) -> None:
    admin = modern_node.admin

    def level() -> int:
        found: int = admin.describe_features()["transaction.version"]["finalized"][1]
        return found

    described = admin.describe_features(send_request_to_controller=True)
    least, greatest = described["transaction.version"]["supported"]
    assert least <= level() <= greatest
    before = level()
    down = {"transaction.version": ("SAFE_DOWNGRADE", before - 1)}
    assert admin.update_features(down, validate_only=True) == {"transaction.version": "OK"}
    assert level() == before
    assert admin.update_features(down) == {"transaction.version": "OK"}
    wait_until(lambda: level() == before - 1, 20)
    assert admin.update_features({"transaction.version": before}) == {"transaction.version": "OK"}
    wait_until(lambda: level() == before, 20)


def test_a_level_that_nobody_has_is_refused(node: Node) -> None:
    before = node.admin.describe_features()["metadata.version"]["finalized"]
    try:
        told = str(node.admin.update_features({"metadata.version": 9999}))
    except Exception as error:
        told = str(error)
    assert "metadata.version" in told
    assert "9999" in told
    assert node.admin.describe_features()["metadata.version"]["finalized"] == before


def test_the_quorum_is_described(node: Node) -> None:
    found = node.admin.describe_metadata_quorum()
    (topic,) = found["topics"]
    (partition,) = topic["partitions"]
    assert topic["topic_name"] == "__cluster_metadata"
    assert (partition["leader_id"], partition["error"]) == (1, None)
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [1]
    assert partition["high_watermark"] > 0


def _folders(admin: KafkaAdminClient, topic: str) -> list[tuple[str, int]]:
    """Returns where partition 0 of a topic is, and its size: two places while it moves."""
    (broker,) = admin.describe_log_dirs({topic: [0]})
    assert broker["broker"] == 1
    return [
        (row["log_dir"], partition["partition_size"])
        for row in broker["log_dirs"]
        for each in row["topics"]
        for partition in each["partitions"]
        if each["name"] == topic
    ]


def test_replicas_move_to_another_folder(node: Node) -> None:
    topic = node.topic()
    node.fill(topic, 100)
    (broker,) = node.admin.describe_log_dirs()
    assert all(row["error_code"] == 0 for row in broker["log_dirs"])
    ((before, size),) = _folders(node.admin, topic)
    assert size > 0
    (other,) = {row["log_dir"] for row in broker["log_dirs"]} - {before}

    moved = TopicPartitionReplica(topic, 0, 1)
    assert node.admin.alter_replica_log_dirs({moved: other}) == {moved: NoError}
    wait_until(lambda: _folders(node.admin, topic) == [(other, size)], 30)


def test_folders_and_replicas_that_are_not_there_are_errors(node: Node) -> None:
    topic = node.topic()
    no_folder, no_replica = TopicPartitionReplica(topic, 0, 1), TopicPartitionReplica(topic, 7, 1)
    (broker,) = node.admin.describe_log_dirs(brokers=[1])
    there = broker["log_dirs"][0]["log_dir"]
    result = node.admin.alter_replica_log_dirs({no_folder: "/no/such/folder", no_replica: there})
    assert result == {no_folder: LogDirNotFoundError, no_replica: UnknownTopicOrPartitionError}


@pytest.mark.parametrize("topics", [["no-such-topic"], {"no-such-topic": [0]}])
def test_log_dirs_of_an_unknown_topic_are_empty(node: Node, topics: object) -> None:
    (broker,) = node.admin.describe_log_dirs(topics)
    assert all(row["topics"] == [] for row in broker["log_dirs"])


def test_clients_are_made_from_a_config_and_closed(node: Node) -> None:
    servers = node.kafka.bootstrap_servers
    with KafkaAdminClient.from_config({"bootstrap.servers": servers}) as admin:
        assert admin.bootstrap_connected()
        assert [admin.closed] == [False]  # in a list: mypy takes a property for constant
        assert admin.describe_cluster()["cluster_id"] == node.kafka.cluster_id
    assert admin.closed
    admin.close()
