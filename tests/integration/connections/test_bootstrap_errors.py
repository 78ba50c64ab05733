"""Bad bootstrap servers: every client raises an error in bounded time, with each cause."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import KafkaConnectionError, KafkaTimeoutError, NoBrokersAvailable

CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
TIMEOUT_MS = 1500
LIMIT_S = 20


def _fails(
    client: Callable[..., Any], servers: Any, words: str = "", **options: Any
) -> NoBrokersAvailable:
    """Returns the error of a client. If the machine pauses, it needs more time for `words`."""
    # A single attempt would take longer than the limit.
    options = {"socket_connection_setup_timeout_ms": 60_000, **options}
    for timeout_ms in (options.pop("bootstrap_timeout_ms", TIMEOUT_MS), 5000, 20_000):
        with within(LIMIT_S + timeout_ms / 1000), pytest.raises(NoBrokersAvailable) as caught:
            client(bootstrap_servers=servers, bootstrap_timeout_ms=timeout_ms, **options)
        if re.search(words, str(caught.value), re.IGNORECASE):
            break
    return caught.value


@pytest.mark.parametrize("client", CLIENTS)
def test_a_closed_port_is_named_with_its_cause(client: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    error = _fails(client, address, "refused")
    assert list(error.addresses) == [address]
    assert "refused" in error.addresses[address].lower()
    assert address in str(error)
    assert isinstance(error, KafkaTimeoutError)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_host_without_address_is_named(client: Any) -> None:
    """Scenario 23."""
    address = "no-such-host.invalid:9092"
    error = _fails(client, address)
    assert list(error.addresses) == [address]
    assert "no-such-host.invalid" in str(error)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_address_is_named(client: Any) -> None:
    addresses = [f"127.0.0.1:{free_port()}", "no-such-host.invalid:9092"]
    error = _fails(client, addresses)
    assert sorted(error.addresses) == sorted(addresses)
    assert all(each in str(error) for each in addresses)


@pytest.fixture
def http_port() -> Iterator[int]:
    """A web server."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_web_servers_port_ends_in_time(http_port: int, client: Any) -> None:
    """The web server waits for the end of a line, which no request of the client has."""
    error = _fails(client, f"127.0.0.1:{http_port}")
    assert list(error.addresses) == [f"127.0.0.1:{http_port}"]


def test_a_frame_of_impossible_size_is_refused_with_a_hint() -> None:
    """A web server's response, read as a frame, has a size of a gigabyte: nothing is allocated."""

    def web(connected: socket.socket) -> None:
        connected.recv(1000)
        connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with _server(web) as port:
        error = _fails(KafkaProducer, f"127.0.0.1:{port}", "HTTP")
    assert "HTTP" in str(error)


def test_a_tls_port_spoken_to_without_tls_fails_at_once_with_a_hint(
    secure_kafka: RealKafka,
) -> None:
    """Scenario 9."""
    # Trying again cannot help, so the client does not wait for bootstrap_timeout_ms.
    with within(30), pytest.raises(KafkaConnectionError, match="security_protocol"):
        KafkaProducer(bootstrap_servers=secure_kafka.bootstrap("SSL"), bootstrap_timeout_ms=60_000)


