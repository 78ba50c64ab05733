"""Rights on topics in requests about groups. The embedded broker responds like Kafka 4.3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient
from thalweg.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

TOPIC_AUTHORIZATION_FAILED = 29
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_MEMBER_ID = 25
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", "4.3"])
def servers(request: pytest.FixtureRequest, node_of: Callable[[str], RealKafka]) -> Iterator[str]:
    if request.param != "embedded":
        yield node_of(request.param).bootstrap("SASL_PLAINTEXT")
        return
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        users=USERS,
        authorizer=True,
        super_users=["admin"],
        configs={"allow.everyone.if.no.acl.found": "true"},
    ) as broker:
        yield broker.bootstrap_servers


def client_of(servers: str, user: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=USERS[user],
    )


@pytest.fixture
def admin(servers: str) -> Iterator[KafkaAdminClient]:
    with client_of(servers, "admin") as client:
        yield client


@pytest.fixture
def alice(servers: str) -> Iterator[KafkaAdminClient]:
    with client_of(servers, "alice") as client:
        yield client


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    """A topic of one partition, whose name begins with a prefix that alice may not use."""
    name = f"hidden-{next(_numbers)}"
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    admin.wait_for_topics([name])
    return name


def rule(
    admin: KafkaAdminClient,
    operation: ACLOperation,
    kind: ResourceType,
    name: str,
    permission: ACLPermissionType = ACLPermissionType.DENY,
) -> None:
    made = ACL("User:alice", "*", operation, permission, ResourcePattern(kind, name))
    assert admin.create_acls([made])["succeeded"] == [made]


def commit(client: KafkaAdminClient, topic: str, partition: int, epoch: int) -> int:
    body = {
        "GroupId": "rights-of-commits",
        "GenerationIdOrMemberEpoch": epoch,
        "MemberId": "" if epoch < 0 else "nobody",
        "Topics": [
            {
                "Name": topic,
                "Partitions": [
                    {
                        "PartitionIndex": partition,
                        "CommittedOffset": 0,
                        "CommittedLeaderEpoch": -1,
                        "CommittedMetadata": None,
                    }
                ],
            }
        ],
    }
    where: Any = ("coordinator", "group", "rights-of-commits")
    response: Any = client._client.request("OffsetCommit", body, where, 9, 30_000, None)
    code: int = response["Topics"][0]["Partitions"][0]["ErrorCode"]
    return code


def test_a_commit_does_not_tell_which_topics_exist(
    admin: KafkaAdminClient, alice: KafkaAdminClient, topic: str
) -> None:
    missing = f"hidden-missing-{next(_numbers)}"
    wait_until(lambda: commit(alice, topic, 0, -1) == 0, 90)
    assert commit(alice, topic, 9, -1) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(alice, missing, 0, -1) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(alice, missing, 0, 7) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(alice, topic, 0, 7) == UNKNOWN_MEMBER_ID
    for name in (topic, missing):
        rule(admin, ACLOperation.READ, ResourceType.TOPIC, name)
    for name, partition, epoch in itertools.product((topic, missing), (0, 9), (-1, 7)):

        def is_denied(place: tuple[str, int, int] = (name, partition, epoch)) -> bool:
            return commit(alice, *place) == TOPIC_AUTHORIZATION_FAILED

        wait_until(is_denied, 20)


def heartbeat(client: KafkaAdminClient, group: str, topic: str) -> int:
    body = {
        "GroupId": group,
        "MemberId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "MemberEpoch": 0,
        "RebalanceTimeoutMs": 5000,
        "SubscribedTopicNames": [topic],
        "TopicPartitions": [],
    }
    where: Any = ("coordinator", "group", group)
    response: Any = client._client.request("ConsumerGroupHeartbeat", body, where, 1, 30_000, None)
    code: int = response["ErrorCode"]
    return code


def describe(client: KafkaAdminClient, group: str) -> dict[str, Any]:
    where: Any = ("coordinator", "group", group)
    body = {"GroupIds": [group], "IncludeAuthorizedOperations": True}
    response: Any = client._client.request("ConsumerGroupDescribe", body, where, 1, 30_000, None)
    row: dict[str, Any] = response["Groups"][0]
    return row


def test_members_and_descriptions_need_the_right_to_describe_topics(
    admin: KafkaAdminClient, alice: KafkaAdminClient, topic: str
) -> None:
    group = f"rights-{next(_numbers)}"
    wait_until(lambda: heartbeat(alice, group, topic) == 0, 90)

    def assigned() -> bool:
        heartbeat(alice, group, topic)
        members = describe(alice, group)["Members"]
        return bool(members and members[0]["TargetAssignment"]["TopicPartitions"])

    wait_until(assigned, 30)
    everything = describe(alice, group)["AuthorizedOperations"]
    assert everything == describe(admin, group)["AuthorizedOperations"]

    # A group with any ACL allows nothing else by default.
    rule(admin, ACLOperation.ALL, ResourceType.GROUP, group, ACLPermissionType.ALLOW)
    rule(admin, ACLOperation.DELETE, ResourceType.GROUP, group)
    less = everything & ~(1 << ACLOperation.DELETE)
    wait_until(lambda: describe(alice, group)["AuthorizedOperations"] == less, 20)

    rule(admin, ACLOperation.DESCRIBE, ResourceType.TOPIC, topic)
    wait_until(lambda: heartbeat(alice, group, topic) == TOPIC_AUTHORIZATION_FAILED, 20)
    wait_until(lambda: describe(alice, group)["ErrorCode"] == TOPIC_AUTHORIZATION_FAILED, 20)
    hidden = describe(alice, group)
    assert "not authorized to describe" in hidden["ErrorMessage"]
    assert hidden["Members"] == []
    assert describe(admin, group)["ErrorCode"] == 0
