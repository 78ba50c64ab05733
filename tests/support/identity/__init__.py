"""An identity provider on loopback (OpenID Connect), with scripted responses for tests.

    with IdentityProvider() as idp:
        idp.respond(status(503), status(429, {"Retry-After": "1"}))
        KafkaProducer(sasl_oauthbearer_token_endpoint_url=idp.token_url, ...)
        assert len(idp.requests) == 3

After its scripted responses it issues tokens. Every response is a function of the handler, so it
can also send what no identity provider would send.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from tests.support.identity.keys import EcKey, RsaKey, jwks

Response = Callable[["Handler"], None]


@dataclass
class Received:
    """A request that the provider got."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]
    at: float = field(default_factory=time.monotonic)

    @property
    def basic(self) -> str:
        """What the Authorization header has, decoded."""
        scheme, _, value = self.headers["authorization"].partition(" ")
        assert scheme == "Basic"
        return base64.b64decode(value).decode()


class IdentityProvider:
    """Responds to requests at /token, and at /jwks. It stops at the end of a `with` block."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.requests: list[Received] = []
        self.issued = 0
        self.life_s = 3600.0
        self.expires_in: float | None = None  # by default, the life
        self.claims: dict[str, Any] = {"sub": "alice"}
        self.key: RsaKey | EcKey | None = None  # what signs the tokens
        self.published: list[RsaKey | EcKey] = []  # what brokers get from /jwks
        self._script: deque[Response] = deque()
        self._server = _Server((host, 0), Handler)
        self._server.provider = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._scheme = "https" if tls else "http"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def token_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/jwks"

    def token(self, **more: Any) -> str:
        """Returns a new token. `more` replaces claims. A claim of None is left out."""
        self.issued += 1
        now = time.time()
        claims = {"iat": now - 1, "exp": now + self.life_s, "jti": str(self.issued), **self.claims}
        given = {name: each for name, each in (claims | more).items() if each is not None}
        return jwt(**given) if self.key is None else signed(self.key, given)

    def respond(self, *responses: Response) -> None:
        """Adds responses, which the next requests get, one each."""
        self._script.extend(responses)

    def forget_responses(self) -> None:
        """Drops the responses that no request has got."""
        self._script.clear()

    def next_response(self) -> Response:
        return self._script.popleft() if self._script else _issue

    def __enter__(self) -> IdentityProvider:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    provider: IdentityProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    """One connection. Responses use `send` or write to `wfile`."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self._take()

    def do_GET(self) -> None:
        if self.path == "/jwks":
            keys = json.dumps(jwks(*self.provider.published)).encode()
            self.send(200, keys, {"Content-Type": "application/json"})
        else:
            self._take()

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        provider = self.server.provider
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        provider.requests.append(Received(self.command, self.path, headers, form))
        self.close_connection = True
        provider.next_response()(self)

    @property
    def provider(self) -> IdentityProvider:
        return self.server.provider

    def send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Stays silent."""


def signed(key: RsaKey | EcKey, claims: dict[str, Any], **header: Any) -> str:
    """Returns a JWT with a signature."""
    from thalweg._core import sign_jwt

    given = {"alg": key.algorithm, "kid": key.kid, **header}
    head = {name: each for name, each in given.items() if each is not None}
    message = f"{_part(head)}.{_part(claims)}"
    signature = sign_jwt(key.algorithm, key.pem(), None, message.encode())
    return f"{message}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def jwt(**claims: Any) -> str:
    """Returns a JWT without a signature."""
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _issue(handler: Handler) -> None:
    """Responds with a token."""
    provider = handler.provider
    told = provider.life_s if provider.expires_in is None else provider.expires_in
    body = {"access_token": provider.token(), "expires_in": told, "token_type": "Bearer"}
    handler.send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def document(body: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a JSON document, or with the given bytes."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.send(code, encoded, headers)


def status(
    code: int, headers: dict[str, str] | None = None, error: str | None = None, text: str = ""
) -> Response:
    """A response without a token."""
    body = {"error": error, "error_description": text} if error else {}
    return document(body, code, headers)


def raw(*pieces: bytes, every_s: float = 0.0, end: threading.Event | None = None) -> Response:
    """A response of bytes. With `end`, the connection stays open until the test sets it."""

    def send(handler: Handler) -> None:
        for piece in pieces:
            handler.wfile.write(piece)
            if every_s:
                time.sleep(every_s)
        if end is not None:
            end.wait(60)

    return send


def endless(head: bytes, piece: bytes, every_s: float = 0.0) -> Response:
    """A response that never ends, until the client closes the connection."""

    def send(handler: Handler) -> None:
        handler.wfile.write(head)
        while True:
            handler.wfile.write(piece)
            if every_s:
                time.sleep(every_s)

    return send
