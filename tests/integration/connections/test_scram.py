"""SASL SCRAM on real Kafka: who can log in, with which client, and how a refusal looks."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.brokers import Brokers
from tests.support.kafka.cluster import USERS, VERSIONS, RealKafka
from tests.support.scram import (
    MECHANISMS,
    add_user,
    add_user_with_kafkas_tool,
    scram_options,
    wait_for_login,
)
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError

USER, PASSWORD = "scram-alice", "scram-alice-secret"
WRONG = "not-the-secret-4711"
CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest, brokers: Brokers) -> Iterator[RealKafka]:
    """A node of Kafka 4.3 and one of 3.9, with a user of both mechanisms."""
    if request.param == "kafka-4.3":
        running = brokers.secure_kafka()
        add_user_with_kafkas_tool(running, USER, PASSWORD)
        yield running
        return
    with RealKafka(request.param.removeprefix("kafka-"), secure=True, heap="512m") as started:
        add_user_with_kafkas_tool(started, USER, PASSWORD)
        yield started


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_go_through_both_mechanisms(
    kafka: RealKafka, mechanism: str, protocol: str
) -> None:
    topic = f"scram-{mechanism.lower()}-{protocol.lower()}"
    options = scram_options(kafka, USER, PASSWORD, mechanism, protocol)
    values = [b"%d" % number for number in range(100)]
    with KafkaAdminClient(**options) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([topic])
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 100
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_asyncio_clients_log_in(kafka: RealKafka, mechanism: str) -> None:
    topic = f"scram-aio-{mechanism.lower()}"
    kafka.create_topic(topic)
    options = scram_options(kafka, USER, PASSWORD, mechanism)

    async def program() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer:
            record = await consumer.getone()
        value: bytes | None = record.value
        return value

    assert run(program()) == b"value"


def test_the_command_line_logs_in(kafka: RealKafka) -> None:
    """The options have librdkafka's names."""
    kafka.create_topic("scram-cli")
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanisms=SCRAM-SHA-256",
        f"sasl.username={USER}",
        f"sasl.password={PASSWORD}",
    ]
    given = [part for each in options for part in ("-X", each)]
    command = ["topics", "list", "-b", kafka.bootstrap("SASL_PLAINTEXT"), *given]
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "scram-cli" in done.stdout.splitlines()


def test_javas_login_line_logs_in(kafka: RealKafka) -> None:
    line = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{USER}" password="{PASSWORD}";'
    )
    options = {
        "bootstrap.servers": kafka.bootstrap("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": line,
    }
    with KafkaAdminClient.from_config(options) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_reported_in_seconds_with_what_helps(
    kafka: RealKafka, client: Any, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = scram_options(kafka, USER, WRONG, mechanism)
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        client(**options)
    text = str(caught.value)
    assert f"invalid credentials with SASL mechanism {mechanism}" in text
    assert f"{mechanism} as user '{USER}'" in text
    assert kafka.bootstrap("SASL_PLAINTEXT") in text
    assert "Check sasl_plain_username and sasl_plain_password" in text
    assert WRONG not in text + repr(caught.value) + caplog.text
    assert not caught.value.retriable
    assert not caught.value.by_client


def test_an_unknown_user_is_refused(kafka: RealKafka) -> None:
    with within(20), pytest.raises(SaslAuthenticationFailedError, match="mallory"):
        KafkaProducer(**scram_options(kafka, "mallory", PASSWORD))


def test_a_user_needs_a_credential_for_the_mechanism(kafka: RealKafka) -> None:
    add_user(kafka, "only-256", PASSWORD, "SCRAM-SHA-256")
    with within(20), pytest.raises(SaslAuthenticationFailedError, match="a credential for SCRAM"):
        KafkaProducer(**scram_options(kafka, "only-256", PASSWORD, "SCRAM-SHA-512"))


@pytest.mark.parametrize(
    "user, password",
    [
        ("a=b,c", "secret"),
        ("=2C", "secret"),
        ("odd-password", ",=\"\\ '%"),
        ("long-password", "x" * 1000),
        ("beyond-ascii", "pässwörd–\N{SNOWMAN}"),
        ("not-normalized", "ſecret\u00ad\N{ROMAN NUMERAL NINE}"),
    ],
)
def test_names_and_passwords_may_have_any_characters(
    kafka: RealKafka, user: str, password: str
) -> None:
    for mechanism in MECHANISMS:
        with KafkaAdminClient(**add_user(kafka, user, password, mechanism)) as admin:
            assert admin.bootstrap_connected()


def test_a_broker_that_asks_for_more_work_than_allowed_is_refused(kafka: RealKafka) -> None:
    options = add_user(kafka, "hard-worker", PASSWORD, "SCRAM-SHA-512", iterations=8192)
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        KafkaProducer(**options, sasl_scram_iterations_max=8191)
    assert caught.value.by_client
    assert "8192 iterations, more than sasl_scram_iterations_max (8191)" in str(caught.value)
    KafkaProducer(**options, sasl_scram_iterations_max=8192).close()


@pytest.fixture
def kafka_with_tokens(start_kafka: Callable[..., RealKafka]) -> RealKafka:
    """A broker with delegation tokens, which does not offer SCRAM-SHA-256."""
    configs = {
        "delegation.token.secret.key": "the key of the cluster",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    return start_kafka("4.3", secure=True, configs=configs, heap="512m")


def test_a_mechanism_that_is_not_offered_and_a_delegation_token(
    kafka_with_tokens: RealKafka, tmp_path: Path
) -> None:
    kafka = kafka_with_tokens
    with within(20), pytest.raises(UnsupportedSaslMechanismError) as caught:
        KafkaProducer(**scram_options(kafka, USER, PASSWORD, "SCRAM-SHA-256"))
    offered = re.search(r"It offers ([\w, -]+)\.", str(caught.value))
    assert offered is not None
    assert set(offered[1].split(", ")) == {"PLAIN", "SCRAM-SHA-512"}

    token, hmac = _new_token(kafka, tmp_path)
    options = scram_options(kafka, token, hmac)
    wait_for_login(options | {"sasl_scram_tokenauth": True})
    with pytest.raises(SaslAuthenticationFailedError):
        KafkaAdminClient(**options)


def _new_token(kafka: RealKafka, folder: Path) -> tuple[str, str]:
    """Returns the ID and the HMAC of a new delegation token of alice."""
    login = folder / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="alice" password="{USERS["alice"]}";\n'
    )
    printed = kafka.tool(
        "org.apache.kafka.tools.DelegationTokenCommand",
        *("--bootstrap-server", kafka.bootstrap("SASL_PLAINTEXT")),
        *("--command-config", str(login)),
        *("--create", "--max-life-time-period", "-1"),
    )
    created = re.search(r"tokenId : (\S+)", printed)
    assert created is not None, printed
    row = re.search(rf"^{re.escape(created[1])}\s+(\S+)", printed, re.MULTILINE)
    assert row is not None, printed
    return created[1], row[1]
