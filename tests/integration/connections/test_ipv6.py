"""Brokers on IPv6 addresses, and host names that have an address of each family."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import Clients, fill, read
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from tests.support.ports import free_port
from tests.support.wire import Wire
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import KafkaConfigurationError, NoBrokersAvailable

HOST = "::1"
LIMIT_S = 60
RECORDS = 100


@pytest.fixture(scope="module")
def real() -> Iterator[RealKafka]:
    """A real Kafka that listens only at ::1 and advertises no other address."""
    with RealKafka("4.3", host=HOST, secure=True, heap="512m") as kafka:
        yield kafka


@pytest.fixture(params=["embedded", "kafka-4.3"])
def on_ipv6(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Runs the test on both brokers."""
    if request.param == "embedded":
        with EmbeddedBroker(nodes=3, host=HOST) as broker:
            yield Broker(request.param, broker.bootstrap_servers)
    else:
        kafka = request.getfixturevalue("real")
        yield Broker(request.param, kafka.bootstrap_servers, kafka.logs)


def test_all_clients_reach_a_broker_on_ipv6(on_ipv6: Broker, clients: Clients) -> None:
    """Uses the bootstrap address, and the addresses in the metadata, which have no brackets."""
    topic = on_ipv6.create_topic("v6", 3)
    told = {host for host, _ in Wire(on_ipv6.bootstrap_servers).metadata().nodes.values()}
    assert told == {HOST}
    values = {each: fill(clients, on_ipv6, topic, RECORDS, partition=each) for each in range(3)}
    consumer = clients.consumer(on_ipv6, topic, values)
    assert sorted(each.value for each in read(consumer, 3 * RECORDS)) == sorted(
        value for part in values.values() for value in part
    )
    assert topic in clients.admin(on_ipv6).list_topics()


def test_a_group_finds_its_coordinator_on_ipv6(on_ipv6: Broker, clients: Clients) -> None:
    topic = on_ipv6.create_topic("v6-group")
    fill(clients, on_ipv6, topic, RECORDS)
    member = clients.consumer(on_ipv6, group_id=topic)
    member.subscribe([topic])
    read(member, RECORDS)
    member.commit()
    assert member.committed(TopicPartition(topic, 0)) == RECORDS


def test_asyncio_clients_reach_a_broker_on_ipv6(on_ipv6: Broker) -> None:
    topic = on_ipv6.create_topic("v6-aio")
    servers = on_ipv6.bootstrap_servers

    async def program() -> Any:
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait(topic, b"v")
        options: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **options) as consumer:
            return await consumer.getone()

    assert run(program()).value == b"v"


FORMS = {
    "an address in brackets": "[::1]:{port}",
    "a list": ["[::1]:{port}"],
    "all its digits": "[0:0:0:0:0:0:0:1]:{port}",
    "a listener's name in front": "PLAINTEXT://[::1]:{port}",
    "a dead IPv4 address before it": "127.0.0.1:{dead},[::1]:{port}",
    "a dead IPv6 address before it": "[::1]:{dead},[::1]:{port}",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_bootstrap_servers_take_ipv6_addresses(form: str, client: Any) -> None:
    with EmbeddedBroker(host=HOST) as broker:
        (port,) = broker.ports

        def filled(text: str) -> str:
            return text.format(port=port, dead=free_port())

        given: Any = FORMS[form]
        servers = [filled(each) for each in given] if isinstance(given, list) else filled(given)
        with client(bootstrap_servers=servers) as made:
            assert made.bootstrap_connected()


@pytest.mark.parametrize("address", ["::1", "::1:9092", "h:1,::1"])
@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_an_ipv6_address_needs_its_brackets(address: str, client: Any) -> None:
    """Without brackets it is ambiguous whether the last part is a port."""
    with pytest.raises(KafkaConfigurationError, match="IPv6 address without brackets: '::1"):
        client(bootstrap_servers=address)


def test_an_error_names_the_ipv6_address_in_brackets() -> None:
    address = f"[::1]:{free_port()}"
    text = ""
    for timeout_ms in (500, 5000, 20_000):  # more than one only if the machine pauses
        with pytest.raises(NoBrokersAvailable) as caught:
            KafkaProducer(bootstrap_servers=address, bootstrap_timeout_ms=timeout_ms)
        assert list(caught.value.addresses) == [address]
        if "refused" in (text := caught.value.addresses[address].lower()):
            break
    assert "refused" in text


def _thalweg(*arguments: str, given: bytes = b"", **environment: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *arguments],
        input=given,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_the_command_line_takes_ipv6_addresses(on_ipv6: Broker) -> None:
    topic = on_ipv6.unused_name("v6-cli")
    servers = on_ipv6.bootstrap_servers.split(",")[0]
    assert servers.startswith("[::1]:")
    _thalweg("-b", servers, "topics", "create", topic)
    assert topic.encode() in _thalweg("-b", servers, "topics", "list").splitlines()
    _thalweg("-b", servers, "produce", topic, given=b"one\ntwo\n")
    assert _thalweg("-b", servers, "consume", topic, "-o", "earliest", "-e") == b"one\ntwo\n"


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_certificate_names_an_ipv6_address(real: RealKafka, protocol: str) -> None:
    """The client compares it with the address, which the certificate has without brackets."""
    options: dict[str, Any] = {
        "bootstrap_servers": real.bootstrap(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(real.certificates / "ca.pem"),
    }
    if protocol == "SASL_SSL":
        options["sasl_mechanism"] = "PLAIN"
        options["sasl_plain_username"] = "alice"
        options["sasl_plain_password"] = "alice-secret"
    topic = f"v6-{protocol.lower()}"
    real.create_topic(topic)
    with KafkaProducer(**options) as producer:
        assert producer.send(topic, b"v").get(20).offset == 0
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 1)] == [b"v"]


@pytest.fixture(scope="module")
def two_families(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library for LD_PRELOAD that gives every name two addresses, on any machine."""
    if not sys.platform.startswith("linux"):
        pytest.skip("names get a second address by LD_PRELOAD, which is Linux's")
    library = tmp_path_factory.mktemp("preloaded") / "two_families.so"
    source = Path(__file__).with_name("two_families.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("host", [HOST, "127.0.0.1"])
def test_a_name_with_a_dead_address_is_reached_by_the_other(host: str, two_families: str) -> None:
    """Like localhost, if the broker listens for one address family: the other address refuses."""
    # With a free port of the kernel's choice, another broker may have it at the dead address.
    with EmbeddedBroker(host=host, port=free_port()) as broker:
        broker.create_topic("found")
        servers = f"localhost:{broker.ports[0]}"
        for _ in range(2):
            _thalweg("-b", servers, "produce", "found", given=b"v\n", LD_PRELOAD=two_families)
        found = _thalweg(
            "-b", servers, "consume", "found", "-o", "earliest", "-e", LD_PRELOAD=two_families
        )
        assert found == b"v\n" * 2
