"""TLS and SASL PLAIN on a real Kafka: what the broker accepts, and how a refusal looks."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import read, within
from tests.support.kafka.cluster import RealKafka
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.errors import (
    IllegalSaslStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
)

SECRET = "alice-secret"  # from tests.support.kafka.cluster.USERS
WRONG = "not-the-secret-4711"
CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
PROTOCOLS = ["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
_ALL = ["PLAINTEXT", *PROTOCOLS]


def _options(kafka: RealKafka, protocol: str, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap(protocol),
        "security_protocol": protocol,
        "bootstrap_timeout_ms": 60_000,
    }
    if protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SECRET,
        }
    if protocol.endswith("SSL"):
        options["ssl_cafile"] = str(kafka.certificates / "ca.pem")
    return options | changes


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_go_through_every_protocol(secure_kafka: RealKafka, protocol: str) -> None:
    topic = f"secure-{protocol.lower()}"
    options = _options(secure_kafka, protocol)
    values = [b"%d" % number + bytes(5000) for number in range(500)]
    with KafkaAdminClient(**options) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([topic])
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 500
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 500)] == values


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_shows_its_certificate(secure_kafka: RealKafka, client: Any) -> None:
    """The listener refuses clients without a certificate."""
    servers = secure_kafka.bootstrap("MUTUAL_TLS")
    options = _options(secure_kafka, "SSL", bootstrap_servers=servers)
    certificates = secure_kafka.certificates
    shown = {
        "ssl_certfile": str(certificates / "client.pem"),
        "ssl_keyfile": str(certificates / "client.key"),
    }
    with client(**options, **shown) as connected:
        assert connected.bootstrap_connected()
    _refused(client, options, "certificate")


def test_localhost_is_a_name_of_the_certificate(secure_kafka: RealKafka) -> None:
    servers = secure_kafka.bootstrap("SSL").replace("127.0.0.1", "localhost")
    with KafkaAdminClient(**_options(secure_kafka, "SSL", bootstrap_servers=servers)) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_wrong_password_is_told_in_seconds_with_the_brokers_text(
    secure_kafka: RealKafka,
    client: Any,
    protocol: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with within(30), pytest.raises(SaslAuthenticationFailedError) as caught:
        client(**_options(secure_kafka, protocol, sasl_plain_password=WRONG))
    text = str(caught.value)
    assert "Authentication failed: Invalid username or password" in text
    assert WRONG not in text + repr(caught.value) + caplog.text
    assert not caught.value.retriable


def test_an_unknown_user_is_refused(secure_kafka: RealKafka) -> None:
    options = _options(secure_kafka, "SASL_PLAINTEXT", sasl_plain_username="mallory")
    with within(30), pytest.raises(SaslAuthenticationFailedError):
        KafkaProducer(**options)


def _refused(client: Any, options: dict[str, Any], reason: str) -> None:
    """Checks that the client gives up in seconds, before bootstrap_timeout_ms, with the reason."""
    with within(30), pytest.raises(KafkaConnectionError) as caught:
        client(**options)
    assert reason in str(caught.value).lower()


@pytest.mark.parametrize("client", CLIENTS)
def test_an_authority_that_signed_nothing_is_not_trusted(
    secure_kafka: RealKafka, client: Any
) -> None:
    other = str(secure_kafka.certificates / "other-ca.pem")
    options = _options(secure_kafka, "SSL", ssl_cafile=other)
    _refused(client, options, "issuer")


def test_the_systems_authorities_do_not_know_ours(secure_kafka: RealKafka) -> None:
    options = _options(secure_kafka, "SSL")
    del options["ssl_cafile"]
    _refused(KafkaProducer, options, "issuer")


def test_a_certificate_for_another_host_is_refused(
    start_kafka: Callable[..., RealKafka],
) -> None:
    kafka = start_kafka("4.3", secure=True, keystore="wrong-host")
    options = _options(kafka, "SSL")
    _refused(KafkaProducer, options, "not valid for the host name")
    with KafkaProducer(**options, ssl_check_hostname=False) as producer:
        assert producer.send("unchecked", b"value").get(30).offset == 0
    # The certificate authority is still checked.
    other = str(kafka.certificates / "other-ca.pem")
    unchecked = options | {"ssl_check_hostname": False, "ssl_cafile": other}
    _refused(KafkaProducer, unchecked, "issuer")


def test_an_expired_certificate_is_refused(start_kafka: Callable[..., RealKafka]) -> None:
    kafka = start_kafka("4.3", secure=True, keystore="expired")
    _refused(KafkaProducer, _options(kafka, "SSL"), "expired")


@pytest.mark.parametrize(
    "changes, problem",
    [
        ({"ssl_cafile": "/no/such/file.pem"}, "/no/such/file.pem"),
        ({"ssl_certfile": "/no/such/client.pem"}, "/no/such/client.pem"),
    ],
)
def test_files_that_are_not_there_are_named(
    secure_kafka: RealKafka, changes: dict[str, str], problem: str
) -> None:
    with within(30), pytest.raises((KafkaError, OSError), match=problem):
        KafkaProducer(**_options(secure_kafka, "SSL", **changes))


def test_a_file_without_certificates_is_refused_by_its_option(
    secure_kafka: RealKafka, tmp_path: Any
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing here\n")
    wanted = rf"ssl_cafile.*{re.escape(str(empty))}.*certificate"
    with within(30), pytest.raises(KafkaError, match=wanted):
        KafkaProducer(**_options(secure_kafka, "SSL", ssl_cafile=str(empty)))


def test_sasl_to_a_listener_without_it_is_named(secure_kafka: RealKafka) -> None:
    servers = secure_kafka.bootstrap("PLAINTEXT")
    options = _options(secure_kafka, "SASL_PLAINTEXT", bootstrap_servers=servers)
    with within(30), pytest.raises(IllegalSaslStateError, match="security_protocol") as caught:
        KafkaProducer(**options)
    assert SECRET not in str(caught.value)


_PAIRS = [(ours, theirs) for ours in _ALL for theirs in _ALL if ours != theirs]


@pytest.mark.parametrize("ours, theirs", _PAIRS)
def test_a_client_of_another_protocol_learns_which_one_the_listener_has(
    secure_kafka: RealKafka, ours: str, theirs: str
) -> None:
    """Scenario 69, and all other mix-ups."""
    options = _options(secure_kafka, ours, bootstrap_servers=secure_kafka.bootstrap(theirs))
    for timeout_ms in (1000, 5000, 20_000):  # more than one only if the broker is slow
        options["bootstrap_timeout_ms"] = timeout_ms
        with within(timeout_ms / 1000 + 20), pytest.raises(KafkaError) as caught:
            KafkaAdminClient(**options)
        hint = str(caught.value).partition("security_protocol ")[2]
        named = re.findall(r"\b(?:SASL_)?(?:PLAINTEXT|SSL)\b", hint)
        if theirs in named:
            break
    assert theirs in named, str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_mechanism_that_the_client_does_not_have_is_a_configuration_error(
    secure_kafka: RealKafka,
) -> None:
    with pytest.raises(ValueError, match="DIGEST-MD5"):
        KafkaProducer(**_options(secure_kafka, "SASL_SSL", sasl_mechanism="DIGEST-MD5"))


def test_a_list_of_revoked_certificates_that_is_none_is_refused(secure_kafka: RealKafka) -> None:
    # Without a revocation list nothing would be checked.
    options = _options(secure_kafka, "SSL", ssl_crlfile=str(secure_kafka.certificates / "ca.pem"))
    with pytest.raises(KafkaConfigurationError, match=r"ssl_crlfile.*ca\.pem.*BEGIN X509 CRL"):
        KafkaProducer(**options)
