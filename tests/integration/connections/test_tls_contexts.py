"""`ssl_context` and files that change, on a real Kafka."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.clients import within
from tests.support.kafka import certificates
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaProducer
from thalweg.aio import AIOKafkaProducer
from thalweg.config import InsecureConnectionWarning
from thalweg.errors import KafkaConnectionError
from thalweg.helpers import create_ssl_context

_STORES = certificates.OPENSSL_CLIENTS.parent
_KEYS = _STORES.parent / "keys"
PASSWORD = "correct horse"


def _options(kafka: RealKafka, listener: str = "SSL", **changes: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SSL",
        "bootstrap_timeout_ms": 60_000,
        **changes,
    }


def _connects(options: dict[str, Any]) -> None:
    with KafkaAdminClient(**options) as admin:
        assert admin.bootstrap_connected()


def test_a_context_of_the_standard_library_works(secure_kafka: RealKafka) -> None:
    """As in kafka-python's documentation."""
    context = ssl.create_default_context(cafile=str(secure_kafka.certificates / "ca.pem"))
    _connects(_options(secure_kafka, ssl_context=context))
    other = ssl.create_default_context(cafile=str(secure_kafka.certificates / "other-ca.pem"))
    with within(30), pytest.raises(KafkaConnectionError, match="its issuer is unknown"):
        KafkaProducer(**_options(secure_kafka, ssl_context=other))
    other.check_hostname = False
    other.verify_mode = ssl.CERT_NONE
    with pytest.warns(InsecureConnectionWarning):
        _connects(_options(secure_kafka, ssl_context=other))


def test_a_client_certificate_in_a_context_is_explained(secure_kafka: RealKafka) -> None:
    context = ssl.create_default_context(cafile=str(secure_kafka.certificates / "ca.pem"))
    context.load_cert_chain(str(_STORES / "chain.pem"), str(_KEYS / "plain.key"))
    with (
        within(30),
        pytest.raises(KafkaConnectionError, match="in ssl_context cannot be used: give ssl_cert"),
    ):
        KafkaProducer(**_options(secure_kafka, "MUTUAL_TLS", ssl_context=context))


def test_our_own_context_shows_its_certificate(secure_kafka: RealKafka) -> None:
    """As in aiokafka's documentation."""
    context = create_ssl_context(
        cafile=secure_kafka.certificates / "ca.pem",
        certfile=_STORES / "chain.pem",
        keyfile=_KEYS / "scrypt.key",
        password=PASSWORD,
    )
    options = _options(secure_kafka, "MUTUAL_TLS", ssl_context=context)
    _connects(options)

    async def run() -> None:
        async with AIOKafkaProducer(**options) as producer:
            assert (await producer.send_and_wait("contexts", b"value")).offset >= 0

    asyncio.run(run())


def test_the_secrets_of_sessions_are_written_for_their_owner_only(
    secure_kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, unwanted = tmp_path / "keys.log", tmp_path / "environment.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(unwanted))
    options = _options(secure_kafka, ssl_cafile=str(secure_kafka.certificates / "ca.pem"))
    with pytest.warns(InsecureConnectionWarning, match="ssl_keylog_file"):
        _connects({**options, "ssl_keylog_file": keys})
    assert "CLIENT_TRAFFIC_SECRET_0 " in keys.read_text()
    assert keys.stat().st_mode & 0o777 == 0o600
    assert not unwanted.exists()
    keys.chmod(0o644)
    with (
        pytest.warns(InsecureConnectionWarning),
        pytest.raises(ValueError, match=r"ssl_keylog_file: .*is readable for other users"),
    ):
        KafkaProducer(**{**options, "ssl_keylog_file": keys})


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def test_changed_files_are_used_by_new_connections(
    secure_kafka: RealKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection closes when it is idle, and the next record needs another one."""
    caplog.set_level(logging.INFO, "thalweg.network")
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    _replace(cert, (secure_kafka.certificates / "client.pem").read_text())
    _replace(key, (secure_kafka.certificates / "client.key").read_text())
    options = _options(
        secure_kafka,
        "MUTUAL_TLS",
        ssl_cafile=str(secure_kafka.certificates / "ca.pem"),
        ssl_certfile=str(cert),
        ssl_keyfile=str(key),
        ssl_reload_interval_ms=1,
        request_timeout_ms=600,
        connections_max_idle_ms=700,
        delivery_timeout_ms=60_000,
        client_id="reloads",
    )

    def said(words: str) -> bool:
        return any(words in record.getMessage() for record in caplog.records)

    with KafkaProducer(**options) as producer:

        def sends_until(words: str) -> None:
            def sent_and_said() -> bool:
                assert producer.send("reloads", b"value").get(60).offset >= 0
                wait_until(lambda: _connections(producer) == 0)
                return said(words)

            wait_until(sent_and_said, 60)

        assert producer.send("reloads", b"value").get(60).offset >= 0
        # The certificate first: for a moment the key belongs to another one.
        _replace(cert, (_STORES / "chain.pem").read_text())
        sends_until("ssl_keyfile: the private key belongs to another certificate")
        _replace(key, (_KEYS / "plain.key").read_text())
        sends_until("the client has read them again")
        # A certificate that the broker refuses, which proves that the new ones are in use.
        _replace(cert, "nothing")
        sends_until("contains no PEM certificate")
    warnings = [each for each in caplog.records if "continues with the old" in each.getMessage()]
    assert len(warnings) == 2, "each problem is reported once"


def _connections(producer: KafkaProducer[bytes, bytes]) -> float:
    return float(producer.metrics()["producer-metrics"]["connection-count"])
