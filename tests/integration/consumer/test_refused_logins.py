"""Calls of a running client whose next login is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read
from thalweg import EmbeddedBroker, KafkaConsumer, TopicPartition
from thalweg.errors import SaslAuthenticationFailedError

WHERE = TopicPartition("t", 0)
# A call that does not hear of the refusal takes this long.
TIMEOUT_MS = 600_000

CALLS: dict[str, Callable[[KafkaConsumer[Any, Any]], object]] = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(WHERE),
    "end_offsets": lambda consumer: consumer.end_offsets([WHERE]),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("u"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_raises_the_refusal_although_other_connections_are_open(
    start_embedded: Any, clients: Clients, name: str
) -> None:
    """The broker closes a connection whose session has ended only when it gets a request."""
    broker: EmbeddedBroker = start_embedded(
        security_protocol="SASL_PLAINTEXT", sasl_mechanisms=["PLAIN"], users={"alice": "secret"}
    )
    broker.create_topic("t")
    login = broker.client_config("alice")
    del login["bootstrap_servers"]
    producer = clients.producer(broker, **login)
    producer.send("t", b"v").get(timeout=30)
    consumer = clients.consumer(broker, group_id="g", default_api_timeout_ms=TIMEOUT_MS, **login)
    consumer.subscribe(["t"])
    assert len(read(consumer, 1)) == 1
    broker.remove_user("alice")
    broker.expire_sessions()
    with pytest.raises(SaslAuthenticationFailedError, match="alice"):
        CALLS[name](consumer)
    consumer.close(autocommit=False, timeout_ms=100)
