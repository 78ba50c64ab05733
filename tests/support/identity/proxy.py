"""An HTTP proxy on loopback, which records what goes through it."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


class HttpProxy:
    """Forwards plain requests and opens tunnels, until the end of a `with` block."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.logins: list[str] = []
        self.status = 200
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> HttpProxy:
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
    proxy: HttpProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        proxy = self.server.proxy
        self._note()
        self.close_connection = True
        if proxy.status != 200:
            self.send_response(proxy.status)
            self.end_headers()
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as target:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            _join(self.connection, target)

    def do_POST(self) -> None:
        self._note()
        self.close_connection = True
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = urlsplit(self.path)
        with socket.create_connection((parts.hostname, parts.port), 10) as target:
            head = f"POST {parts.path} HTTP/1.1\r\n{self.headers}"
            target.sendall(head.encode("latin-1") + body)
            _copy(target, self.connection)

    def _note(self) -> None:
        self.server.proxy.requests.append(f"{self.command} {self.path}")
        login = self.headers.get("Proxy-Authorization", "").removeprefix("Basic ")
        if login:
            self.server.proxy.logins.append(base64.b64decode(login).decode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Stays silent."""


def _join(one: socket.socket, other: socket.socket) -> None:
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
