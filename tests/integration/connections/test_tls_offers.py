"""What a client offers and shows to a real Kafka: TLS versions, cipher suites, its certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.clients import within
from tests.support.kafka.cluster import RealKafka
from thalweg import KafkaAdminClient, KafkaProducer
from thalweg.config import InsecureConnectionWarning
from thalweg.errors import KafkaConnectionError


def _options(kafka: RealKafka, listener: str = "SSL", **changes: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SSL",
        "bootstrap_timeout_ms": 60_000,
        "ssl_cafile": str(kafka.certificates / "ca.pem"),
        **changes,
    }


def _connects(options: dict[str, Any]) -> None:
    with KafkaAdminClient(**options) as admin:
        assert admin.bootstrap_connected()


def _refused(options: dict[str, Any], *parts: str) -> None:
    with within(30), pytest.raises(KafkaConnectionError) as caught:
        KafkaProducer(**options)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize(
    "configs, other",
    [
        (
            {"ssl.enabled.protocols": "TLSv1.2"},
            {"ssl_enabled_protocols": "TLSv1.3"},
        ),
        (
            {"ssl.enabled.protocols": "TLSv1.3"},
            {"ssl_enabled_protocols": "TLSv1.2"},
        ),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            {"ssl_ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"},
        ),
    ],
    ids=["only TLS 1.2", "only TLS 1.3", "only one suite"],
)
def test_a_broker_with_one_version_or_one_suite(
    start_kafka: Callable[..., RealKafka], configs: dict[str, str], other: dict[str, str]
) -> None:
    kafka = start_kafka("4.3", secure=True, configs=configs)
    _connects(_options(kafka))
    (name,) = other
    _refused(_options(kafka, **other), "the client offers", f"({name})")


@pytest.mark.parametrize(
    "offer",
    [
        {"ssl_enabled_protocols": "TLSv1.2"},
        {"ssl_enabled_protocols": "TLSv1.3"},
        {"ssl_ciphers": "TLS_CHACHA20_POLY1305_SHA256"},
        {"ssl_ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"},
        {"ssl_curves_list": "P-384"},
        {"ssl_curves_list": "P-256", "ssl_enabled_protocols": "TLSv1.2"},
    ],
)
def test_a_client_that_offers_little(secure_kafka: RealKafka, offer: dict[str, str]) -> None:
    _connects(_options(secure_kafka, **offer))


def test_without_verification_any_authority_will_do(secure_kafka: RealKafka) -> None:
    other = str(secure_kafka.certificates / "other-ca.pem")
    options = _options(secure_kafka, ssl_cafile=other)
    _refused(options, "its issuer is unknown", "CN=thalweg test authority", other)
    del options["ssl_cafile"]
    with pytest.warns(InsecureConnectionWarning, match="ssl_verify=False"):
        _connects({**options, "ssl_verify": False})


def test_authorities_in_a_folder(secure_kafka: RealKafka, tmp_path: Path) -> None:
    for name in ("ca.pem", "other-ca.pem"):
        (tmp_path / name).write_bytes((secure_kafka.certificates / name).read_bytes())
    (tmp_path / "README").write_text("nothing")
    _connects(_options(secure_kafka, ssl_cafile=tmp_path))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_refused_client_learns_which_certificate_it_showed(
    secure_kafka: RealKafka, version: str
) -> None:
    options = _options(secure_kafka, "MUTUAL_TLS", ssl_enabled_protocols=version)
    _refused(options, "the client has none: set ssl_certfile and ssl_keyfile")
    # Kafka names the authorities that it trusts.
    own = secure_kafka.certificates / "other-ca.p12"
    options |= {"ssl_certfile": str(own), "ssl_password": "changeit"}
    _refused(options, "did not send its own, CN=another authority", "one of 2 authorities")
