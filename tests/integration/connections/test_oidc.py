"""OAUTHBEARER with an identity provider, on real Kafka: all clients, and what they say in failures.

These brokers accept tokens without a signature.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.brokers import Brokers
from tests.support.identity import IdentityProvider, document, jwt, status
from tests.support.kafka.cluster import VERSIONS, RealKafka
from tests.support.oauth import oauth_options
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.auth.oidc import OidcError
from thalweg.errors import NoCredentialsError, SaslAuthenticationFailedError

SECRET = "hunter2"


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest, brokers: Brokers) -> Iterator[RealKafka]:
    """A node of Kafka 4.3 and one of 3.9."""
    if request.param == "kafka-4.3":
        yield brokers.secure_kafka()
        return
    with RealKafka(request.param.removeprefix("kafka-"), secure=True, heap="512m") as started:
        yield started


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def options(
    kafka: RealKafka, idp: IdentityProvider, protocol: str = "SASL_PLAINTEXT"
) -> dict[str, Any]:
    return {
        **oauth_options(kafka, protocol=protocol),
        "sasl_oauthbearer_token_endpoint_url": idp.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "our-client",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
    }


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_all_clients_share_one_token(
    kafka: RealKafka, idp: IdentityProvider, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    topic = f"oidc-{protocol.lower()}"
    given = options(kafka, idp, protocol)
    values = [b"%d" % number for number in range(100)]
    with (
        KafkaAdminClient(**given) as admin,
        KafkaProducer(**given) as producer,
        KafkaConsumer(**given, auto_offset_reset="earliest") as consumer,
    ):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([topic])
        assert producer.send_many(topic, values).get(30).count == 100
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values
    assert len(idp.requests) == 1
    assert idp.requests[0].basic == f"our-client:{SECRET}"
    assert "thalweg" in caplog.text
    for secret in (SECRET, idp.requests[0].headers["authorization"].split()[1], "eyJ"):
        assert secret not in caplog.text


def test_the_embedded_broker_takes_the_tokens(idp: IdentityProvider) -> None:
    broker = EmbeddedBroker(security_protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"])
    with broker:
        broker.create_topic("oidc")
        login: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": idp.token_url,
            "sasl_oauthbearer_client_credentials_client_id": "of-embedded",
            "sasl_oauthbearer_client_credentials_client_secret": SECRET,
        }
        with KafkaProducer(**login) as producer:
            assert producer.send("oidc", b"value").get(30).offset == 0
        assert len(idp.requests) == 1


def test_asyncio_clients_get_tokens(kafka: RealKafka, idp: IdentityProvider) -> None:
    kafka.create_topic("oidc-aio")
    given = options(kafka, idp)

    async def program() -> bytes | None:
        async with AIOKafkaProducer(**given) as producer:
            await producer.send_and_wait("oidc-aio", b"value")
        async with AIOKafkaConsumer("oidc-aio", **given, auto_offset_reset="earliest") as reader:
            value: bytes | None = (await reader.getone()).value
            return value

    assert run(program()) == b"value"


def test_tokens_are_refreshed_while_the_provider_stumbles(
    kafka: RealKafka, idp: IdentityProvider
) -> None:
    kafka.create_topic("oidc-refresh")
    idp.life_s = 3.0
    idp.respond(status(503), status(429, {"Retry-After": "1"}))
    began = time.monotonic()
    with KafkaProducer(**options(kafka, idp)) as producer:
        producer.send("oidc-refresh", b"value").get(30)
        if time.monotonic() < began + 0.8 * idp.life_s:
            assert idp.issued == 1
        idp.respond(status(500), status(500))
        wait_until(lambda: idp.issued >= 3, 40, what=lambda: f"tokens: {idp.issued}")
        producer.send("oidc-refresh", b"value").get(30)


def test_a_refusal_of_the_provider_is_raised_in_its_words(
    kafka: RealKafka, idp: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    idp.respond(*[status(401, error="invalid_client", text="no such client")] * 50)
    with within(20), pytest.raises(NoCredentialsError) as caught:
        KafkaProducer(**options(kafka, idp))
    expected = f"OIDC: POST {idp.token_url}: 401 invalid_client: no such client"
    assert expected in str(caught.value)
    assert isinstance(caught.value.__cause__, OidcError)
    assert caught.value.__cause__.status == 401
    assert SECRET not in str(caught.value) + repr(caught.value) + caplog.text
    assert len(idp.requests) == 1


def test_a_token_that_the_broker_refuses_is_replaced_once(
    kafka: RealKafka, idp: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    old = jwt(sub="bob", iat=time.time() - 100, exp=time.time() - 60)
    idp.respond(*[document({"access_token": old, "expires_in": 60})] * 50)
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        KafkaAdminClient(**options(kafka, idp))
    assert "the broker refuses the token: invalid_token (subject 'bob'" in str(caught.value)
    assert "of the token endpoint" in str(caught.value)
    assert old not in str(caught.value) + caplog.text


def test_a_provider_that_comes_back_cures_a_client(kafka: RealKafka, idp: IdentityProvider) -> None:
    kafka.create_topic("oidc-cured")
    idp.expires_in = 0.0  # each connection needs another token
    given = {
        **options(kafka, idp),
        "connections_max_idle_ms": 2500,
        "request_timeout_ms": 2000,
        "sasl_login_retry_backoff_max_ms": 100,
    }
    with KafkaProducer(**given) as producer:
        producer.send("oidc-cured", b"before").get(30)
        metrics = producer.metrics
        wait_until(lambda: metrics()["producer-metrics"]["connection-count"] == 0)
        idp.respond(*[status(503)] * 20)
        assert producer.send("oidc-cured", b"after").get(60).offset == 1


def test_the_last_records_get_a_token_at_exit(kafka: RealKafka, idp: IdentityProvider) -> None:
    kafka.create_topic("oidc-exit")
    idp.expires_in = 0.0  # each connection needs another token
    program = """
        import json, sys, time
        from thalweg import KafkaProducer

        producer = KafkaProducer(**json.loads(sys.argv[1]))
        for _ in range(3):
            producer.send("oidc-exit", b"value")
        while producer.metrics()["producer-metrics"]["connection-count"]:
            time.sleep(0.05)  # the client closes its connections
        print(time.monotonic())
    """
    given = {
        **options(kafka, idp),
        "connections_max_idle_ms": 2500,
        "request_timeout_ms": 2000,
        "linger_ms": 60_000,
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert idp.requests[-1].at > float(done.stdout), "the client requested a token at exit"
    with KafkaConsumer(**options(kafka, idp), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("oidc-exit", 0)])
        assert [each.value for each in read(consumer, 3)] == [b"value"] * 3


def test_the_command_line_logs_in(kafka: RealKafka, idp: IdentityProvider) -> None:
    kafka.create_topic("oidc-cli")
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": idp.token_url,
        "sasl.oauthbearer.client.id": "our-client",
        "sasl.oauthbearer.client.secret": SECRET,
    }
    parts = [part for name, value in given.items() for part in ("-X", f"{name}={value}")]
    command = ["topics", "list", "-b", kafka.bootstrap("SASL_PLAINTEXT"), *parts]
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "oidc-cli" in done.stdout.splitlines()
