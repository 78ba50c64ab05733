"""Calls of a running client whose next login is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read
from tests.support.waiting import wait_until
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


def _member(start_embedded: Any, clients: Clients, protocol: str) -> tuple[Any, Any, Any]:
    """Returns a broker, a producer, and alice's consumer, which is in a group."""
    broker: EmbeddedBroker = start_embedded(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=["PLAIN"],
        users={"alice": "secret", "bob": "secret"},
        configs={
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": "100",
        },
    )
    broker.create_topic("t")
    alice, bob = broker.client_config("alice"), broker.client_config("bob")
    for login in (alice, bob):
        del login["bootstrap_servers"]
    producer = clients.producer(broker, **bob)
    consumer = clients.consumer(
        broker,
        group_id="g",
        group_protocol=protocol,
        heartbeat_interval_ms=100 if protocol == "classic" else None,
        auto_offset_reset="earliest",
        **alice,
    )
    consumer.subscribe(["t"])
    producer.send("t", b"before").get(timeout=30)
    assert [record.value for record in read(consumer, 1)] == [b"before"]
    return broker, producer, consumer


@pytest.mark.timeout(120)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_continues_once_its_login_is_accepted_again(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    broker, producer, consumer = _member(start_embedded, clients, protocol)
    broker.remove_user("alice")
    broker.expire_sessions()
    with pytest.raises(SaslAuthenticationFailedError, match="alice"):
        consumer.poll(60_000)
    for _ in range(20):  # meanwhile, heartbeats are refused
        with suppress(SaslAuthenticationFailedError):
            consumer.poll(100)
    broker.add_user("alice", "secret")
    producer.send("t", b"after").get(timeout=30)
    found: list[bytes] = []
    while not found:
        # The poll may first raise a refusal from before.
        with suppress(SaslAuthenticationFailedError):
            found += [each.value for batch in consumer.poll(100).values() for each in batch]
    assert found == [b"after"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_heartbeats_continue_without_polls_after_a_refused_login(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    broker, _, consumer = _member(start_embedded, clients, protocol)

    def figure(group: str, name: str) -> float:
        return float(consumer.metrics()[group][name])

    broker.remove_user("alice")
    broker.expire_sessions()
    wait_until(lambda: figure("consumer-metrics", "failed-authentication-total") > 0, 30)
    time.sleep(1)  # for the heartbeats to be refused, too
    broker.add_user("alice", "secret")
    before = figure("consumer-coordinator-metrics", "heartbeat-total")
    wait_until(lambda: figure("consumer-coordinator-metrics", "heartbeat-total") > before + 3, 30)
