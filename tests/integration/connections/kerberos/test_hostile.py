"""An attacker between the client and a real broker changes the messages of GSSAPI."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.integration.support.clients import within
from tests.support.identity.kerberos import Realm, keytab, options_of
from tests.support.kafka.cluster import RealKafka
from thalweg import KafkaAdminClient
from thalweg.errors import SaslAuthenticationFailedError

pytestmark = pytest.mark.parametrize("kafka", ["kafka-4.3"], indirect=True)

# The responses of a broker, numbered: ApiVersions, SaslHandshake, then those of SaslAuthenticate.
PROOF, LAYERS = 2, 3
Change = Callable[[int, bytes], bytes]


@contextmanager
def between(kafka: RealKafka, change: Change) -> Iterator[tuple[str, list[bytes]]]:
    """Forwards a connection to the broker. Yields its address, and the requests of the client.

    Args:
        kafka: the broker.
        change: gets the number and the content of each response, and returns what the client gets.
    """
    host, port = kafka.bootstrap("SASL_PLAINTEXT").split(":")
    requests: list[bytes] = []

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as broker, suppress(OSError):
            number = 0
            while request := _frame(client):
                requests.append(request)
                broker.sendall(struct.pack(">i", len(request)) + request)
                response = change(number, _frame(broker))
                client.sendall(struct.pack(">i", len(response)) + response)
                number += 1

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"localhost:{listener.getsockname()[1]}", requests
        listener.shutdown(socket.SHUT_RDWR)
    accepting.join()


def _frame(connection: socket.socket) -> bytes:
    head = _exactly(connection, 4)
    return _exactly(connection, *struct.unpack(">i", head)) if head else b""


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := connection.recv(size - len(found))):
        found += part
    return found if len(found) == size else b""


def at(wanted: int, change: Callable[[bytes], bytes]) -> Change:
    """Changes the response with a number."""
    return lambda number, response: change(response) if number == wanted else response


def flipped(response: bytes) -> bytes:
    """Changes a bit near the end of the token. The lifetime of the session follows it."""
    place = len(response) - 20
    return response[:place] + bytes([response[place] ^ 1]) + response[place + 1 :]


def with_token(response: bytes, token: bytes) -> bytes:
    """Replaces the token of a response to SaslAuthenticate version 2, which is flexible."""
    # The correlation ID, no tags; then the error code, no message, the token, the lifetime.
    length = len(token) + 1
    compact = b""
    while length > 0x7F:
        compact += bytes([length & 0x7F | 0x80])
        length >>= 7
    compact += bytes([length])
    return response[:5] + b"\0\0\0" + compact + token + bytes(8) + b"\0"


NONSENSE = [b"\x60\x82", b"\x60\x84\xff\xff\xff\xff" + bytes(64), bytes(1000), b"\xff" * 60_000]


@pytest.mark.parametrize("stage", [PROOF, LAYERS])
def test_a_changed_message_is_refused(kafka: RealKafka, realm: Realm, stage: int) -> None:
    """Scenario 88."""
    text, requests = _refused(kafka, realm, at(stage, flipped))
    assert "the broker does not prove that it is the service kafka@localhost: " in text
    assert "a broker that you trust" in text
    # Nothing follows the refusal.
    assert len(requests) == stage + 1


@pytest.mark.parametrize("token", NONSENSE, ids=len)
@pytest.mark.parametrize("stage", [PROOF, LAYERS])
def test_nonsense_is_refused(kafka: RealKafka, realm: Realm, stage: int, token: bytes) -> None:
    """Scenario 88."""
    text, requests = _refused(kafka, realm, at(stage, lambda seen: with_token(seen, token)))
    assert "the broker does not prove that it is the service kafka@localhost: " in text
    assert len(requests) == stage + 1


@pytest.mark.parametrize(
    "token, words",
    [(b"", "it sent no Kerberos token"), (bytes(70_000), "its token of 70000 bytes is longer")],
    ids=["empty", "long"],
)
def test_a_token_of_an_impossible_length_is_refused(
    kafka: RealKafka, realm: Realm, token: bytes, words: str
) -> None:
    """Scenario 88."""
    text, _ = _refused(kafka, realm, at(PROOF, lambda seen: with_token(seen, token)))
    assert words in text


def test_a_message_of_another_connection_is_refused(kafka: RealKafka, realm: Realm) -> None:
    """Scenario 88: the response to another ticket of the same client."""
    seen: list[bytes] = []

    def keep(number: int, response: bytes) -> bytes:
        seen.extend([response] if number == PROOF else [])
        return response

    with (
        between(kafka, keep) as (address, _),
        KafkaAdminClient(**options_of(kafka, **keytab(realm), bootstrap_servers=address)),
    ):
        assert seen
    text, _ = _refused(kafka, realm, at(PROOF, lambda _: seen[0]))
    assert "the broker does not prove that it is the service" in text


def _refused(kafka: RealKafka, realm: Realm, change: Change) -> tuple[str, list[bytes]]:
    with (
        between(kafka, change) as (address, requests),
        within(30),
        pytest.raises(SaslAuthenticationFailedError) as caught,
    ):
        KafkaAdminClient(**options_of(kafka, **keytab(realm), bootstrap_servers=address))
    assert caught.value.by_client
    return str(caught.value), requests
