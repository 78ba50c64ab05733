"""Conversions between objects for the assignors and bytes for the group."""

from __future__ import annotations

from typing import Any

import pytest

from thalweg.coordinator.assignors import AbstractPartitionAssignor, RebalanceProtocol
from thalweg.coordinator.assignors.calls import assigning, joined, joining
from thalweg.coordinator.assignors.registry import by_name
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import IllegalStateError, KafkaProtocolError
from thalweg.structs import TopicPartition

ZERO, ONE = TopicPartition("a", 0), TopicPartition("a", 1)
EAGER, COOPERATIVE = RebalanceProtocol


class Theirs(AbstractPartitionAssignor):
    """An assignor as users of kafka-python write it: its rows, old versions, one owner of all."""

    name = "theirs"

    def assign(self, cluster, members):
        first = min(member.member_id for member in members)
        topics = {topic for member in members for topic in member.metadata.topics}
        rows: Any = [(each, sorted(cluster.partitions_for_topic(each))) for each in sorted(topics)]
        return {first: Assignment(0, rows, b"mine")}

    def metadata(self, topics):
        return Subscription(0, list(topics), b"data")

    def on_assignment(self, assignment, generation):
        pass


def row(member: str, *owned: TopicPartition, instance: str | None = None) -> dict[str, Any]:
    data = Subscription(3, ["a"], None, list(owned), 1).encode()
    return {"MemberId": member, "GroupInstanceId": instance, "Metadata": data}


def test_a_subscription_carries_what_the_assignor_does_not_know():
    data = joining(Theirs(), ["b", "a"], [ONE, ZERO], 7, "rack")
    found = Subscription.decode(data)
    assert found == (3, ["a", "b"], b"data", [ZERO, ONE], 7, "rack")


def test_no_rack_and_an_empty_rack_are_one():
    assert joining(by_name("range"), ["a"], rack="") == joining(by_name("range"), ["a"])


def test_the_leader_encodes_what_was_assigned_and_nothing_for_the_others():
    rows = assigning(Theirs(), TopicsOfGroup({"a": 2}), joined([row("y"), row("x")]), EAGER)
    assert rows == [
        {"MemberId": "y", "Assignment": Assignment(3, []).encode()},
        {"MemberId": "x", "Assignment": Assignment(3, [ZERO, ONE], b"mine").encode()},
    ]


def test_the_leader_knows_static_members():
    members = joined([row("m0", instance="y"), row("m1", instance="x")])
    rows = assigning(by_name("range"), TopicsOfGroup({"a": 1}), members, EAGER)
    assert [each["MemberId"] for each in rows if b"a" in each["Assignment"]] == ["m1"]


def test_an_assignor_that_moves_partitions_at_once_is_not_cooperative():
    members = joined([row("m0"), row("m1", ZERO, ONE)])
    with pytest.raises(IllegalStateError, match="'theirs' moves a-0, a-1 before"):
        assigning(Theirs(), TopicsOfGroup({"a": 2}), members, COOPERATIVE)
    assigning(Theirs(), TopicsOfGroup({"a": 2}), members, EAGER)
    assigning(by_name("cooperative-sticky"), TopicsOfGroup({"a": 2}), members, COOPERATIVE)


def test_a_subscription_that_cannot_be_read_is_an_error():
    with pytest.raises(KafkaProtocolError):
        joined([{"MemberId": "m", "Metadata": b"?"}])


def test_a_cluster_of_kafka_python_will_do():
    class Cluster:
        def partitions_for_topic(self, topic):
            return {0, 1} if topic == "a" else None

    rows = assigning(by_name("sticky"), Cluster(), joined([row("m")]), EAGER)
    assert Assignment.decode(rows[0]["Assignment"]).assigned_partitions == [ZERO, ONE]
