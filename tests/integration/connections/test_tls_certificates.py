"""Certificates of every kind, which a real Kafka gets while it runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.kafka.certificates import PASSWORD, issue
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaProducer
from thalweg.admin import ConfigResource

KINDS = {
    "rsa-2048": ("RSA", "-keysize", "2048"),
    "rsa-3072": ("RSA", "-keysize", "3072"),
    "rsa-4096": ("RSA", "-keysize", "4096"),
    "p-384": ("EC", "-groupname", "secp384r1"),
    "ed25519": ("Ed25519",),
    "chain": ("EC", "-groupname", "secp256r1"),
}


def test_a_broker_gets_certificates_of_every_kind_while_it_runs(
    start_kafka: Callable[..., RealKafka], tmp_path: Path
) -> None:
    """A producer works all the time. Its connections close when they are idle.

    Of a chain, the client knows only the root.
    """
    kafka = start_kafka("4.3", secure=True)
    (node,) = kafka.nodes
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap("SSL"),
        "security_protocol": "SSL",
        "ssl_cafile": str(kafka.certificates / "ca.pem"),
        "bootstrap_timeout_ms": 60_000,
    }
    idle = {"request_timeout_ms": 900, "connections_max_idle_ms": 1000}
    idle |= {"delivery_timeout_ms": 60_000}
    with (
        KafkaAdminClient(bootstrap_servers=kafka.bootstrap("PLAINTEXT")) as admin,
        KafkaProducer(**options | idle) as producer,
    ):
        for name, key in KINDS.items():
            folder = tmp_path / name
            folder.mkdir()
            store = issue(kafka.certificates, folder, name, key, between=name == "chain")
            is_changed = changed(node.ports["SSL"])
            changes = {"location": str(store), "password": PASSWORD, "type": "PKCS12"}
            configs = {
                f"listener.name.ssl.ssl.keystore.{part}": value for part, value in changes.items()
            }
            configs["listener.name.ssl.ssl.key.password"] = PASSWORD
            resource = ConfigResource("broker", str(node.node_id), configs)
            result = admin.alter_configs([resource], raise_on_unknown=False)
            assert result == {"broker": {str(node.node_id): "OK"}}
            wait_until(is_changed, 60)
            for version in ("TLSv1.2", "TLSv1.3"):
                with KafkaAdminClient(**options, ssl_enabled_protocols=version) as connected:
                    assert connected.bootstrap_connected(), (name, version)
            wait_until(lambda: connections(producer) == 0)
            assert producer.send("certificates", name.encode()).get(60).offset >= 0


def changed(port: int) -> Callable[[], bool]:
    """Returns a function that says whether the listener shows another certificate than now."""

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)

    before = shown()
    return lambda: shown() != before


def connections(producer: Any) -> float:
    return float(producer.metrics()["producer-metrics"]["connection-count"])
