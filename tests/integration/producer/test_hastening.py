"""A record that a thread or task waits for does not linger. Other records do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg.aio import AIOKafkaProducer

pytestmark = one_real_broker

# A wait for the end of the linger would take longer than the tests may.
LINGER_MS = 40_000
WAIT_S = 20.0


def made(broker: Broker, **options: Any) -> AIOKafkaProducer[bytes, bytes]:
    options = {"linger_ms": LINGER_MS, **options}
    return AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options)


def test_get_does_not_wait_for_the_linger(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("hastened")
    producer = clients.producer(broker, linger_ms=LINGER_MS)
    sent = producer.send(topic, b"value")
    assert sent.get(WAIT_S).offset == 0
    assert producer.send_many(topic, [b"a", b"b"], partition=0).get(WAIT_S).count == 2
    # As a list or, with a step in Python, record by record.
    steps = clients.producer(broker, linger_ms=LINGER_MS, value_serializer=lambda value: value)
    assert steps.send_many(topic, [b"c", b"d"], partition=0).get(WAIT_S).count == 2


def test_a_callback_is_no_wait(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("called-back")
    producer = clients.producer(broker, linger_ms=LINGER_MS)
    # When the topic is known, a batch that is sent at once is acknowledged within a moment.
    producer.send(topic, b"first").get(WAIT_S)
    called_back = producer.send(topic, b"value").add_callback(lambda _: None)
    time.sleep(0.2)
    assert not called_back.is_done
    assert called_back.get(WAIT_S).offset == 1


Waits = dict[str, Callable[[Any], Awaitable[Any]]]
WAITS: Waits = {
    "await": lambda future: future,
    "wait_for": lambda future: asyncio.wait_for(future, WAIT_S),
    "shield": asyncio.shield,
    "gather": lambda future: asyncio.gather(future),
    "wait": lambda future: asyncio.wait([future]),
}


@pytest.mark.parametrize("how", WAITS)
def test_a_task_that_waits_does_not_wait_for_the_linger(broker: Broker, how: str) -> None:
    topic = broker.create_topic("awaited")

    async def program() -> None:
        async with made(broker) as producer:
            for _ in range(3):
                future = await producer.send(topic, b"value")
                async with asyncio.timeout(WAIT_S):
                    await WAITS[how](future)
                assert future.result().partition == 0

    run(program())


def test_tasks_that_each_wait_for_their_own_record_share_batches(broker: Broker) -> None:
    topic = broker.create_topic("shared")
    tasks, rounds = 1_000, 5

    async def program() -> dict[str, float]:
        async with made(broker, batch_size=1 << 20) as producer:
            # Tasks that wait for the topic continue one after another when it is known.
            await producer.send_and_wait(topic, b"first")

            async def work() -> None:
                for _ in range(rounds):
                    await producer.send_and_wait(topic, b"value")

            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*(work() for _ in range(tasks)))
            found: dict[str, float] = producer.metrics()["producer-metrics"]
            return found

    found = run(program())
    assert found["record-send-total"] == tasks * rounds + 1
    # One request per round: a response resumes all tasks that wait for its batch in one turn.
    requests = found["record-send-total"] / found["records-per-request-avg"]
    assert requests <= 2 * rounds + 1, requests
