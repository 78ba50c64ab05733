"""Elections and reassignments on three nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaProducer, TopicPartition
from thalweg.admin import ConfigResource, NewTopic
from thalweg.errors import (
    ElectionNotNeededError,
    IllegalArgumentError,
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)


@pytest.fixture
def admin(cluster: RealKafka) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as made:
        yield made


def _create(admin: KafkaAdminClient, name: str, replicas: list[int], **configs: str) -> None:
    admin.create_topics(
        [NewTopic(name, replica_assignments={0: replicas}, topic_configs=configs)],
        wait_for_metadata=True,
    )


def _partition(admin: KafkaAdminClient, topic: str) -> dict[str, Any]:
    (found,) = admin.describe_topics([topic])
    row: dict[str, Any] = found["partitions"][0]
    return row


def _leader(admin: KafkaAdminClient, topic: str) -> int:
    leader: int = _partition(admin, topic)["leader_id"]
    return leader


def _configs(admin: KafkaAdminClient, kind: str, name: str) -> dict[str, str]:
    """Returns the configs that a broker knows of a resource."""
    found = admin.describe_configs([ConfigResource(kind, name)])[kind][name]
    return {option: row["value"] for option, row in found.items()}


def test_the_preferred_replica_is_elected(cluster: RealKafka, admin: KafkaAdminClient) -> None:
    _create(admin, "preferred", [1, 2, 3])
    cluster.stop_node(1)
    wait_until(lambda: _leader(admin, "preferred") in (2, 3), 60)
    cluster.start_node(1)
    wait_until(lambda: 1 in _partition(admin, "preferred")["isr_nodes"], 60)
    assert _leader(admin, "preferred") != 1

    result = admin.elect_leaders(0, {"preferred": [0]})
    (topic,) = result.replica_election_results
    assert topic.topic == "preferred"
    assert [(row.partition_id, row.error_code) for row in topic.partition_result] == [(0, 0)]
    wait_until(lambda: _leader(admin, "preferred") == 1, 20)
    # kafka-python 2's name, and a leader that is already the preferred one.
    again = admin.perform_leader_election(0, ["preferred"])
    ((row,),) = [each.partition_result for each in again.replica_election_results]
    assert row.error_code == ElectionNotNeededError.errno


def test_any_replica_is_elected_if_asked_for(cluster: RealKafka, admin: KafkaAdminClient) -> None:
    _create(admin, "unclean", [1, 2], **{"min.insync.replicas": "1"})
    cluster.stop_node(2)
    wait_until(lambda: _partition(admin, "unclean")["isr_nodes"] == [1], 60)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("unclean", b"lost").get(30)
    cluster.stop_node(1)
    cluster.start_node(2, wait=False)
    wait_until(lambda: cluster.node(2).running and _alive(admin) == {2, 3}, 60)
    # One of the brokers may learn it later than the one that was asked.
    wait_until(lambda: _leader(admin, "unclean") == -1, 30)

    result = admin.elect_leaders(1, {"unclean": [0]})
    ((row,),) = [each.partition_result for each in result.replica_election_results]
    assert row.error_code == 0
    wait_until(lambda: _leader(admin, "unclean") == 2, 20)
    cluster.start_node(1)


def _alive(admin: KafkaAdminClient) -> set[int]:
    return {row["broker_id"] for row in admin.describe_cluster()["brokers"] if not row["is_fenced"]}


def test_elections_of_unknown_partitions_are_errors(admin: KafkaAdminClient) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic-0"):
        admin.elect_leaders(0, {"no-such-topic": [0]})
    with pytest.raises(
        IllegalArgumentError, match=r"0 \(the preferred replica\) .* not 'PREFERRED'"
    ):
        admin.elect_leaders("PREFERRED", {"no-such-topic": [0]})  # type: ignore[arg-type]


def test_replicas_move(cluster: RealKafka, admin: KafkaAdminClient) -> None:
    where = TopicPartition("moving", 0)
    _create(admin, "moving", [1])
    # Slow enough to be seen while it moves.
    throttles = {
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": "*",
    }
    rate = {"leader.replication.throttled.rate": "1", "follower.replication.throttled.rate": "1"}
    brokers = [ConfigResource("broker", node.node_id, dict(rate)) for node in cluster.nodes]
    admin.alter_configs([ConfigResource("topic", "moving", throttles), *brokers])

    def are_known() -> bool:
        found = [_configs(admin, "broker", str(node.node_id)) for node in cluster.nodes]
        return throttles.items() <= _configs(admin, "topic", "moving").items() and all(
            rate.items() <= each.items() for each in found
        )

    # A broker learns a change from its controller a moment later.
    wait_until(are_known, 30)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many("moving", [bytes(1000)] * 100).get(30)

    assert admin.alter_partition_reassignments({where: [2, 3]}) == {where: None}
    expected = {"replicas": [2, 3, 1], "adding_replicas": [2, 3], "removing_replicas": [1]}
    assert admin.list_partition_reassignments() == {where: expected}
    assert admin.list_partition_reassignments([where]) == {where: expected}
    assert admin.list_partition_reassignments({"preferred": [0]}) == {}

    assert admin.alter_partition_reassignments({where: None}) == {where: None}
    wait_until(lambda: admin.list_partition_reassignments() == {}, 20)
    wait_until(lambda: _partition(admin, "moving")["replica_nodes"] == [1], 20)

    admin.reset_configs(
        [ConfigResource(each.resource_type, each.name, list(rate)) for each in brokers]
    )
    assert admin.alter_partition_reassignments({where: [2, 3]}) == {where: None}
    wait_until(lambda: admin.list_partition_reassignments() == {}, 60)
    wait_until(lambda: _partition(admin, "moving")["replica_nodes"] == [2, 3], 20)
    wait_until(lambda: _leader(admin, "moving") in (2, 3), 20)


def test_moves_that_cannot_be_are_errors(admin: KafkaAdminClient) -> None:
    _create(admin, "staying", [1])
    staying, nowhere = TopicPartition("staying", 0), TopicPartition("no-such-topic", 0)
    result = admin.alter_partition_reassignments({staying: None, nowhere: [1]})
    assert result == {staying: NoReassignmentInProgressError, nowhere: UnknownTopicOrPartitionError}
    result = admin.alter_partition_reassignments({staying: [1, 99]})
    assert result == {staying: InvalidReplicationAssignmentError}
