"""ACLs of EmbeddedBroker: what users may do, and how clients report what they may not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import read, within
from tests.support.waiting import wait_until
from thalweg import (
    EmbeddedBroker,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    SubscriptionPattern,
    TopicPartition,
)
from thalweg.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from thalweg.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConfigurationError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)

USERS = {"admin": "secret-1", "alice": "secret-2"}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        users=USERS,
        authorizer=True,
        super_users=["admin"],
        configs={"auto.create.topics.enable": "false"},
    ) as running:
        running.create_topic("orders")
        running.create_topic("payments")
        yield running


def producer(broker: EmbeddedBroker, **options: Any) -> KafkaProducer[Any, Any]:
    return KafkaProducer(**broker.client_config("alice"), max_block_ms=30_000, **options)


def test_a_producer_writes_only_where_it_may(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "WRITE", topic="orders")
    with producer(broker) as running:
        running.send("orders", b"value").get(30)
        with within(20), pytest.raises(TopicAuthorizationFailedError, match="payments"):
            running.send("payments", b"value").get(30)
        running.send("orders", b"value").get(30)
        # A right that is given later needs no new client.
        broker.allow("alice", "WRITE", topic="pay", prefixed=True)

        def is_written() -> bool:
            try:
                running.send("payments", b"value").get(30)
            except TopicAuthorizationFailedError:
                return False
            return True

        wait_until(is_written, what="the right to write")
        broker.deny("*", "WRITE", topic="payments")
        with pytest.raises(TopicAuthorizationFailedError):
            running.send("payments", b"value").get(30)
        running.send("orders", b"value").get(30)


def test_a_consumer_reads_only_where_it_may(broker: EmbeddedBroker) -> None:
    with KafkaProducer(**broker.client_config("admin")) as writer:
        for topic in ("orders", "payments"):
            writer.send(topic, b"value").get(30)
    broker.allow("alice", "READ", topic="orders")
    with KafkaConsumer(**broker.client_config("alice"), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0), TopicPartition("payments", 0)])
        seen: list[Any] = []

        def has_read_and_raised() -> bool:
            try:
                for records in consumer.poll(200).values():
                    seen.extend(records)
            except TopicAuthorizationFailedError as error:
                seen.append(error)
            return {type(each).__name__ for each in seen} == {
                "ConsumerRecord",
                "TopicAuthorizationFailedError",
            }

        wait_until(has_read_and_raised, what="a record and an error")
        errors = [str(each) for each in seen if isinstance(each, KafkaError)]
        assert all("payments" in each for each in errors)
        assert {each.topic for each in seen if not isinstance(each, KafkaError)} == {"orders"}


def test_a_group_needs_a_right(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "READ", topic="orders")
    options = broker.client_config("alice") | {"group_id": "g", "auto_offset_reset": "earliest"}
    with (
        KafkaConsumer("orders", **options) as consumer,
        within(40),
        pytest.raises(GroupAuthorizationFailedError),
    ):
        consumer.poll(30_000)
    broker.allow("alice", "READ", group="g")
    with KafkaProducer(**broker.client_config("admin")) as writer:
        writer.send("orders", b"value").get(30)
    with KafkaConsumer("orders", **options) as consumer:
        assert [each.value for each in read(consumer, 1)] == [b"value"]
        consumer.commit()


def test_a_transaction_needs_a_right(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "WRITE", topic="orders")
    with (
        producer(broker, transactional_id="tx") as running,
        within(20),
        pytest.raises(TransactionalIdAuthorizationFailedError),
    ):
        running.init_transactions()
    broker.allow("alice", "WRITE", transactional_id="tx")
    with producer(broker, transactional_id="tx") as running:
        running.init_transactions()
        with running.transaction():
            running.send("orders", b"value")


def test_an_administrator_needs_rights_on_the_cluster(broker: EmbeddedBroker) -> None:
    with KafkaAdminClient(**broker.client_config("alice")) as admin:
        assert set(admin.list_topics()) == set()
        with pytest.raises(ClusterAuthorizationFailedError):
            admin.describe_acls(everything())
        with pytest.raises(TopicAuthorizationFailedError):
            admin.create_topics({"new": {"num_partitions": 1, "replication_factor": 1}})
        broker.allow("alice", "CREATE", cluster=True)
        admin.create_topics({"new": {"num_partitions": 1, "replication_factor": 1}})
        broker.allow("alice", "DESCRIBE", topic="*")
        assert set(admin.list_topics()) == {"new", "orders", "payments"}


def everything() -> ACLFilter:
    return ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )


def test_acls_are_created_described_and_deleted(broker: EmbeddedBroker) -> None:
    acl = ACL(
        principal="User:alice",
        host="*",
        operation=ACLOperation.WRITE,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType.TOPIC, "orders"),
    )
    with KafkaAdminClient(**broker.client_config("admin")) as admin:
        assert admin.create_acls([acl])["succeeded"] == [acl]
        assert admin.describe_acls(everything())[0] == [acl]
        with producer(broker) as running:
            running.send("orders", b"value").get(30)
        ((_, deleted, _),) = admin.delete_acls([everything()])
        assert [each[0] if isinstance(each, tuple) else each for each in deleted] == [acl]
        assert admin.describe_acls(everything())[0] == []
        with producer(broker) as running, pytest.raises(KafkaError):
            running.send("orders", b"value").get(30)


def test_without_an_authorizer_there_are_no_acls() -> None:
    with EmbeddedBroker() as broker:
        with pytest.raises(KafkaConfigurationError, match="authorizer=True"):
            broker.allow("alice", "READ", topic="orders")
        with (
            KafkaAdminClient(**broker.client_config()) as admin,
            pytest.raises(KafkaError, match=r"No Authorizer is configured"),
        ):
            admin.describe_acls(everything())


def test_the_user_of_a_certificate_has_rights_too() -> None:
    with EmbeddedBroker(
        security_protocol="SSL",
        configs={"ssl.client.auth": "required"},
        authorizer=True,
        super_users=["CN=admin"],
    ) as broker:
        broker.create_topic("orders")
        broker.allow("CN=alice", "WRITE", topic="orders")
        for user in ("admin", "alice"):
            with KafkaProducer(**broker.client_config(user)) as running:
                running.send("orders", b"value").get(30)
        with (
            KafkaProducer(**broker.client_config("bob"), max_block_ms=3000) as running,
            pytest.raises(KafkaError),
        ):
            running.send("orders", b"value").get(30)


def test_a_pattern_of_the_broker_matches_no_topic_that_the_user_may_not_see() -> None:
    """KIP-848: the broker evaluates the pattern, so it must not give away hidden topics."""
    users = {"root": "r", "bob": "b"}
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", users=users, authorizer=True, super_users=["root"]
    ) as broker:
        for name in ("plans-public", "plans-secret"):
            broker.create_topic(name)
        broker.allow("bob", "READ", group="g")
        broker.allow("bob", "READ", topic="plans-public")
        with (
            KafkaConsumer(
                **broker.client_config("bob"), group_id="g", group_protocol="consumer"
            ) as consumer,
            KafkaAdminClient(**broker.client_config("root")) as admin,
        ):
            consumer.subscribe(pattern=SubscriptionPattern("plans.*"))
            wait_until(lambda: consumer.poll(100) or consumer.assignment(), 60)
            assert {each.topic for each in consumer.assignment()} == {"plans-public"}
            # The right to a new topic counts when it is created.
            broker.allow("bob", "READ", topic="plans-new")
            admin.create_topics({"plans-new": {"num_partitions": 1}, "plans-hidden": {}})
            wait_until(lambda: consumer.poll(100) or len(consumer.assignment()) > 1, 60)
            assert {each.topic for each in consumer.assignment()} == {"plans-public", "plans-new"}
