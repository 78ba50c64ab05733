"""A front of Amazon MSK for a real Kafka: TLS, and AWS_MSK_IAM with given keys.

    with RealKafka("4.3", proxied=True) as kafka, MskFront(kafka, {"AKID": "secret"}) as front:
        KafkaProducer(bootstrap_servers=front.bootstrap_servers, sasl_mechanism="AWS_MSK_IAM", ...)

It responds to SaslHandshake and SaslAuthenticate, and passes all other requests of a connection
that has logged in on to Kafka.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any

from tests.support.identity.tls import server_context
from tests.support.kafka.cluster import RealKafka
from thalweg.auth.aws import Credentials
from thalweg.auth.sigv4 import presigned

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_FAILED, _UNSUPPORTED = 58, 33


class MskFront:
    """Listens on the advertised port of each node. It stops at the end of a `with` block.

    Args:
        kafka: a cluster with `proxied=True`.
        keys: the secret keys by the IDs of the access keys.
        session_ms: how long a session lasts.
        response: what a broker says to a good login.
    """

    def __init__(
        self,
        kafka: RealKafka,
        keys: dict[str, str],
        *,
        session_ms: int = 0,
        response: bytes = b'{"version":"2020_10_22","request-id":"1-2"}',
    ) -> None:
        self.keys, self.session_ms, self.response = keys, session_ms, response
        self.logins: list[dict[str, Any]] = []
        self._context = server_context()
        self._servers = []
        for node in kafka.nodes:
            server = socket.create_server(("127.0.0.1", node.advertised["PROXIED"]))
            self._servers.append(server)
            target = node.ports["PROXIED"]
            threading.Thread(target=self._accept, args=(server, target), daemon=True).start()
        ports = [server.getsockname()[1] for server in self._servers]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)

    def __enter__(self) -> MskFront:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()

    def problem(self, login: dict[str, Any], host: str) -> str | None:
        """Returns why a login is refused, or None."""
        access_key, _, scope = login.get("x-amz-credential", "").partition("/")
        secret = self.keys.get(access_key)
        if secret is None or login.get("host") != host:
            return "Access denied"
        try:
            then = time.strptime(login["x-amz-date"], "%Y%m%dT%H%M%SZ")
        except (KeyError, ValueError):
            return "Invalid date"
        region = scope.split("/")[1]
        token = login.get("x-amz-security-token")
        now = _seconds(then)
        signed = presigned(host, region, Credentials(access_key, secret, token), now)
        expected = {name.lower(): value for name, value in signed.items()}
        if abs(time.time() - now) > 900 or not expected.items() <= login.items():
            return "Access denied"
        return None

    def _accept(self, server: socket.socket, target: int) -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(accepted, target), daemon=True).start()

    def _serve(self, accepted: socket.socket, target: int) -> None:
        with contextlib.suppress(OSError, struct.error), accepted:
            client = self._context.wrap_socket(accepted, server_side=True)
            with client, socket.create_connection(("127.0.0.1", target)) as kafka:
                self._requests(client, kafka)

    def _requests(self, client: socket.socket, kafka: socket.socket) -> None:
        logged_in = False
        while (frame := _frame(client)) is not None:
            api, version, correlation = struct.unpack_from(">hhi", frame)
            if api == _HANDSHAKE:
                _send(client, correlation, _handshake(frame))
            elif api == _AUTHENTICATE:
                problem = self._login(frame, version)
                body = _authenticated(version, problem, self.response, self.session_ms)
                _send(client, correlation, body, flexible=version >= 2)
                logged_in = problem is None
                if not logged_in:
                    return
            elif api == _API_VERSIONS or logged_in:
                kafka.sendall(struct.pack(">i", len(frame)) + frame)
                if (response := _frame(kafka)) is None:
                    return
                client.sendall(struct.pack(">i", len(response)) + response)
            else:
                return

    def _login(self, frame: bytes, version: int) -> str | None:
        # After the header and the client ID comes the message, which is all that is left.
        login = json.loads(frame[frame.index(b"{") : frame.rindex(b"}") + 1])
        self.logins.append(login)
        return self.problem(login, "127.0.0.1")


def _seconds(given: time.struct_time) -> float:
    import calendar

    return float(calendar.timegm(given))


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    return None if head is None else _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        piece = source.recv(count - len(found))
        if not piece:
            return None
        found += piece
    return found


def _send(client: socket.socket, correlation: int, body: bytes, flexible: bool = False) -> None:
    head = struct.pack(">i", correlation) + (b"\0" if flexible else b"")
    client.sendall(struct.pack(">i", len(head + body)) + head + body)


def _handshake(frame: bytes) -> bytes:
    code = 0 if frame.endswith(b"AWS_MSK_IAM") else _UNSUPPORTED
    return struct.pack(">hih", code, 1, 11) + b"AWS_MSK_IAM"


def _authenticated(version: int, problem: str | None, response: bytes, session_ms: int) -> bytes:
    code, data = (0, response) if problem is None else (_FAILED, b"")
    if version >= 2:
        text = b"\0" if problem is None else _varint(len(problem) + 1) + problem.encode()
        body = struct.pack(">h", code) + text + _varint(len(data) + 1) + data
        return body + struct.pack(">q", session_ms) + b"\0"
    text = b"\xff\xff" if problem is None else struct.pack(">h", len(problem)) + problem.encode()
    return (
        struct.pack(">h", code)
        + text
        + struct.pack(">i", len(data))
        + data
        + struct.pack(">q", session_ms)
    )


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])
