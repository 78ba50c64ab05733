"""ACLs, and the errors of every kind of call for a user without rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.admin.conftest import EVERY_ACL, Node
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, OffsetSpec, TopicPartition
from thalweg.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    MemberToRemove,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from thalweg.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    NoError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from thalweg.structs import OffsetAndMetadata


def _allow(topic: str, pattern: ACLResourcePatternType, operation: ACLOperation) -> ACL:
    resource = ResourcePattern(ResourceType.TOPIC, topic, pattern)
    return ACL("User:bob", "*", operation, ACLPermissionType.ALLOW, resource)


def test_acls_are_created_described_and_deleted(node: Node) -> None:
    name = node.name("acl")
    literal = _allow(name, ACLResourcePatternType.LITERAL, ACLOperation.READ)
    prefixed = _allow(name[:4], ACLResourcePatternType.PREFIXED, ACLOperation.WRITE)
    assert node.admin.create_acls([literal, prefixed]) == {
        "succeeded": [literal, prefixed],
        "failed": [],
    }
    wait_until(lambda: {literal, prefixed} <= set(node.acls()), 20)
    # MATCH finds all ACLs that apply to a name.
    match = ResourcePatternFilter(ResourceType.TOPIC, name, ACLResourcePatternType.MATCH)
    applying = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, match)
    assert set(node.acls(applying)) == {literal, prefixed}

    assert node.admin.delete_acls([literal]) == [(literal, [literal], NoError)]
    wait_until(lambda: node.acls(applying) == [prefixed], 20)
    ((_, removed, _),) = node.admin.delete_acls([applying])
    assert removed == [prefixed]
    wait_until(lambda: node.acls(applying) == [], 20)


def test_an_acl_takes_effect_and_ends(node: Node, alice: KafkaAdminClient) -> None:
    topic = node.topic()
    assert topic in alice.list_topics()
    with node.denied(ResourceType.TOPIC, topic):
        assert topic not in alice.list_topics()
        assert topic in node.admin.list_topics()
    assert topic in alice.list_topics()


def test_what_the_caller_may_do_is_told(node: Node, alice: KafkaAdminClient) -> None:
    topic = node.topic()
    allowed = ACL(
        "User:alice",
        "*",
        ACLOperation.READ,
        ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType.TOPIC, topic),
    )
    node.admin.create_acls([allowed])
    wait_until(lambda: allowed in node.acls(), 20)
    (found,) = alice.describe_topics([topic])
    assert set(found["authorized_operations"]) == {"READ", "DESCRIBE"}
    (found,) = node.admin.describe_topics([topic])
    assert {"READ", "WRITE", "ALTER_CONFIGS"} <= set(found["authorized_operations"])
    node.admin.delete_acls([allowed])


def _of_topic(topic: str) -> dict[str, Callable[[KafkaAdminClient], Any]]:
    where = TopicPartition(topic, 0)
    return {
        "create_topics": lambda admin: admin.create_topics([NewTopic(topic, 1, 1)]),
        "delete_topics": lambda admin: admin.delete_topics([topic]),
        "create_partitions": lambda admin: admin.create_partitions({topic: 3}),
        "describe_configs": lambda admin: admin.describe_configs([ConfigResource("topic", topic)]),
        "alter_configs": lambda admin: admin.alter_configs(
            [ConfigResource("topic", topic, {"retention.ms": "1"})]
        ),
        "list_partition_offsets": lambda admin: admin.list_partition_offsets(
            {where: OffsetSpec.LATEST}
        ),
        "delete_records": lambda admin: admin.delete_records({where: -1}),
        "describe_producers": lambda admin: admin.describe_producers([where]),
    }


@pytest.mark.parametrize("call", sorted(_of_topic("t")))
def test_a_topic_without_rights_is_an_error_with_its_name(
    node: Node, alice: KafkaAdminClient, call: str
) -> None:
    topic = node.topic()
    with (
        node.denied(ResourceType.TOPIC, topic),
        node.denied(ResourceType.CLUSTER, "kafka-cluster"),
        pytest.raises(TopicAuthorizationFailedError, match=topic),
    ):
        _of_topic(topic)[call](alice)
    (found,) = node.admin.describe_topics([topic])
    assert len(found["partitions"]) == 1  # the topic is unchanged


_OF_GROUP: dict[str, Callable[[KafkaAdminClient, str], Any]] = {
    "list_group_offsets": lambda admin, group: admin.list_group_offsets(group),
    "describe_consumer_groups": lambda admin, group: admin.describe_consumer_groups([group]),
    "delete_group_offsets": lambda admin, group: admin.delete_group_offsets(
        group, [TopicPartition("t", 0)]
    ),
    "remove_group_members": lambda admin, group: admin.remove_group_members(
        group, [MemberToRemove("m")]
    ),
    "alter_group_offsets": lambda admin, group: admin.alter_group_offsets(
        group, {TopicPartition("t", 0): OffsetAndMetadata(1)}
    ),
}


@pytest.mark.parametrize("call", sorted(_OF_GROUP))
def test_a_group_without_rights_is_an_error_with_its_name(
    node: Node, alice: KafkaAdminClient, call: str
) -> None:
    group = node.name("group")
    with (
        node.denied(ResourceType.GROUP, group),
        pytest.raises(GroupAuthorizationFailedError, match=group),
    ):
        _OF_GROUP[call](alice, group)


def test_a_group_that_may_not_be_deleted_is_an_error_in_its_row(
    node: Node, alice: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    group = node.name("group")
    with node.denied(ResourceType.GROUP, group):
        assert alice.delete_groups([group]) == {group: "GroupAuthorizationFailedError"}
    assert group in caplog.text


def test_a_transactional_id_without_rights_is_an_error_with_its_name(
    node: Node, alice: KafkaAdminClient
) -> None:
    name = node.name("tx")
    with (
        node.denied(ResourceType.TRANSACTIONAL_ID, name),
        pytest.raises(TransactionalIdAuthorizationFailedError, match=name),
    ):
        alice.describe_transactions([name])


_OF_CLUSTER: dict[str, Callable[[KafkaAdminClient], Any]] = {
    "describe_acls": lambda admin: admin.describe_acls(EVERY_ACL),
    "elect_leaders": lambda admin: admin.elect_leaders(0, {"t": [0]}),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments(
        {TopicPartition("t", 0): [1]}
    ),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "describe_user_scram_credentials": lambda admin: admin.describe_user_scram_credentials(),
    "describe_metadata_quorum": lambda admin: admin.describe_metadata_quorum(),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "update_features": lambda admin: admin.update_features({"metadata.version": 20}),
    "list_config_resources": lambda admin: admin.list_config_resources(["client-metrics"]),
}


@pytest.mark.parametrize("call", sorted(_OF_CLUSTER))
def test_a_cluster_without_rights_is_an_error_that_names_the_request(
    node: Node, alice: KafkaAdminClient, call: str
) -> None:
    with (
        node.denied(ResourceType.CLUSTER, "kafka-cluster"),
        pytest.raises(ClusterAuthorizationFailedError, match=r"\w+: \w+"),
    ):
        _OF_CLUSTER[call](alice)


def test_acls_that_are_refused_are_told_one_by_one(node: Node, alice: KafkaAdminClient) -> None:
    acl = _allow(node.name("refused"), ACLResourcePatternType.LITERAL, ACLOperation.READ)
    with node.denied(ResourceType.CLUSTER, "kafka-cluster"):
        assert alice.create_acls([acl])["failed"] == [ClusterAuthorizationFailedError]
        ((_, removed, error),) = alice.delete_acls([acl])
    assert (removed, error) == ([], ClusterAuthorizationFailedError)
    assert acl not in node.acls()


def test_brokers_without_authorizer_say_so(cluster: RealKafka) -> None:
    with (
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        pytest.raises(SecurityDisabledError, match="DescribeAcls"),
    ):
        admin.describe_acls(EVERY_ACL)
