"""Which bytes leave a client that has a password: hostile peers H7 and H10."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.support.canary import SENTINEL, forms
from tests.support.identity.tls import certificates, server_context
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.errors import KafkaError

LOGIN = {
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": SENTINEL,
}
CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]


class Recorder:
    """Keeps what clients send, decrypted, and closes the connection after the first bytes."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.server, self.tls = socket.create_server(("127.0.0.1", 0)), tls
        self.received: list[bytes] = []
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            with suppress(OSError), connection:
                connection.settimeout(5)
                if self.tls is not None:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                with connection:
                    self.received.append(connection.recv(65536))


@contextmanager
def recorder(tls: ssl.SSLContext | None) -> Iterator[Recorder]:
    made = Recorder(tls)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown(socket.SHUT_RDWR)
        made.server.close()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*without effect")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_sasl_no_byte_of_a_password_leaves_the_client(protocol: str, client: Any) -> None:
    with recorder(server_context() if protocol == "SSL" else None) as peer:
        options = {"security_protocol": protocol, "bootstrap_timeout_ms": 300, **LOGIN}
        if protocol == "SSL":
            options["ssl_cafile"] = str(certificates() / "ca.pem")

        def is_heard() -> bool:
            with pytest.raises(KafkaError):
                client(bootstrap_servers=peer.address, **options)
            return any(peer.received)  # the time may be too short for a busy machine

        wait_until(is_heard)
    sent = b"".join(peer.received).decode("latin-1")
    assert sent
    assert not [form for form in forms(SENTINEL) if form in sent]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_scram_never_sends_its_password_to_a_broker_that_wants_it(
    client: Any, start_embedded: Callable[..., EmbeddedBroker]
) -> None:
    """The broker offers only PLAIN."""
    users = {"alice": "other"}
    broker = start_embedded(
        security_protocol="SASL_PLAINTEXT", users=users, sasl_mechanisms=["PLAIN"]
    )
    options = {**LOGIN, "sasl_mechanism": "SCRAM-SHA-512", "security_protocol": "SASL_PLAINTEXT"}
    with pytest.raises(KafkaError, match="PLAIN"):
        client(bootstrap_servers=broker.bootstrap_servers, **options)
    assert broker.requests("SaslAuthenticate") == {}
