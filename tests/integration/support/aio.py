"""Runs asyncio programs with a time limit, and makes consumers and topics for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from thalweg.aio import AIOKafkaConsumer

T = TypeVar("T")
LIMIT_S = 120


def run(program: Coroutine[Any, Any, T]) -> T:
    """Runs a test's coroutine in its own event loop, with a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(LIMIT_S):
            return await program

    return asyncio.run(limited())


def made(broker: Any, *topics: str, **options: Any) -> AIOKafkaConsumer[Any, Any]:
    given = {"auto_offset_reset": "earliest", **options}
    return AIOKafkaConsumer(*topics, bootstrap_servers=broker.bootstrap_servers, **given)


def filled(broker: Broker, clients: Clients, count: int, partitions: int = 1) -> str:
    """Makes a topic and sends the records 0, 1, 2 ... to its partitions in turn."""
    topic = broker.create_topic("aio-read", partitions)
    producer = clients.producer(broker, linger_ms=5)
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=number % partitions)
    producer.flush(30)
    return topic


async def read_one(consumer: AIOKafkaConsumer[Any, Any]) -> int:
    """Returns the number in the next record."""
    return int((await consumer.getone()).value)


async def until(condition: Callable[[], Any], what: str = "the condition") -> None:
    """Lets the event loop run until the condition is true."""
    end = time.monotonic() + LIMIT_S / 2
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true"
        await asyncio.sleep(0.005)
