"""The rights that callers read in responses: the embedded broker returns the same as Kafka."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kafka.cluster import RealKafka
from tests.support.scram import scram_options, wait_for_login
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, TopicPartition
from thalweg.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)
from thalweg.errors import AuthorizationError

PRINCIPALS = [f"user-{number}" for number in range(20)]
TOPICS = ["orders", "orders-new", "payments"]
GROUPS = ["orders-readers", "payments-readers"]
OPERATIONS = {
    ResourceType.TOPIC: (
        "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL"
    ),
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.CLUSTER: (
        "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL"
    ),
}
PATTERNS = {
    ResourceType.TOPIC: [("orders", False), ("orders", True), ("payments", False), ("*", False)],
    ResourceType.GROUP: [("orders-readers", False), ("payments", True), ("*", False)],
    ResourceType.CLUSTER: [("kafka-cluster", False)],
}
EVERYTHING = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


def rules(seed: int) -> list[ACL]:
    """Returns some rules for each principal, of which a fourth deny, and a few for everybody."""
    chance = random.Random(seed)
    found = []
    for number in range(5 * len(PRINCIPALS)):
        kind = chance.choice(list(OPERATIONS))
        name, is_prefix = chance.choice(PATTERNS[kind])
        literal, prefixed = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
        whom = "*" if number % 25 == 0 else chance.choice(PRINCIPALS)
        found.append(
            ACL(
                f"User:{whom}",
                "*",
                ACLOperation[chance.choice(OPERATIONS[kind].split())],
                chance.choice([ACLPermissionType.ALLOW] * 3 + [ACLPermissionType.DENY]),
                ResourcePattern(kind, name, prefixed if is_prefix else literal),
            )
        )
    return found


def rights_of(admin: KafkaAdminClient) -> dict[str, Any]:
    """Returns the operations that a caller may do with the cluster, each topic and each group."""
    cluster = admin.describe_cluster()["cluster_authorized_operations"]
    found: dict[str, Any] = {"cluster": sorted(cluster or [])}
    for row in admin.describe_topics(TOPICS):
        found[row["name"]] = (row["error_code"], sorted(row["authorized_operations"] or []))
    for group in GROUPS:
        try:
            rows = admin.describe_groups([group], include_authorized_operations=True)
        except AuthorizationError as error:
            found[group] = type(error).__name__
        else:
            found[group] = sorted(rows[group]["authorized_operations"] or [])
    return found


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    configs = {"allow.everyone.if.no.acl.found": "false"}
    with RealKafka("4.3", secure=True, authorizer=True, configs=configs, heap="512m") as started:
        for topic in TOPICS:
            started.create_topic(topic)
        for group in GROUPS:  # its coordinator is there only after the first request for it
            with KafkaConsumer(
                bootstrap_servers=started.bootstrap_servers, group_id=group
            ) as member:
                assert member.committed(TopicPartition(TOPICS[0], 0)) is None
        yield started


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    users = {"admin": "secret", **dict.fromkeys(PRINCIPALS, "secret")}
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", users=users, authorizer=True, super_users=["admin"]
    ) as started:
        for topic in TOPICS:
            started.create_topic(topic)
        yield started


def test_scenario_107_twenty_principals_get_the_same_responses_as_from_kafka(
    kafka: RealKafka, embedded: EmbeddedBroker
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    wanted = rules(seed)
    with (
        KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as root,
        KafkaAdminClient(**embedded.client_config("admin")) as embedded_root,
    ):
        root.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(user, "SCRAM-SHA-512", "secret", iterations=4096)
                for user in PRINCIPALS
            ]
        )
        for each in (root, embedded_root):
            assert each.create_acls(wanted)["failed"] == []
        both = (root, embedded_root)
        wait_until(
            lambda: all(set(each.describe_acls(EVERYTHING)[0]) == set(wanted) for each in both),
            60,
            what="the rules",
        )
        for user in PRINCIPALS:
            options = scram_options(kafka, user, "secret")
            wait_for_login(options)
            with (
                KafkaAdminClient(**options) as theirs,
                KafkaAdminClient(**embedded.client_config(user)) as ours,
            ):
                assert rights_of(ours) == rights_of(theirs), (seed, user)
