"""A proxy in front of a broker that drops responses, for tests of how a client reacts.

    with RealKafka("4.3", proxied=True) as kafka, Proxies(kafka) as proxies:
        producer = KafkaProducer(bootstrap_servers=proxies.bootstrap_servers)
        proxies.lose_responses()    # from now on no response reaches a client
        kafka.stop_node(1)
        proxies.pass_on()

If a broker is down, it refuses connections. Its proxy then closes each connection that it accepts.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.kafka.cluster import RealKafka

_CHUNK = 1 << 16


class Proxies:
    """One proxy for each node of a cluster that was started with `proxied=True`."""

    def __init__(self, kafka: RealKafka) -> None:
        self._passes = threading.Event()
        self._passes.set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._servers = []
        for node in kafka.nodes:
            server = socket.create_server(("127.0.0.1", node.advertised["PROXIED"]))
            self._servers.append(server)
            target = node.ports["PROXIED"]
            threading.Thread(target=self._accept, args=(server, target), daemon=True).start()
        ports = [server.getsockname()[1] for server in self._servers]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)

    def __enter__(self) -> Proxies:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lose_responses(self) -> None:
        """Drops all responses from now on. Brokers still get the requests."""
        self._passes.clear()

    def pass_on(self) -> None:
        """Breaks all connections. New connections get their responses."""
        with self._lock:  # a connection between the two would lose a response and stay open
            self._break()
            self._passes.set()

    def disconnect(self) -> None:
        """Breaks all connections."""
        with self._lock:
            self._break()

    def _break(self) -> None:
        for each in self._open:
            # shutdown() wakes the thread that reads from the socket. close() does not.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stops listening and breaks all connections."""
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
        self.disconnect()

    def _accept(self, server: socket.socket, target: int) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, target), daemon=True).start()

    def _serve(self, client: socket.socket, target: int) -> None:
        with client:
            try:
                broker = socket.create_connection(("127.0.0.1", target))
            except OSError:
                return
            with broker:
                both = {client, broker}
                with self._lock:
                    self._open |= both
                responses = threading.Thread(
                    target=self._pump, args=(broker, client, True), daemon=True
                )
                responses.start()
                self._pump(client, broker, False)
                responses.join()
                with self._lock:
                    self._open -= both

    def _pump(self, source: socket.socket, sink: socket.socket, are_responses: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if self._passes.is_set() or not are_responses:
                    sink.sendall(chunk)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
