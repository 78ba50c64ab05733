"""Sessions with delegation tokens, which end when their tokens expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.scram import wait_for_login
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.admin import DelegationToken
from thalweg.errors import (
    DelegationTokenAuthDisabledError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)

# Kafka lets a token that has expired log in until the next check.
CONFIGS = {
    "delegation.token.secret.key": "the key of the cluster",
    "delegation.token.expiry.check.interval.ms": "500",
}
LIFE_MS = 6000


@pytest.fixture(params=["embedded", "kafka-4.3"])
def token_servers(
    request: pytest.FixtureRequest, start_kafka: Callable[..., RealKafka]
) -> Iterator[str]:
    if request.param == "kafka-4.3":
        kafka = start_kafka("4.3", secure=True, configs=CONFIGS, heap="512m")
        yield kafka.bootstrap("SASL_PLAINTEXT")
        return
    with embedded(configs=CONFIGS) as broker:
        yield broker.bootstrap_servers


def embedded(**options: Any) -> EmbeddedBroker:
    return EmbeddedBroker(security_protocol="SASL_PLAINTEXT", users=USERS, **options)


def of_alice(servers: str) -> KafkaAdminClient:
    login = {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
    return KafkaAdminClient(**options_of(servers, sasl_mechanism="PLAIN", **login))


def options_of(servers: str, **login: Any) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "security_protocol": "SASL_PLAINTEXT", **login}


def expiring(alice: KafkaAdminClient, servers: str) -> tuple[DelegationToken, dict[str, Any]]:
    """Returns a token that expires soon, and the options of a client with it."""
    token = alice.create_delegation_token()
    options = options_of(servers, **token.sasl_config())
    wait_for_login(options)
    expiry = alice.expire_delegation_token(token, LIFE_MS)
    # A session that begins earlier would end with the first expiry, after a day.
    wait_until(lambda: alice.describe_delegation_tokens()[0].expiry_timestamp == expiry, 20)
    return token, options


def test_scenario_82_the_end_of_a_token_ends_its_sessions(token_servers: str) -> None:
    with of_alice(token_servers) as alice:
        _, options = expiring(alice, token_servers)
        times: dict[str, Any] = {
            "linger_ms": 0,
            "request_timeout_ms": 8000,
            "delivery_timeout_ms": 10_000,
        }
        with KafkaProducer(**options, **times) as producer:
            sent: list[int] = []

            def send_until_refused() -> None:
                while True:
                    sent.append(producer.send("t", b"v").get(60).offset)

            # A record that waits for a connection fails with the reason.
            refused = (SaslAuthenticationFailedError, KafkaTimeoutError)
            with pytest.raises(refused, match=r"invalid credentials|closed the connection"):
                send_until_refused()
        assert sent
        with pytest.raises(SaslAuthenticationFailedError, match="invalid credentials"):
            KafkaAdminClient(**options)
        # The records that were acknowledged are there. The token's owner reads them.
        login = {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
        owner = options_of(token_servers, sasl_mechanism="PLAIN", **login)
        with KafkaConsumer(**owner) as consumer:
            partition = TopicPartition("t", 0)
            assert consumer.end_offsets([partition])[partition] > sent[-1]


def test_a_renewed_token_keeps_its_clients_connected(token_servers: str) -> None:
    with of_alice(token_servers) as alice:
        token, options = expiring(alice, token_servers)
        with KafkaAdminClient(**options) as client:
            client.describe_cluster()
            alice.renew_delegation_token(token)
            end = time.monotonic() + LIFE_MS / 1000 + 2
            while time.monotonic() < end:
                client.describe_cluster()


def test_without_a_key_brokers_have_no_tokens(brokers: Any) -> None:
    kafka = brokers.secure_kafka()
    with embedded() as broker:
        for servers in (broker.bootstrap_servers, kafka.bootstrap("SASL_PLAINTEXT")):
            with of_alice(servers) as alice:
                for call in (
                    alice.create_delegation_token,
                    alice.describe_delegation_tokens,
                    lambda alice=alice: alice.expire_delegation_token(b"any"),
                    lambda alice=alice: alice.renew_delegation_token(b"any"),
                ):
                    with pytest.raises(
                        DelegationTokenAuthDisabledError,
                        match=r"Set delegation\.token\.secret\.key",
                    ):
                        call()


def test_no_repr_shows_the_key_of_an_embedded_broker() -> None:
    with embedded(configs=CONFIGS) as broker:
        key = CONFIGS["delegation.token.secret.key"]
        assert key not in repr(vars(broker)) + repr(broker)
