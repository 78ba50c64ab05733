"""Fixtures of the integration tests, on top of those in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.clients import Clients
from tests.integration.scripted import ScriptedBroker
from thalweg import EmbeddedBroker


@pytest.fixture
def clients() -> Iterator[Clients]:
    """Makes clients that are closed when the test ends."""
    made = Clients()
    yield made
    made.close()


@pytest.fixture
def start_embedded(clients: Clients) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Starts an embedded broker for this test alone: `start_embedded(nodes=3)`."""
    started: list[EmbeddedBroker] = []

    def start(**options: object) -> EmbeddedBroker:
        broker = EmbeddedBroker(**options)  # type: ignore[arg-type]
        started.append(broker)
        return broker.start()

    yield start
    # Clients first: a producer of a dead broker would wait for it.
    clients.close()
    for broker in started:
        broker.close()


@pytest.fixture
def scripted(clients: Clients) -> Iterator[ScriptedBroker]:
    """A server that answers what the test tells it to."""
    broker = ScriptedBroker()
    broker.start()
    yield broker
    clients.close()
    broker.close()
