"""Hostile peer H12: brokers that advertise other machines of the client's network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import within
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import KafkaError

NOT_ALLOWED = r"advertises 127\.0\.0\.1:\d+, and advertised_hosts_allowed \(\*\.example\.com\)"


Start = Callable[..., EmbeddedBroker]


def advertised(start: Start) -> dict[str, Any]:
    """Starts a broker that the user calls localhost, and that advertises 127.0.0.1."""
    broker = start()
    broker.create_topic("work")
    port = broker.bootstrap_servers.rsplit(":", 1)[1]
    return {"bootstrap_servers": f"localhost:{port}"}


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_scenario_108_every_client_names_the_host(client: Any, start_embedded: Start) -> None:
    with within(20), pytest.raises(KafkaError, match=NOT_ALLOWED):
        client(**advertised(start_embedded), advertised_hosts_allowed="*.example.com")


def test_scenario_108_asyncio_clients_name_the_host(start_embedded: Start) -> None:
    async def program() -> None:
        async with AIOKafkaProducer(
            **advertised(start_embedded), advertised_hosts_allowed=["*.example.com"]
        ):
            pass

    with within(20), pytest.raises(KafkaError, match=NOT_ALLOWED):
        run(program())


@pytest.mark.parametrize("patterns", ["127.*", ["*.example.com", "127.0.0.1"], None])
def test_hosts_that_a_pattern_allows_work(start_embedded: Start, patterns: Any) -> None:
    with KafkaProducer(**advertised(start_embedded), advertised_hosts_allowed=patterns) as producer:
        assert producer.send("work", b"value").get(30).offset == 0


def test_the_hosts_of_bootstrap_servers_are_allowed(start_embedded: Start) -> None:
    address = advertised(start_embedded)["bootstrap_servers"].replace("localhost", "127.0.0.1")
    with KafkaProducer(bootstrap_servers=address, advertised_hosts_allowed=[]) as producer:
        assert producer.send("work", b"value").get(30).offset == 0
