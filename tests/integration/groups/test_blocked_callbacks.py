"""Callbacks that block, or that use a consumer, while groups rebalance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read
from tests.support.brokers import Broker
from thalweg import KafkaConsumer, ProducerInterceptor

LIMIT_S = 60.0
# If a poll does not hear of responses, it looks at them after 5 seconds or more.
SOON_S, TRIES = 3.0, 3


class Calling(ProducerInterceptor):
    """Calls a function in the callback thread when a record has its result."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
        self._function()


def joined_soon(make: Callable[[str], KafkaConsumer[Any, Any]], topic: str) -> bool:
    """Whether a group reads its record and commits soon. A machine may pause, so it tries again."""
    for number in range(TRIES):
        with make(f"{topic}-{number}") as consumer:
            began = time.monotonic()
            consumer.subscribe([topic])
            assert [each.value for each in read(consumer, 1)] == [b"v"]
            consumer.commit()
            if time.monotonic() - began < SOON_S:
                return True
    return False


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_callback_that_blocks_delays_no_group(
    embedded: Broker, clients: Clients, protocol: str
) -> None:
    topic = embedded.create_topic("blocked-callback")
    entered, free = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        assert free.wait(LIMIT_S)

    producer = clients.producer(embedded, interceptor_classes=[Calling(block)])
    producer.send(topic, b"v")
    try:
        assert entered.wait(LIMIT_S)
        assert joined_soon(
            lambda group: clients.consumer(embedded, group_id=group, group_protocol=protocol),
            topic,
        )
    finally:
        free.set()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_may_join_its_group_inside_a_callback(
    embedded: Broker, clients: Clients, protocol: str
) -> None:
    topic = embedded.create_topic("callback-that-polls")
    outcomes: list[bool] = []
    done = threading.Event()

    def poll() -> None:
        try:
            outcomes.append(
                joined_soon(
                    lambda group: clients.consumer(
                        embedded, group_id=group, group_protocol=protocol
                    ),
                    topic,
                )
            )
        finally:
            done.set()

    producer = clients.producer(embedded, interceptor_classes=[Calling(poll)])
    producer.send(topic, b"v")
    assert done.wait(LIMIT_S)
    assert outcomes == [True]
