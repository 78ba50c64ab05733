"""A man in the middle, who passes on what he gets and keeps what clients send."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16


class Relay:
    """Listens on loopback, and passes each connection on to a broker.

    Attributes:
        address: Where it listens.
        received: What clients have sent, decrypted.
    """

    def __init__(self, target: str, context: ssl.SSLContext | None) -> None:
        """Begins to listen.

        Args:
            target: The broker's address.
            context: With it, the relay shows this certificate to clients, and speaks TLS with the
                broker.
        """
        host, port = target.rsplit(":", 1)
        self._target, self._context = (host, int(port)), context
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.received = bytearray()
        self.refusals = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Closes all connections."""
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                try:
                    client = self._context.wrap_socket(client, server_side=True)
                    # With TLS 1.3, a server hears of a refusal only when it reads.
                    first = client.recv(_CHUNK)
                except OSError:
                    self.refusals += 1
                    raise
            else:
                first = client.recv(_CHUNK)
            broker = socket.create_connection(self._target)
            if self._context is not None:
                blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
                broker = blind.wrap_socket(broker)
            self._open += [client, broker]
            self.received += first
            broker.sendall(first)
            back = threading.Thread(target=self._copy, args=(broker, client, None), daemon=True)
            back.start()
            self._copy(client, broker, self.received)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, kept: bytearray | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if kept is not None:
                    kept += data
                target.sendall(data)


@contextlib.contextmanager
def relay(target: str, context: ssl.SSLContext | None = None) -> Iterator[Relay]:
    """Runs a relay until the end of the block."""
    made = Relay(target, context)
    try:
        yield made
    finally:
        made.close()
