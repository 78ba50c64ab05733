"""Sessions with delegation tokens, which end when their tokens expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.scram import wait_for_login
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.admin import DelegationToken
from thalweg.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenExpiredError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)

# Kafka lets a token that has expired log in until the next check.
CONFIGS = {
    "delegation.token.secret.key": "the key of the cluster",
    "delegation.token.expiry.check.interval.ms": "500",
}
LIFE_MS = 6000
T = TypeVar("T")


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


Use = Callable[[DelegationToken, dict[str, Any]], T]


def expiring(alice: KafkaAdminClient, servers: str, use: Use[T]) -> tuple[T, dict[str, Any]]:
    """Calls a function with a token that expires soon, and with the options of its clients.

    If the machine paused until the expiry, it is called again, with another token. Returns what it
    returns, and the options.
    """
    for _ in range(5):
        token = alice.create_delegation_token()
        options = options_of(servers, **token.sasl_config())
        wait_for_login(options)
        expiry_ms = alice.expire_delegation_token(token, LIFE_MS)

        def is_known(expiry_ms: int = expiry_ms) -> bool:
            known = {each.expiry_timestamp for each in alice.describe_delegation_tokens()}
            return expiry_ms in known or time.time() * 1000 > expiry_ms

        # A session that begins earlier would end with the first expiry, after a day.
        wait_until(is_known)
        try:
            return use(token, options), options
        except (SaslAuthenticationFailedError, DelegationTokenExpiredError, KafkaTimeoutError):
            if time.time() * 1000 < expiry_ms:
                raise
    raise TimeoutError("every token expired before it was used")


def test_scenario_82_the_end_of_a_token_ends_its_sessions(token_servers: str) -> None:
    times: dict[str, Any] = {
        "linger_ms": 0,
        "request_timeout_ms": 8000,
        "delivery_timeout_ms": 10_000,
    }

    sent: list[int] = []

    def begin(_: DelegationToken, options: dict[str, Any]) -> KafkaProducer[Any, Any]:
        producer = KafkaProducer(**options, **times)
        try:
            sent.append(producer.send("t", b"v").get(60).offset)
        except BaseException:
            producer.close()
            raise
        return producer

    with of_alice(token_servers) as alice:
        producer, options = expiring(alice, token_servers, begin)
        with producer:

            def send_until_refused() -> None:
                while True:
                    sent.append(producer.send("t", b"v").get(60).offset)

            # A record that waits for a connection fails with the reason.
            refused = (SaslAuthenticationFailedError, KafkaTimeoutError)
            with pytest.raises(refused, match=r"invalid credentials|closed the connection"):
                send_until_refused()

        def refusal() -> str:
            try:
                KafkaAdminClient(**options).close()
            except SaslAuthenticationFailedError as error:
                return str(error)
            return ""

        # Kafka refuses the token after its next check.
        assert "invalid credentials" in wait_until(refusal)
        # The records that were acknowledged are there. The token's owner reads them.
        login = {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
        owner = options_of(token_servers, sasl_mechanism="PLAIN", **login)
        with KafkaConsumer(**owner) as consumer:
            partition = TopicPartition("t", 0)
            assert consumer.end_offsets([partition])[partition] > sent[-1]


def test_a_renewed_token_keeps_its_clients_connected(token_servers: str) -> None:
    with of_alice(token_servers) as alice:

        def renew(token: DelegationToken, options: dict[str, Any]) -> KafkaAdminClient:
            client = KafkaAdminClient(**options)
            try:
                client.describe_cluster()
                alice.renew_delegation_token(token)
            except BaseException:
                client.close()
                raise
            return client

        client, _ = expiring(alice, token_servers, renew)
        with client:
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