def test_tls_to_a_plain_port_fails_in_time(broker: Broker) -> None:
    error = _fails(KafkaProducer, broker.bootstrap_servers, security_protocol="SSL")
    assert broker.bootstrap_servers in str(error)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_port_that_never_responds_ends_in_time(client: Any) -> None:
    with _server(lambda connected: connected.recv(1)) as port:
        error = _fails(client, f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in str(error)


def _aio(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Makes and starts an asyncio client in one call."""

    def call(**options: Any) -> None:
        async def start() -> None:
            client = kind(**options)
            try:
                await client.start()
            finally:
                await client.stop()

        asyncio.run(start())

    return call


@pytest.mark.parametrize("client", [*CLIENTS, _aio(AIOKafkaProducer), _aio(AIOKafkaConsumer)])
def test_a_port_that_accepts_and_says_nothing_is_named_as_such(client: Callable[..., Any]) -> None:
    with _server(lambda connected: connected.recv(1)) as port:
        address = f"127.0.0.1:{port}"
        for when, setup_timeout_ms in ((" yet", 60_000), (r" within \d+ ms", 300)):
            wanted = (
                rf"{address}: accepted the connection, but"
                rf" (has not responded to|did not respond to) ApiVersions{when}\. Perhaps this is a"
                r" TLS port \(set security_protocol\), or not a Kafka broker"
            )
            error = _fails(
                client, address, wanted, socket_connection_setup_timeout_ms=setup_timeout_ms
            )
            assert re.search(wanted, str(error)), str(error)


def test_a_port_that_does_not_respond_to_tls_is_named_as_such() -> None:
    with _server(lambda connected: connected.recv(1)) as port:
        words = "has not responded to the TLS handshake yet"
        error = _fails(KafkaProducer, f"127.0.0.1:{port}", words, security_protocol="SSL")
    assert words in str(error)


def test_log_lines_about_connections_name_the_client_and_the_broker(
    start_embedded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_embedded()
    broker.create_topic("logged")
    with caplog.at_level(logging.DEBUG, "thalweg.network"):
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="app-7")
        try:
            producer.send("logged", b"v").get(30)
            (node,) = broker.nodes
            address = broker.bootstrap_servers
            opening = f"client app-7: the connection to node {node} at {address}: opening"
            wait_until(lambda: opening in caplog.messages)
            broker.stop_node(node)
            lost = f"client app-7: the connection to node {node} at {address} was lost: "
            wait_until(lambda: any(each.startswith(lost) for each in caplog.messages))
            # With nothing to send, only the bootstrap address may be tried.
            producer.send("logged", b"w")
            failed = f"client app-7: the connection to node {node} at {address} failed: "
            wait_until(lambda: any(each.startswith(failed) for each in caplog.messages))
        finally:
            producer.close(0)


def test_a_port_that_closes_at_once_ends_in_time() -> None:
    with _server(lambda connected: None, hold=False) as port:
        _fails(KafkaProducer, f"127.0.0.1:{port}")


def test_one_good_address_is_enough(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("oneisenough")
    servers = [
        f"127.0.0.1:{free_port()}",
        "no-such-host.invalid:9092",
        *broker.bootstrap_servers.split(","),
    ]
    with within(25), KafkaProducer(bootstrap_servers=servers) as producer:
        assert producer.send(topic, b"value").get(20).offset == 0


def test_a_broker_that_comes_up_late_is_found(start_embedded: Any) -> None:
    port = free_port()
    servers = f"127.0.0.1:{port}"
    with within(30, at_least_s=0.5):
        threading.Timer(1.0, lambda: start_embedded(port=port)).start()
        with KafkaProducer(bootstrap_servers=servers, bootstrap_timeout_ms=60_000) as producer:
            assert producer.send("late", b"value").get(20).offset == 0


def test_a_failed_constructor_leaves_nothing_behind() -> None:
    def threads() -> set[threading.Thread]:
        # A native thread that has logged looks like one of Python's from then on.
        dummy = threading._DummyThread
        return {each for each in threading.enumerate() if not isinstance(each, dummy)}

    before = threads()  # those of earlier tests may end meanwhile
    for _ in range(3):
        _fails(KafkaConsumer, f"127.0.0.1:{free_port()}", bootstrap_timeout_ms=200)
    wait_until(lambda: not threads() - before, what="the end of new threads")


class _server:  # noqa: N801 (used as a function)
    """A listener that passes each connection to a function, and holds it open."""

    def __init__(self, serve: Callable[[socket.socket], Any], hold: bool = True) -> None:
        self._serve, self._hold = serve, hold
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> int:
        accepting = threading.Thread(target=self._accept)
        accepting.start()
        self._threads.append(accepting)
        return int(self._listener.getsockname()[1])

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self._held.append(connected)
            thread = threading.Thread(target=self._one, args=(connected,))
            thread.start()
            self._threads.append(thread)

    def _one(self, connected: socket.socket) -> None:
        try:
            self._serve(connected)
        except OSError:
            return
        if not self._hold:
            connected.close()

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._held:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)


@pytest.mark.parametrize("client", CLIENTS)
def test_why_it_waits_is_warned_of_once_while_it_goes_on_trying(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    addresses = [f"127.0.0.1:{free_port()}", "no-such-host.invalid:9092"]
    early = False
    for timeout_ms in (3000, 10_000, 20_000):  # a pause of the machine may make it late
        caplog.clear()
        with caplog.at_level(logging.WARNING, "thalweg.network"):
            _fails(client, addresses, bootstrap_timeout_ms=timeout_ms)
            failed = time.time()
            wait_until(lambda: bool(caplog.records))
        (record,) = caplog.records
        if early := record.created < failed - 0.5:
            break
    assert early, "long before the error"
    text = record.message
    assert all(each in text for each in addresses)
    assert "refused" in text.lower()
    assert text.endswith("The client keeps trying")


def test_a_broker_that_responds_is_nothing_to_warn_of(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """The client does not warn even if another of the addresses does not respond."""
    servers = [*broker.bootstrap_servers.split(","), f"127.0.0.1:{free_port()}"]

    def responds_in_time() -> bool:
        caplog.clear()
        began = time.monotonic()
        KafkaConsumer(bootstrap_servers=servers).close()
        return time.monotonic() - began < 4  # after 5 s without a response it warns

    with caplog.at_level(logging.WARNING, "thalweg.network"):
        wait_until(responds_in_time, 60)
    assert "keeps trying" not in caplog.text


def test_bootstrap_servers_may_be_looked_for_by_their_canonical_names(
    broker: Broker, clients: Clients
) -> None:
    lookup = "resolve_canonical_bootstrap_servers_only"
    producer = clients.producer(broker, client_dns_lookup=lookup)
    assert producer.send(broker.create_topic("named"), b"v").get(20).offset == 0
