"""Groups, their members and their committed offsets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Node
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, OffsetSpec, TopicPartition
from thalweg.admin import MemberToRemove, OffsetTimestamp
from thalweg.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import OffsetAndMetadata


def _member(node: Node, group: str, topic: str, **options: Any) -> KafkaConsumer[Any, Any]:
    """Makes a member with all partitions of a topic."""
    consumer = node.consumer(group_id=group, enable_auto_commit=False, **options)
    consumer.subscribe([topic])

    def assigned() -> bool:
        consumer.poll(100)
        return bool(consumer.assignment())

    wait_until(assigned, 90, every=0)
    return consumer


def test_a_group_is_listed_and_described_while_it_lives_and_after(node: Node) -> None:
    admin, topic, group = node.admin, node.topic(2), node.name("group")
    consumer = _member(node, group, topic, client_id="reader")

    def row() -> dict[str, Any]:
        (found,) = [each for each in admin.list_groups() if each["group_id"] == group]
        return found

    assert (row()["group_state"], row()["protocol_type"]) == ("Stable", "consumer")
    assert row()["group_type"].lower() == "classic"
    assert row() in admin.list_groups([1], ["stable"], ["classic"])
    assert row() not in admin.list_groups(states_filter=["Empty"])
    assert (group, "consumer") in admin.list_consumer_groups()

    found = admin.describe_groups([group], include_authorized_operations=True)[group]
    assert (found["group_state"], found["error"]) == ("Stable", None)
    assert "READ" in found["authorized_operations"]
    (member,) = found["members"]
    assert member["client_id"] == "reader"
    assert member["member_metadata"]["topics"] == [topic]
    assert member["member_assignment"]["assigned_partitions"] == [
        {"topic": topic, "partitions": [0, 1]}
    ]
    (older,) = admin.describe_consumer_groups([group])
    assignment: Any = older.members[0].member_assignment
    assert assignment.assigned_partitions == [
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
    ]
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    assert admin.delete_consumer_groups([group]) == [(group, NonEmptyGroupError)]

    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0)})
    consumer.close()
    wait_until(lambda: row()["group_state"] == "Empty", 30)
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in [each["group_id"] for each in admin.list_groups()]
    assert admin.delete_consumer_groups([group]) == [(group, GroupIdNotFoundError)]


def test_groups_that_are_not_there_are_errors_with_their_names(node: Node) -> None:
    admin, group = node.admin, node.name("nobody")
    assert "GroupIdNotFoundError" in str(admin.describe_groups([group])[group]) or (
        admin.describe_groups([group])[group]["group_state"] == "Dead"
    )
    with pytest.raises(GroupIdNotFoundError, match=group):
        admin.delete_group_offsets(group, [TopicPartition("t", 0)])
    assert admin.list_group_offsets(group) == {group: {}}
    # Kafka 3.9 reports it as dead.
    if node.modern:
        with pytest.raises(GroupIdNotFoundError, match=group):
            admin.describe_consumer_groups([group])


def test_a_group_of_the_newer_protocol_is_listed_as_such(modern_node: Node) -> None:
    node, topic, group = modern_node, modern_node.topic(), modern_node.name("group")
    consumer = _member(node, group, topic, group_protocol="consumer")
    listed = node.admin.list_groups(types_filter=["consumer"])
    (row,) = (each for each in listed if each["group_id"] == group)
    assert {each["group_type"].lower() for each in listed} == {"consumer"}
    assert row["group_type"].lower() == "consumer"
    assert "GroupIdNotFoundError" in node.admin.describe_groups([group])[group]["error"]
    consumer.close()


def test_members_are_removed_by_id_and_by_static_id(node: Node) -> None:
    admin, topic = node.admin, node.topic()
    first, second = node.name("group"), node.name("group")
    dynamic = _member(node, first, topic)
    _member(node, second, topic, group_instance_id="static")
    member_id = dynamic.group_metadata().member_id
    result = admin.remove_group_members(first, [MemberToRemove(member_id, reason="a test")])
    assert result == {member_id: NoError}
    assert admin.describe_groups([first])[first]["members"] == []
    result = admin.remove_group_members(second, [MemberToRemove(group_instance_id="static")])
    assert list(result.values()) == [NoError]
    assert admin.describe_groups([second])[second]["members"] == []
    result = admin.remove_group_members(first, [MemberToRemove("nobody")])
    assert result == {"nobody": UnknownMemberIdError}


def test_offsets_are_set_listed_looked_up_and_deleted(node: Node) -> None:
    admin, topic, group = node.admin, node.topic(2), node.name("group")
    node.fill(topic, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    given = {zero: OffsetAndMetadata(4, "note"), one: OffsetAndMetadata(0)}
    assert admin.alter_group_offsets(group, given) == {zero: NoError, one: NoError}
    found = admin.list_group_offsets(group)[group]
    assert {where: (at.offset, at.metadata) for where, at in found.items()} == {
        zero: (4, "note"),
        one: (0, ""),
    }
    assert list(admin.list_group_offsets({group: [one]})[group]) == [one]
    older = admin.list_consumer_group_offsets(group, partitions=[zero, TopicPartition(topic, 9)])
    assert [at.offset for _, at in sorted(older.items())] == [4, -1]

    specs = {zero: OffsetSpec.LATEST, one: 99}
    assert admin.reset_group_offsets(group, specs) == {
        zero: {"error": NoError, "offset": 10},
        one: {"error": NoError, "offset": 0},
    }
    assert admin.list_group_offsets(group)[group][zero] == OffsetAndMetadata(10, "note")
    assert admin.reset_group_offsets(group, {zero: OffsetTimestamp(0)})[zero]["offset"] == 0

    assert admin.delete_group_offsets(group, [zero]) == {zero: NoError}
    assert list(admin.list_group_offsets(group)[group]) == [one]


def test_offsets_are_not_changed_under_a_groups_members(node: Node) -> None:
    admin, topic, group = node.admin, node.topic(), node.name("group")
    where = TopicPartition(topic, 0)
    consumer = _member(node, group, topic)
    consumer.commit({where: OffsetAndMetadata(0)})
    assert admin.delete_group_offsets(group, [where]) == {where: GroupSubscribedToTopicError}
    assert admin.alter_group_offsets(group, {where: OffsetAndMetadata(5)}) == {
        where: UnknownMemberIdError
    }
    assert admin.list_group_offsets(group)[group][where].offset == 0


def test_offsets_of_topics_that_are_not_there_are_errors(node: Node) -> None:
    nowhere = TopicPartition("no-such-topic", 0)
    result = node.admin.alter_group_offsets(node.name("group"), {nowhere: OffsetAndMetadata(1)})
    assert result == {nowhere: UnknownTopicOrPartitionError}
