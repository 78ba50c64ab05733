"""EmbeddedBroker itself: start, stop, nodes, leaders, and what it reports about itself."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read, within
from tests.integration.support.scripts import run
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.support.wire import Wire
from thalweg import EmbeddedBroker, KafkaProducer
from thalweg.errors import (
    IllegalStateError,
    InvalidPartitionsError,
    InvalidTopicError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)


def _runs(broker: EmbeddedBroker) -> bool:
    return broker.running


def test_a_with_statement_starts_and_closes_it() -> None:
    # Nobody else gets this port when the broker is closed.
    with EmbeddedBroker(port=free_port()) as broker:
        assert _runs(broker)
        assert broker.nodes == [1]
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.ports[0]}"
        assert broker.bootstrap_servers in repr(broker)
        socket.create_connection(("127.0.0.1", broker.ports[0])).close()
        port = broker.ports[0]
    assert not _runs(broker)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_an_async_with_statement_does_too() -> None:
    async def use() -> str:
        async with EmbeddedBroker() as broker:
            assert _runs(broker)
            servers = broker.bootstrap_servers
        assert not _runs(broker)
        return servers

    assert asyncio.run(use()).startswith("127.0.0.1:")


def test_nothing_is_known_before_start_and_after_close() -> None:
    broker = EmbeddedBroker()
    assert not broker.running
    with pytest.raises(IllegalStateError):
        _ = broker.bootstrap_servers
    with pytest.raises(IllegalStateError):
        broker.create_topic("t")
    assert broker.start() is broker
    broker.start()  # a second start does nothing
    broker.close()
    broker.close()
    for call in (lambda: broker.bootstrap_servers, broker.start, broker.topics):
        with pytest.raises(IllegalStateError):
            call()


def test_nodes_have_ports_in_a_row_from_the_first() -> None:
    port = _row_of_ports(3)
    with EmbeddedBroker(nodes=3, port=port) as broker:
        assert broker.nodes == [1, 2, 3]
        assert broker.ports == [port, port + 1, port + 2]
        found = Wire(broker.bootstrap_servers).metadata().nodes
        assert found == {n: ("127.0.0.1", port + n - 1) for n in (1, 2, 3)}


def _row_of_ports(count: int) -> int:
    """Returns the first of `count` consecutive free ports."""
    while True:
        first = free_port()
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(port=port)
        with within(20), pytest.raises(OSError, match=str(port)) as caught:
            broker.start()
        assert caught.value.errno == errno.EADDRINUSE
        assert not broker.running


@pytest.mark.parametrize("options", [{"nodes": 0}, {"nodes": -1}])
def test_no_nodes_are_no_broker(options: Any) -> None:
    with pytest.raises(ValueError):
        EmbeddedBroker(**options)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(KafkaConfigurationError, match=r"no\.such\.option"):
        EmbeddedBroker(configs={"no.such.option": 1}).start()


def test_options_of_kafkas_are_taken(clients: Clients) -> None:
    options = {"num.partitions": 3, "auto.create.topics.enable": "true"}
    with EmbeddedBroker(configs=options) as broker:
        producer = clients.producer(broker)
        assert producer.partitions_for("made-by-itself") == {0, 1, 2}
        assert broker.topics() == {"made-by-itself": 3}
        clients.close()


def test_without_auto_create_a_topic_stays_unknown(clients: Clients) -> None:
    with EmbeddedBroker(configs={"auto.create.topics.enable": False}) as broker:
        producer = clients.producer(broker, max_block_ms=500)
        with within(20), pytest.raises(KafkaTimeoutError, match="nobody-made-it"):
            producer.send("nobody-made-it", b"value")
        assert broker.topics() == {}
        clients.close()


def test_topics_are_made_and_deleted(start_embedded: Any) -> None:
    broker = start_embedded()
    broker.create_topic("a")
    broker.create_topic("b", 3, {"retention.ms": -1, "max.message.bytes": 5000})
    assert broker.topics() == {"a": 1, "b": 3}
    with pytest.raises(TopicAlreadyExistsError):
        broker.create_topic("a")
    with pytest.raises(InvalidTopicError):
        broker.create_topic("no good")
    with pytest.raises(InvalidPartitionsError):
        broker.create_topic("c", 0)
    broker.delete_topic("a")
    assert broker.topics() == {"b": 3}
    with pytest.raises(UnknownTopicOrPartitionError):
        broker.delete_topic("a")


def test_leaders_are_spread_and_moved(start_embedded: Any) -> None:
    broker = start_embedded(nodes=3)
    broker.create_topic("t", 6, replication_factor=3)
    leaders = [broker.leader(("t", partition)) for partition in range(6)]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    broker.move_leader(("t", 0), leaders[0] % 3 + 1)
    assert broker.leader(("t", 0)) == leaders[0] % 3 + 1
    known = Wire(broker.bootstrap_servers).metadata("t").topics["t"]
    assert known[0].leader == leaders[0] % 3 + 1
    with pytest.raises(UnknownTopicOrPartitionError):
        broker.leader(("t", 6))
    with pytest.raises(ValueError):
        broker.move_leader(("t", 0), 9)


def test_a_stopped_node_gives_its_leaderships_away_and_closes_its_port(
    start_embedded: Any,
) -> None:
    broker = start_embedded(nodes=3, port=_row_of_ports(3))
    broker.create_topic("t", 6, replication_factor=3)
    broker.stop_node(2)
    assert {broker.leader(("t", partition)) for partition in range(6)} == {1, 3}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.ports[1]))
    assert sorted(Wire(broker.bootstrap_servers).metadata().nodes) == [1, 3]
    broker.start_node(2)
    socket.create_connection(("127.0.0.1", broker.ports[1])).close()
    assert sorted(Wire(broker.bootstrap_servers).metadata().nodes) == [1, 2, 3]
    with pytest.raises(ValueError):
        broker.stop_node(7)


def test_records_outlive_a_restart_of_the_only_node(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded(port=free_port())
    broker.create_topic("t")
    values = fill(clients, broker, "t", 100)
    broker.stop_node(1)
    broker.start_node(1)
    assert [each.value for each in read(clients.consumer(broker, "t"), 100)] == values


def test_two_brokers_know_nothing_of_each_other(start_embedded: Any) -> None:
    first, second = start_embedded(), start_embedded()
    first.create_topic("only-here")
    assert second.topics() == {}
    assert first.ports != second.ports


def test_requests_are_counted(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded()
    broker.create_topic("t")
    before = broker.requests().get("Produce", 0)
    producer = clients.producer(broker)
    for _ in range(3):
        producer.send("t", b"v").get(20)
    assert broker.requests()["Produce"] == before + 3
    assert broker.requests("Produce") == {"Produce": before + 3}
    assert broker.requests()["InitProducerId"] == 1
    with pytest.raises(ValueError):
        broker.requests("NoSuchApi")


def test_clients_of_a_closed_broker_are_told(clients: Clients) -> None:
    with EmbeddedBroker(port=free_port()) as broker:
        servers = broker.bootstrap_servers
        producer = clients.producer(broker)
        producer.send("t", b"v").get(20)
    with within(20), pytest.raises(NoBrokersAvailable):
        KafkaProducer(bootstrap_servers=servers, bootstrap_timeout_ms=300)
    with within(20):
        producer.close(timeout=1)


def test_closing_ends_waiting_fetches_at_once(clients: Clients) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t")
        consumer = clients.consumer(broker, "t", fetch_max_wait_ms=29_000)
        wait_until(lambda: consumer.poll(300) == {} and broker.requests("Fetch"))
        assert broker.requests("Fetch") == {"Fetch": 1}, "one fetch waits for records"
        with within(15):
            broker.close()
    with within(20):
        consumer.close(timeout_ms=1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_reaches_the_broker_of_its_parent() -> None:
    source = """
    import warnings
    from thalweg import EmbeddedBroker
    warnings.simplefilter("ignore")  # about fork() in a process with threads
    with EmbeddedBroker(security_protocol="SASL_SSL", users={"alice": "secret"}) as broker:
        broker.create_topic("t")
        pid = os.fork()
        if pid == 0:
            with KafkaProducer(**broker.client_config()) as producer:
                print("offset", producer.send("t", b"of the child").get(20).offset, flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """
    ended = run(source)
    assert (ended.code, ended.lines) == (0, ["offset 0"]), ended.err
