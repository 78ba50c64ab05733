"""TLS of EmbeddedBroker: own certificates, certificates of clients, and who is refused."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import KafkaConfigurationError, KafkaError, SaslAuthenticationFailedError

USERS = {"alice": "s3cret-of-alice"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(nodes=2, security_protocol="SSL") as running:
        yield running


@pytest.fixture(scope="module")
def mutual() -> Iterator[EmbeddedBroker]:
    configs = {"ssl.client.auth": "required"}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as running:
        yield running


def round_trip(options: dict[str, Any], topic: str) -> None:
    """Sends records that do not fit into one record of TLS, and reads them again."""
    values = [bytes([number]) * 40_000 for number in range(100)]
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 100
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values


def test_records_go_through_tls(broker: EmbeddedBroker) -> None:
    options = broker.client_config()
    assert options["security_protocol"] == "SSL"
    round_trip(options, "tls")

    async def program() -> int:
        async with AIOKafkaProducer(**options) as producer:
            return (await producer.send_and_wait("tls", b"value")).offset

    assert run(program()) == 100


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_records_go_through_tls_after_a_login(mechanism: str) -> None:
    with EmbeddedBroker(
        security_protocol="SASL_SSL", sasl_mechanisms=[mechanism], users=USERS
    ) as broker:
        round_trip(broker.client_config(), "sasl-ssl")
        with pytest.raises(SaslAuthenticationFailedError):
            KafkaProducer(**broker.client_config() | {"sasl_plain_password": "wrong"})


def test_a_client_that_does_not_trust_the_authority_refuses_the_broker(
    broker: EmbeddedBroker, mutual: EmbeddedBroker
) -> None:
    options = broker.client_config() | {"ssl_cafile": mutual.ca_pem}
    with within(20), pytest.raises(KafkaError, match=r"(?i)certificate"):
        KafkaProducer(**options)


def test_mix_ups_of_protocols_are_errors(broker: EmbeddedBroker) -> None:
    with within(20), pytest.raises(KafkaError):
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers, bootstrap_timeout_ms=2000)
    with EmbeddedBroker() as plain, within(20), pytest.raises(KafkaError):
        KafkaProducer(
            **broker.client_config() | {"bootstrap_servers": plain.bootstrap_servers},
            bootstrap_timeout_ms=2000,
        )


def test_a_client_needs_a_certificate_of_the_authority(
    mutual: EmbeddedBroker, broker: EmbeddedBroker
) -> None:
    options = mutual.client_config("alice")
    round_trip(options, "mutual")
    files = ("ssl_certfile", "ssl_keyfile")
    without = {name: value for name, value in options.items() if name not in files}
    foreign = broker.client_certificate("alice")
    wrong = options | {"ssl_certfile": foreign.certificate, "ssl_keyfile": foreign.key}
    for refused in (without, wrong):
        with within(20), pytest.raises(KafkaError):
            KafkaProducer(**refused, bootstrap_timeout_ms=3000)


def test_a_certificate_is_optional_if_it_is_only_requested() -> None:
    configs = {"ssl.client.auth": "requested"}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as broker:
        options = broker.client_config("alice")
        KafkaAdminClient(**options).close()
        del options["ssl_certfile"], options["ssl_keyfile"]
        KafkaAdminClient(**options).close()


def test_own_certificates_may_be_files(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The test borrows a certificate of the other broker, whose name no client may check."""
    borrowed = broker.client_certificate("127.0.0.1")
    (tmp_path / "cert.pem").write_text(borrowed.certificate)
    (tmp_path / "key.pem").write_text(borrowed.key.reveal())
    with EmbeddedBroker(
        security_protocol="SSL",
        ssl_certfile=tmp_path / "cert.pem",
        ssl_keyfile=str(tmp_path / "key.pem"),
        ssl_cafile=broker.ca_pem,
        configs={"ssl.client.auth": "required"},
    ) as own:
        assert own.ca_pem is None
        context = ssl.create_default_context(cadata=broker.ca_pem)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # it is a certificate for clients
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        with (
            socket.create_connection(("127.0.0.1", own.ports[0])) as plain,
            context.wrap_socket(plain) as connection,
        ):
            assert connection.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
                borrowed.certificate
            )
        with pytest.raises(KafkaConfigurationError, match="has no authority of its own"):
            own.client_certificate("alice")


def test_wrong_certificates_are_refused_without_the_key(broker: EmbeddedBroker) -> None:
    one, other = broker.client_certificate("one"), broker.client_certificate("other")
    lines = one.key.reveal().splitlines()[1]
    for cert, key, words in (
        (one.certificate, other.key, "do not fit together"),
        (one.key.reveal(), one.key, "ssl_certfile: contains no PEM certificate"),
        (one.certificate, one.certificate, "ssl_keyfile: contains no unencrypted PEM private key"),
    ):
        wrong = EmbeddedBroker(security_protocol="SSL", ssl_certfile=cert, ssl_keyfile=key)
        with pytest.raises(KafkaConfigurationError) as caught:
            wrong.start()
        assert words in str(caught.value)
        assert lines not in str(caught.value)
    without = EmbeddedBroker(
        security_protocol="SSL",
        ssl_certfile=one.certificate,
        ssl_keyfile=one.key,
        configs={"ssl.client.auth": "required"},
    )
    with pytest.raises(KafkaConfigurationError, match="needs ssl_cafile"):
        without.start()


def test_keys_are_not_shown(mutual: EmbeddedBroker) -> None:
    options = mutual.client_config("alice")
    key = options["ssl_keyfile"].reveal().splitlines()[1]
    shown = repr(options) + repr(mutual.client_certificate("alice")) + repr(vars(mutual))
    assert key not in shown
    assert "PRIVATE KEY" not in shown


def test_the_certificate_is_for_all_addresses_of_this_machine(broker: EmbeddedBroker) -> None:
    context = ssl.create_default_context(cadata=broker.ca_pem)
    for name in ("localhost", "127.0.0.1"):
        with (
            socket.create_connection(("127.0.0.1", broker.ports[1])) as plain,
            context.wrap_socket(plain, server_hostname=name) as connection,
        ):
            assert connection.version() == "TLSv1.3"


def test_a_client_that_does_not_finish_the_handshake_is_cut_off() -> None:
    configs = {"thalweg.authentication.timeout.ms": 500}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as broker:
        with socket.create_connection(("127.0.0.1", broker.ports[0])) as silent:
            silent.settimeout(30)
            silent.sendall(b"\x16\x03\x01\x02\x00")
            with contextlib.suppress(ConnectionResetError):  # the broker had not read it
                assert silent.recv(1) == b""
        KafkaAdminClient(**broker.client_config()).close()
