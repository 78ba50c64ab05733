"""Rights and passwords that change while a producer runs, and what it says then."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import within
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaProducer
from thalweg.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from thalweg.errors import KafkaError, SaslAuthenticationFailedError, TopicAuthorizationFailedError

USERS = {"admin": "a", "alice": "pw"}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        users=USERS,
        authorizer=True,
        super_users=["admin"],
    ) as started:
        started.create_topic("orders")
        started.create_topic("others")
        yield started


def producer(broker: EmbeddedBroker, **options: Any) -> KafkaProducer:
    config = {**broker.client_config("alice"), "metadata_max_age_ms": 200, **options}
    return KafkaProducer(**config, delivery_timeout_ms=60_000)


def is_refused(client: KafkaProducer) -> bool:
    """Whether the client's metadata says that the user has lost the right to the topic."""
    try:
        client.partitions_for("orders")
    except TopicAuthorizationFailedError:
        return True
    return False


def is_locked_out(client: KafkaProducer) -> bool:
    """Whether a call that needs the brokers says that they refuse the password."""
    client.send("orders", b"b")
    try:
        client.partitions_for("unknown")
    except SaslAuthenticationFailedError:
        return True
    except KafkaError:
        return False
    return False


def test_a_lost_right_fails_records_within_seconds(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "ALL", topic="orders")
    broker.allow("alice", "ALL", topic="others")
    with producer(broker) as client:
        assert client.send("orders", b"a").get(30).offset == 0
        broker.deny("alice", "ALL", topic="orders")
        wait_until(lambda: is_refused(client), 30)
        waiting = [client.send("orders", b"%d" % number) for number in range(10)]
        with within(30):
            for each in waiting:
                with pytest.raises(TopicAuthorizationFailedError) as caught:
                    each.get(30)
        assert "User:alice" in str(caught.value)
        assert "orders" in str(caught.value)
        assert client.send("others", b"b").get(30).offset == 0


def test_work_resumes_when_the_right_returns(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "ALL", topic="orders")
    with producer(broker) as client:
        assert client.send("orders", b"a").get(30).offset == 0
        with KafkaAdminClient(**broker.client_config("admin")) as admin:
            of_orders = ResourcePattern(ResourceType.TOPIC, "orders")
            admin.delete_acls(
                [ACL("User:alice", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, of_orders)]
            )
            with pytest.raises(TopicAuthorizationFailedError):
                client.send("orders", b"b").get(30)
            wait_until(lambda: is_refused(client), 30)
        broker.allow("alice", "ALL", topic="orders")
        # A record waits for the next metadata, whose request may be older than the right.
        with within(30):
            try:
                written = client.send("orders", b"c").get(30)
            except TopicAuthorizationFailedError:
                written = client.send("orders", b"c").get(30)
            assert written.offset == 1


def test_a_refused_topic_ends_a_transaction(broker: EmbeddedBroker) -> None:
    broker.allow("alice", "ALL", topic="orders")
    broker.allow("alice", "ALL", transactional_id="tx")
    with producer(broker, transactional_id="tx") as client:
        client.init_transactions()
        client.begin_transaction()
        client.send("orders", b"a").get(30)
        broker.deny("alice", "ALL", topic="orders")
        wait_until(lambda: is_refused(client), 30)
        sent = client.send("orders", b"b")
        with within(30), pytest.raises(TopicAuthorizationFailedError):
            sent.get(30)
        client.abort_transaction()


def test_new_credentials_end_the_error_of_the_old_ones(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.allow("alice", "ALL", topic="*")
    with caplog.at_level(logging.CRITICAL), producer(broker) as client:
        client.send("orders", b"a").get(30)
        broker.add_user("alice", "new")
        broker.expire_sessions()
        wait_until(lambda: is_locked_out(client), 30)
        client.set_sasl_credentials("alice", "new")
        # Not one call sees the error of the password before, whatever connection it needs.
        with within(30):
            client.partitions_for("others")
            assert client.send("others", b"c").get(30).offset == 0
