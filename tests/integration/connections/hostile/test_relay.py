"""Hostile peer H11: a man in the middle relays SCRAM to the real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.connections.hostile.relay import relay
from tests.support.canary import SENTINEL, forms
from tests.support.identity.tls import certificates, server_context
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.errors import KafkaError

CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
LOGIN: dict[str, Any] = {
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "alice",
    "sasl_plain_password": SENTINEL,
    "bootstrap_timeout_ms": 30_000,
}


def secure(start: Callable[..., EmbeddedBroker], protocol: str) -> EmbeddedBroker:
    mechanisms = ["SCRAM-SHA-512"]
    return start(security_protocol=protocol, sasl_mechanisms=mechanisms, users={"alice": SENTINEL})


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("certificate", ["wrong-host", "server"])
def test_scenario_109_tls_stops_who_has_another_certificate(
    certificate: str, client: Any, start_embedded: Callable[..., EmbeddedBroker]
) -> None:
    """The relay sends a certificate for another host, or one of an unknown authority."""
    broker = secure(start_embedded, "SASL_SSL")
    trusted = certificates() / ("ca.pem" if certificate == "wrong-host" else "other-ca.pem")
    with relay(broker.bootstrap_servers, server_context(certificate)) as middle:
        with pytest.raises(KafkaError, match="certificate"):
            client(
                bootstrap_servers=middle.address.replace("127.0.0.1", "localhost"),
                security_protocol="SASL_SSL",
                ssl_cafile=str(trusted),
                **LOGIN,
            )
        wait_until(lambda: middle.refusals, what="the refusal")
        assert not middle.received
    assert broker.requests("SaslAuthenticate") == {}


def test_scenario_109_without_tls_he_reads_all_but_the_password(
    start_embedded: Callable[..., EmbeddedBroker],
) -> None:
    """docs/security.md says so. What he relays is a session of alice."""
    broker = secure(start_embedded, "SASL_PLAINTEXT")
    with (
        relay(broker.bootstrap_servers) as middle,
        KafkaAdminClient(
            bootstrap_servers=middle.address, security_protocol="SASL_PLAINTEXT", **LOGIN
        ) as admin,
    ):
        assert admin.bootstrap_connected()
        sent = bytes(middle.received).decode("latin-1")
    assert "n=alice" in sent
    assert not [form for form in forms(SENTINEL) if form in sent]
