"""Quotas: set, described, refused and enforced. Most tests run on the embedded broker, too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kafka.cluster import VERSIONS, RealKafka
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient
from thalweg.errors import (
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    KafkaError,
    ThrottlingQuotaExceededError,
)

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", *VERSIONS])
def servers(request: pytest.FixtureRequest, node_of: Callable[[str], RealKafka]) -> Iterator[str]:
    if request.param != "embedded":
        yield node_of(request.param).bootstrap_servers
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=servers) as client:
        yield client


def name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def set_quota(admin: KafkaAdminClient, entity: dict[str, Any], quotas: dict[str, Any]) -> None:
    """Sets quotas, and waits until the broker knows them."""
    admin.alter_client_quotas(entity, quotas)
    wanted = [] if None in quotas.values() else [{"entity": entity, "quotas": quotas}]
    wait_until(lambda: admin.describe_client_quotas(entity, strict=True) == wanted, 20)


def test_quotas_are_set_described_and_removed(admin: KafkaAdminClient) -> None:
    user, client = name("user"), name("client")
    both = {"user": user, "client-id": client}
    admin.alter_client_quotas(
        {"user": user}, {"producer_byte_rate": 1000, "request_percentage": 1.5}
    )
    admin.alter_client_quotas(both, {"consumer_byte_rate": 2000, "controller_mutation_rate": 0.5})
    of_user = {"producer_byte_rate": 1000.0, "request_percentage": 1.5}
    of_both = {"consumer_byte_rate": 2000.0, "controller_mutation_rate": 0.5}
    rows = [{"entity": {"user": user}, "quotas": of_user}, {"entity": both, "quotas": of_both}]

    def found(*arguments: Any, **options: Any) -> list[Any]:
        described = admin.describe_client_quotas(*arguments, **options)
        return sorted(described, key=lambda row: len(row["entity"]))

    wait_until(lambda: found({"user": user}) == rows, 20)
    assert found({"user": user}, strict=True) == rows[:1]
    assert found(both, strict=True) == rows[1:]
    assert found({"client-id": client}) == rows[1:]
    assert found({"user": user}, ["client-id"]) == rows[1:]
    assert found({"user": name("nobody")}) == []
    assert all(row in admin.describe_client_quotas() for row in rows)
    assert admin.describe_client_quotas({"ip": None}) == []

    admin.alter_client_quotas(both, {"consumer_byte_rate": None}, validate_only=True)
    assert found(both) == rows[1:]
    admin.alter_client_quotas(both, dict.fromkeys(of_both))
    admin.alter_client_quotas({"user": user}, {"request_percentage": None})
    left = [{"entity": {"user": user}, "quotas": {"producer_byte_rate": 1000.0}}]
    wait_until(lambda: found({"user": user}) == left, 20)
    admin.alter_client_quotas({"user": user}, {"producer_byte_rate": None})


def test_defaults_and_addresses_have_quotas(admin: KafkaAdminClient) -> None:
    entities: list[dict[str, Any]] = [
        {"client-id": None, "user": name("user")},
        {"ip": "192.0.2.7"},
    ]
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        set_quota(admin, entity, {key: 1000.0})
        set_quota(admin, entity, {key: None})


@pytest.mark.parametrize(
    "entity, quotas, words",
    [
        ({}, {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
        ({"host": "h"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: host"),
        ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
        ({"user": "u"}, {"tea_rate": 1}, "Invalid configuration key tea_rate"),
        ({"user": "u"}, {"connection_creation_rate": 1}, "Invalid configuration key"),
        ({"ip": "127.0.0.1"}, {"producer_byte_rate": 1}, "Invalid configuration key"),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, "cannot be a fractional value"),
        ({"user": "u", "ip": "127.0.0.1"}, {"producer_byte_rate": 1}, "Invalid quota entity"),
        ({"user": "u"}, {"producer_byte_rate": 0}, "must be greater than 0"),
        ({"user": "u"}, {"request_percentage": -1}, "must be greater than 0"),
        ({"user": "u"}, {"producer_byte_rate": 2e19}, "too large for a LONG"),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 0}, "must be greater than 0"),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 3e9}, "too large for an INT"),
        ({"ip": "not an address"}, {"connection_creation_rate": 1}, "is not a valid IP"),
    ],
)
def test_what_is_wrong_is_refused_in_kafkas_words(
    admin: KafkaAdminClient, entity: dict[str, Any], quotas: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        admin.alter_client_quotas(entity, quotas)


@pytest.mark.parametrize(
    "match, any_of, words",
    [
        ({"": "x"}, [], "Invalid empty entity type"),
        ({"user": "u"}, ["user"], "cannot appear more than once"),
        ({"host": "h"}, [], "Unsupported entity type host"),
        ({"ip": "127.0.0.1"}, ["user"], "IP filter component"),
    ],
)
def test_a_wrong_filter_is_refused(
    admin: KafkaAdminClient, match: dict[str, Any], any_of: list[str], words: str
) -> None:
    with pytest.raises(KafkaError, match=words):
        admin.describe_client_quotas(match, any_of)


def test_too_many_new_partitions_are_refused(admin: KafkaAdminClient, servers: str) -> None:
    client = name("creator")
    set_quota(admin, {"client-id": client}, {"controller_mutation_rate": 1.0})
    with KafkaAdminClient(bootstrap_servers=servers, client_id=client) as creator:

        def is_refused() -> bool:
            try:
                creator.create_topics(
                    {name("many"): {"num_partitions": 20, "replication_factor": 1}}
                )
            except ThrottlingQuotaExceededError:
                return True
            return False

        # The first request may exceed the quota, which is a burst of 11. The next one must wait.
        wait_until(is_refused, 30)
    set_quota(admin, {"client-id": client}, {"controller_mutation_rate": None})


def test_quotas_need_rights_on_the_cluster() -> None:
    with (
        EmbeddedBroker(
            security_protocol="SASL_PLAINTEXT", users={"alice": "secret"}, authorizer=True
        ) as broker,
        KafkaAdminClient(**broker.client_config("alice")) as alice,
    ):
        with pytest.raises(ClusterAuthorizationFailedError, match="needs DESCRIBE_CONFIGS"):
            alice.describe_client_quotas()
        broker.allow("alice", "DESCRIBE_CONFIGS", cluster=True)
        assert alice.describe_client_quotas() == []
        with pytest.raises(ClusterAuthorizationFailedError, match="needs ALTER_CONFIGS"):
            alice.alter_client_quotas({"user": "u"}, {"producer_byte_rate": 1})
        broker.allow("alice", "ALTER_CONFIGS", cluster=True)
        alice.alter_client_quotas({"user": "u"}, {"producer_byte_rate": 1})
