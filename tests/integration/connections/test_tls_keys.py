"""Encrypted keys and PKCS12 stores, on a real Kafka that wants certificates of its clients."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from tests.integration.support.clients import within
from tests.support.kafka import certificates
from tests.support.kafka.cluster import RealKafka
from thalweg import KafkaAdminClient, KafkaProducer, Secret
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import KafkaConfigurationError

_STORES = certificates.OPENSSL_CLIENTS.parent
_KEYS = _STORES.parent / "keys"
_CERTIFICATE = {"ssl_certfile": str(_STORES / "chain.pem")}
PASSWORD = "correct horse"
WRONG = "not-the-password-4711"


def _options(kafka: RealKafka, **changes: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap("MUTUAL_TLS"),
        "security_protocol": "SSL",
        "bootstrap_timeout_ms": 60_000,
        "ssl_cafile": str(kafka.certificates / "ca.pem"),
        **changes,
    }


@pytest.fixture
def encrypted_key() -> dict[str, Any]:
    """Options for a certificate whose key is encrypted."""
    return {**_CERTIFICATE, "ssl_keyfile": str(_KEYS / "scrypt.key")}


def _logs_in(options: dict[str, Any]) -> None:
    with KafkaAdminClient(**options) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize(
    "name",
    [
        *("3des", "aes128-sha1", "aes192-sha512", "aes256-sha256", "aes256-sha384"),
        *("pbe-2des", "pbe-3des", "pbe-rc2-128", "pbe-rc2-40", "plain", "scrypt"),
    ],
)
def test_a_key_of_every_kind_logs_in(secure_kafka: RealKafka, name: str) -> None:
    """OpenSSL encrypted them."""
    key = str(_KEYS / f"{name}.key")
    _logs_in(_options(secure_kafka, **_CERTIFICATE, ssl_keyfile=key, ssl_password=PASSWORD))


@pytest.mark.parametrize("name", ["keytool", "keytool-old", "openssl1", "openssl3"])
def test_a_store_of_every_kind_logs_in(secure_kafka: RealKafka, name: str) -> None:
    """The old ones are encrypted with RC2 and SHA-1, the new ones with AES and SHA-256."""
    store = str(_STORES / f"{name}.p12")
    _logs_in(_options(secure_kafka, ssl_certfile=store, ssl_password=PASSWORD))
    # As a Java client is configured.
    settings = {
        "bootstrap.servers": secure_kafka.bootstrap("MUTUAL_TLS"),
        "security.protocol": "SSL",
        "ssl.keystore.location": store,
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(secure_kafka.certificates / "truststore.p12"),
        "ssl.truststore.password": certificates.PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }
    with KafkaProducer.from_config(settings) as producer:
        assert producer.bootstrap_connected()


def test_a_certificate_of_the_old_version_logs_in(secure_kafka: RealKafka) -> None:
    """OpenSSL issues such certificates if no extensions are requested."""
    certificate = str(_STORES / "version1.pem")
    key = str(_KEYS / "plain.key")
    _logs_in(_options(secure_kafka, ssl_certfile=certificate, ssl_keyfile=key))


@pytest.mark.parametrize("wrong", [WRONG, Secret(WRONG), WRONG.encode(), lambda: WRONG, None])
def test_a_wrong_password_is_named_and_not_shown(
    secure_kafka: RealKafka, encrypted_key: dict[str, Any], wrong: Any
) -> None:
    options = _options(secure_kafka, **encrypted_key, ssl_password=wrong)
    with pytest.raises(KafkaConfigurationError, match=r"ssl_keyfile: .*ssl_password") as caught:
        KafkaProducer(**options)
    assert str(encrypted_key["ssl_keyfile"]) in str(caught.value)
    assert WRONG not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("given", [PASSWORD, PASSWORD.encode(), Secret(PASSWORD)])
def test_a_password_may_come_from_a_function(
    secure_kafka: RealKafka, encrypted_key: dict[str, Any], given: Any
) -> None:
    threads: list[threading.Thread] = []

    def password() -> Any:
        threads.append(threading.current_thread())
        return given

    _logs_in(_options(secure_kafka, **encrypted_key, ssl_password=password))
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_what_the_function_raises_is_the_cause(
    secure_kafka: RealKafka, encrypted_key: dict[str, Any]
) -> None:
    def password() -> str:
        raise LookupError(WRONG)

    options = _options(secure_kafka, **encrypted_key, ssl_password=password)
    with pytest.raises(KafkaConfigurationError, match="ssl_password raised LookupError") as caught:
        KafkaProducer(**options)
    assert isinstance(caught.value.__cause__, LookupError)
    assert WRONG not in str(caught.value)
    options["ssl_password"] = lambda: 4711
    expected = "ssl_password must return a str or bytes, not int"
    with pytest.raises(KafkaConfigurationError, match=expected) as caught:
        KafkaProducer(**options)
    assert "4711" not in str(caught.value)


def test_ctrl_c_ends_the_wait_for_a_password(
    secure_kafka: RealKafka, encrypted_key: dict[str, Any]
) -> None:
    end = threading.Event()

    def password() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        end.wait(60)
        return PASSWORD

    options = _options(secure_kafka, **encrypted_key, ssl_password=password)
    options["socket_connection_setup_timeout_ms"] = 60_000
    # A process that a shell has started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with within(30), pytest.raises(KeyboardInterrupt):
            KafkaProducer(**options)
    finally:
        signal.signal(signal.SIGINT, before)
        end.set()


def test_a_function_that_hangs_does_not_block_the_event_loop(
    secure_kafka: RealKafka, encrypted_key: dict[str, Any]
) -> None:
    called, end = threading.Event(), threading.Event()

    def password() -> str:
        called.set()
        end.wait(60)
        return PASSWORD

    options = _options(secure_kafka, **encrypted_key, ssl_password=password)
    options["socket_connection_setup_timeout_ms"] = 60_000

    async def run() -> None:
        producer = AIOKafkaProducer(**options)
        starting = asyncio.create_task(producer.start())
        async with asyncio.timeout(40):
            while not called.is_set():
                await asyncio.sleep(0.01)
        assert not starting.done()
        end.set()
        await starting
        await producer.stop()

    asyncio.run(run())
    end.clear()
    options["socket_connection_setup_timeout_ms"] = 200
    options["socket_connection_setup_timeout_max_ms"] = 200
    with (
        within(20),
        pytest.raises(
            KafkaConfigurationError,
            match=r"ssl_password: the function returned no password within 0\.2 s",
        ),
    ):
        KafkaProducer(**options)
    end.set()
