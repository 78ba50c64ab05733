"""Fixtures of the integration tests, in addition to those in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.groups import Group
from tests.integration.support.scripted import ScriptedBroker
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from thalweg import EmbeddedBroker


@pytest.fixture
def clients() -> Iterator[Clients]:
    """Makes clients that are closed when the test ends."""
    made = Clients()
    yield made
    made.close()


@pytest.fixture
def group_of(broker_of: Callable[[str], Broker], clients: Clients) -> Callable[[str, str], Group]:
    """Makes a new group with its own topic: `group_of("consumer", "kafka-4.3")`."""

    def make(protocol: str, kind: str) -> Group:
        return Group(broker_of(kind), clients, protocol)

    return make


@pytest.fixture
def start_embedded(clients: Clients) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Starts an embedded broker for this test alone: `start_embedded(nodes=3)`."""
    started: list[EmbeddedBroker] = []

    def start(**options: object) -> EmbeddedBroker:
        broker = EmbeddedBroker(**options)  # type: ignore[arg-type]
        started.append(broker)
        return broker.start()

    yield start
    # Close the clients first: a producer would wait for a closed broker.
    clients.close()
    for broker in started:
        broker.close()


@pytest.fixture
def scripted(clients: Clients) -> Iterator[ScriptedBroker]:
    """A server that sends the responses that the test chooses."""
    broker = ScriptedBroker()
    broker.start()
    yield broker
    clients.close()
    broker.close()


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[RealKafka]:
    """A real cluster for one test file. It accepts writes while two of its nodes are in sync."""
    configs = {
        "min.insync.replicas": "2",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with RealKafka("4.3", nodes=3, configs=configs) as kafka:
        yield kafka


@pytest.fixture
def cluster(three_nodes: RealKafka) -> RealKafka:
    """The cluster with all nodes running: restarts nodes that a failed test left killed."""
    for node in three_nodes.nodes:
        if not node.running:
            three_nodes.start_node(node.node_id)
    return three_nodes
