"""Delegation tokens: created, described, renewed, expired, used to log in, and refused.

All tests run on the embedded broker, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.kafka.cluster import USERS, VERSIONS, RealKafka
from tests.support.scram import wait_for_login
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    DelegationToken,
    ResourcePattern,
    ResourceType,
)
from thalweg.errors import (
    DelegationTokenAuthorizationFailedError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    InvalidPrincipalTypeError,
    TopicAuthorizationFailedError,
)

DAY_MS = 86_400_000
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CONFIGS = {
    "delegation.token.secret.key": "the key of the cluster",
    "allow.everyone.if.no.acl.found": "true",
}


@dataclass
class World:
    """A broker with delegation tokens and an authorizer. "admin" may do everything."""

    servers: str
    opened: list[KafkaAdminClient] = field(default_factory=list)

    def options(self, **login: Any) -> dict[str, Any]:
        return {"bootstrap_servers": self.servers, "security_protocol": "SASL_PLAINTEXT", **login}

    def client_of(self, user: str) -> KafkaAdminClient:
        login = {"sasl_plain_username": user, "sasl_plain_password": USERS[user]}
        made = KafkaAdminClient(**self.options(sasl_mechanism="PLAIN", **login))
        self.opened.append(made)
        return made

    def login(self, token: DelegationToken, mechanism: Any = "SCRAM-SHA-512") -> dict[str, Any]:
        """Returns the options of a client with a token, as soon as the broker knows the token."""
        options = self.options(**token.sasl_config(mechanism))
        wait_for_login(options)
        return options

    def deny_alice(self, operation: ACLOperation, kind: ResourceType, name: str) -> None:
        deny = ACL(
            "User:alice", "*", operation, ACLPermissionType.DENY, ResourcePattern(kind, name)
        )
        admin = self.client_of("admin")
        assert admin.create_acls([deny]) == {"succeeded": [deny], "failed": []}


@pytest.fixture(scope="module", params=["embedded", *VERSIONS])
def servers(request: pytest.FixtureRequest, node_of: Callable[[str], RealKafka]) -> Iterator[str]:
    if request.param != "embedded":
        yield node_of(request.param).bootstrap("SASL_PLAINTEXT")
        return
    broker = EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        users=USERS,
        authorizer=True,
        super_users=["admin"],
        configs=CONFIGS,
    )
    with broker:
        yield broker.bootstrap_servers


@pytest.fixture
def world(servers: str) -> Iterator[World]:
    made = World(servers)
    yield made
    for each in made.opened:
        each.close()


@pytest.fixture
def alice(world: World) -> KafkaAdminClient:
    return world.client_of("alice")


def find(client: KafkaAdminClient, token: DelegationToken) -> DelegationToken | None:
    tokens = client.describe_delegation_tokens()
    return next((each for each in tokens if each.token_id == token.token_id), None)


def described(client: KafkaAdminClient, token: DelegationToken) -> DelegationToken:
    """Waits until the broker knows a token, and returns what it says about it."""
    found = wait_until(lambda: find(client, token), 20)
    assert found is not None
    return found


def test_a_token_is_created_described_renewed_and_expired(
    world: World, alice: KafkaAdminClient
) -> None:
    now = int(time.time() * 1000)
    token = alice.create_delegation_token(
        renewers=["User:admin", "User:nobody"], max_lifetime_ms=2 * DAY_MS
    )
    assert (token.owner, token.requester) == ("User:alice", "User:alice")
    assert abs(token.issue_timestamp - now) < 60_000
    assert token.expiry_timestamp == token.issue_timestamp + DAY_MS
    assert token.max_timestamp == token.issue_timestamp + 2 * DAY_MS

    found = described(alice, token)
    assert found.renewers == ("User:admin", "User:nobody")
    assert (found.hmac, found.max_timestamp) == (token.hmac, token.max_timestamp)
    mine = alice.describe_delegation_tokens(["User:alice"])
    assert token.token_id in {each.token_id for each in mine}
    assert alice.describe_delegation_tokens(["User:carol"]) == []
    assert alice.describe_delegation_tokens([]) == []

    # A renewer may renew it. No renewal goes beyond the maximum.
    renewer = world.client_of("admin")
    assert renewer.renew_delegation_token(token, 7 * DAY_MS) <= token.max_timestamp
    expiry = renewer.renew_delegation_token(token.hmac, 50_000)
    assert 0 < expiry - now < 120_000
    wait_until(lambda: described(alice, token).expiry_timestamp == expiry, 20)

    alice.expire_delegation_token(token)
    wait_until(lambda: find(alice, token) is None, 20)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_with_a_token_acts_as_its_owner(
    world: World, alice: KafkaAdminClient, mechanism: str
) -> None:
    topic = f"of-alice-{mechanism}"
    admin = world.client_of("admin")
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.wait_for_topics([topic])
    options = world.login(alice.create_delegation_token(), mechanism)
    with KafkaProducer(**options, linger_ms=0) as producer:
        producer.send(topic, b"v").get(30)
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert next(consumer).value == b"v"

    world.deny_alice(ACLOperation.WRITE, ResourceType.TOPIC, topic)
    with KafkaProducer(**options, linger_ms=0) as producer:

        def is_denied() -> bool:
            try:
                producer.send(topic, b"v").get(30)
            except TopicAuthorizationFailedError:
                return True
            return False

        wait_until(is_denied, 20)


def test_a_token_has_no_rights_about_tokens(world: World, alice: KafkaAdminClient) -> None:
    token = alice.create_delegation_token()
    with KafkaAdminClient(**world.login(token)) as client:
        refused(client, token)


def test_a_client_that_does_not_log_in_has_no_tokens(
    node_of: Callable[[str], RealKafka], alice: KafkaAdminClient
) -> None:
    token = alice.create_delegation_token()
    servers = [node_of(version).bootstrap_servers for version in VERSIONS]
    with EmbeddedBroker(configs=CONFIGS) as broker:
        for each in (*servers, broker.bootstrap_servers):
            with KafkaAdminClient(bootstrap_servers=each) as anonymous:
                refused(anonymous, token)


def refused(client: KafkaAdminClient, token: DelegationToken) -> None:
    for call in (
        client.create_delegation_token,
        client.describe_delegation_tokens,
        lambda: client.renew_delegation_token(token),
        lambda: client.expire_delegation_token(token),
    ):
        with pytest.raises(
            DelegationTokenRequestNotAllowedError, match="Log in with SASL or with a client"
        ):
            call()


def test_refusals_have_their_own_errors(world: World, alice: KafkaAdminClient) -> None:
    admin = world.client_of("admin")
    token = alice.create_delegation_token()
    described(alice, token)
    with pytest.raises(DelegationTokenOwnerMismatchError, match="owner or of one of its renewers"):
        admin.renew_delegation_token(token)
    with pytest.raises(DelegationTokenOwnerMismatchError):
        admin.expire_delegation_token(token)
    with pytest.raises(DelegationTokenNotFoundError, match="is not a token of this cluster"):
        alice.renew_delegation_token(os.urandom(64))
    with pytest.raises(DelegationTokenNotFoundError):
        alice.expire_delegation_token(os.urandom(64))
    with pytest.raises(InvalidPrincipalTypeError, match="must be User"):
        alice.create_delegation_token(renewers=["Group:sales"])


def test_a_token_that_has_expired_cannot_be_renewed(alice: KafkaAdminClient) -> None:
    token = alice.create_delegation_token()
    described(alice, token)
    alice.expire_delegation_token(token, 1)
    for call in (alice.renew_delegation_token, alice.expire_delegation_token):
        # The controller learns of its own change a moment later, too.
        texts: list[str] = []

        def has_expired(call: Any = call, texts: list[str] = texts) -> bool:
            try:
                call(token, 1)
            except DelegationTokenExpiredError as error:
                texts.append(str(error))
            return bool(texts)

        wait_until(has_expired, 20)
        assert "Create a new token" in texts[0]


def test_a_token_for_another_owner_needs_a_right(world: World, alice: KafkaAdminClient) -> None:
    carol = f"carol-{os.urandom(4).hex()}"
    token = alice.create_delegation_token(owner=f"User:{carol}")
    assert (token.owner, token.requester) == (f"User:{carol}", "User:alice")
    everything = world.client_of("admin").describe_delegation_tokens
    found = wait_until(lambda: everything([f"User:{carol}"]), 20)
    assert [(each.owner, each.requester) for each in found] == [(token.owner, token.requester)]

    world.deny_alice(ACLOperation.CREATE_TOKENS, ResourceType.USER, f"User:{carol}")
    texts: list[str] = []

    def is_denied() -> bool:
        try:
            alice.create_delegation_token(owner=f"User:{carol}")
        except DelegationTokenAuthorizationFailedError as error:
            texts.append(str(error))
        return bool(texts)

    wait_until(is_denied, 20)
    assert f"for User:{carol}: " in texts[0]
    assert "User:alice needs CREATE_TOKENS on the user" in texts[0]
