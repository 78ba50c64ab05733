"""The embedded broker's fault builder: which requests a fault matches, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read, within
from thalweg import EmbeddedBroker
from thalweg.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    TopicAuthorizationFailedError,
)


@pytest.fixture
def broker(start_embedded: Any) -> EmbeddedBroker:
    found: EmbeddedBroker = start_embedded(nodes=2)
    found.create_topic("t", 2, replication_factor=2)
    found.create_topic("u", 2, replication_factor=2)
    return found


def _unretried(clients: Clients, broker: EmbeddedBroker) -> Any:
    return clients.producer(broker, retries=0, enable_idempotence=False)


@pytest.mark.parametrize(
    "error", [19, "NOT_ENOUGH_REPLICAS", NotEnoughReplicasError], ids=["code", "name", "class"]
)
def test_an_error_is_a_code_a_name_or_a_class(
    broker: EmbeddedBroker, clients: Clients, error: Any
) -> None:
    producer = _unretried(clients, broker)
    fault = broker.faults.on("Produce").then_fail(error)
    with pytest.raises(NotEnoughReplicasError):
        producer.send("t", b"v", partition=0).get(20)
    assert fault.hits == 1
    assert producer.send("t", b"v", partition=0).get(20).offset == 0
    assert fault.hits == 1


@pytest.mark.parametrize("error", ["NO_SUCH_ERROR", KafkaTimeoutError])
def test_what_is_no_error_of_the_protocol_is_refused(broker: EmbeddedBroker, error: Any) -> None:
    with pytest.raises(ValueError):
        broker.faults.on("Produce").then_fail(error)
    with pytest.raises(ValueError):
        broker.faults.on("NoSuchApi").then_disconnect()


def test_a_fault_may_be_for_one_topic(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _unretried(clients, broker)
    fault = broker.faults.on("Produce", topic="u").then_fail("NOT_ENOUGH_REPLICAS", times=None)
    assert producer.send("t", b"v").get(20)
    with pytest.raises(NotEnoughReplicasError):
        producer.send("u", b"v").get(20)
    assert producer.send("t", b"v").get(20)
    assert fault.hits == 1


def test_a_fault_may_be_for_one_node(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _unretried(clients, broker)
    node = broker.leader(("t", 0))
    broker.faults.on("Produce", node=node).then_fail("NOT_ENOUGH_REPLICAS", times=None)
    assert broker.leader(("t", 1)) != node
    assert producer.send("t", b"v", partition=1).get(20).offset == 0
    with pytest.raises(NotEnoughReplicasError):
        producer.send("t", b"v", partition=0).get(20)


def test_a_fault_applies_so_many_times(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _unretried(clients, broker)
    broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=2)
    outcomes = []
    for _ in range(4):
        sent = producer.send("t", b"v", partition=0)
        try:
            outcomes.append(sent.get(20).offset)
        except NotEnoughReplicasError:
            outcomes.append("failed")
    assert outcomes == ["failed", "failed", 0, 1]


def test_faults_apply_in_the_order_in_which_they_were_set(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    producer = _unretried(clients, broker)
    broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS")
    broker.faults.on("Produce").then_fail("TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(NotEnoughReplicasError):
        producer.send("t", b"v", partition=0).get(20)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("t", b"v", partition=0).get(20)
    assert producer.send("t", b"v", partition=0).get(20).offset == 0


def test_a_fault_ends_with_its_block_or_by_hand(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _unretried(clients, broker)
    sent = producer.send("t", b"v")
    assert sent.get(20)
    with (
        broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None),
        pytest.raises(NotEnoughReplicasError),
    ):
        producer.send("t", b"v").get(20)
    assert producer.send("t", b"v").get(20)
    fault = broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None)
    fault.remove()
    assert producer.send("t", b"v").get(20)
    broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None)
    broker.faults.clear()
    assert producer.send("t", b"v").get(20)


def test_a_delay_holds_the_response_back(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = clients.producer(broker)
    producer.send("t", b"v", partition=0).get(20)
    with broker.faults.on("Produce").then_delay(800), within(20, at_least_s=0.75):
        assert producer.send("t", b"v", partition=0).get(20).offset == 1


def test_disconnect_applies_nothing_and_apply_then_disconnect_does(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    producer = _unretried(clients, broker)
    producer.send("t", b"0", partition=0).get(20)
    for rule, number in (("then_disconnect", b"1"), ("apply_then_disconnect", b"2")):
        getattr(broker.faults.on("Produce"), rule)()
        sent = producer.send("t", number, partition=0)
        with pytest.raises(KafkaConnectionError, match="t-0"):
            sent.get(20)
    assert producer.send("t", b"3", partition=0).get(20).offset == 2
    values = [each.value for each in read(clients.consumer(broker, "t"), 3)]
    assert values == [b"0", b"2", b"3"]


def test_silence_lasts_until_the_client_gives_the_connection_up(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    producer = clients.producer(broker, request_timeout_ms=700)
    producer.send("t", b"0", partition=0).get(20)
    broker.faults.on("Produce").then_silence()
    with within(20, at_least_s=0.6):
        assert producer.send("t", b"1", partition=0).get(20).offset == 1


def test_a_rule_without_api_is_for_all(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = clients.producer(broker)
    values = fill(clients, broker, "t", 10)
    fault = broker.faults.on().then_disconnect(times=3)
    consumer = clients.consumer(broker, "t")
    assert [each.value for each in read(consumer, 10)] == values
    assert producer.send("t", b"v", partition=0).get(20).offset == 10
    assert fault.hits == 3


def test_faults_of_two_topics_on_one_api_each_meet_their_own(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded()
    for topic in ("a", "b"):
        broker.create_topic(topic)
    first = broker.faults.on("Produce", topic="a").then_fail("NOT_ENOUGH_REPLICAS")
    second = broker.faults.on("Produce", topic="b").then_fail("NOT_ENOUGH_REPLICAS")
    producer = clients.producer(broker)
    for topic in ("b", "a"):
        assert producer.send(topic, b"v").get(20).offset == 0
    assert (first.hits, second.hits) == (1, 1)
