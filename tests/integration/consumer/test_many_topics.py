"""Patterns that match many topics: each poll ends in time, however much work is left.

The tests measure a poll by the CPU time of its thread, because other processes of the test run
use the machine, too.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.scale import scaled
from thalweg import KafkaAdminClient, KafkaConsumer
from thalweg.admin import NewTopic
from thalweg.aio import AIOKafkaConsumer
from thalweg.broker import EmbeddedBroker

TOPICS = max(6_000, scaled(50_000))
POLL_MS = 200
# About 20 ms for 6,000 topics. A quadratic version took 0.5 s for them, and 8 s for 16,000.
BUSY_S = max(0.25, 0.25 * TOPICS / 25_000)
LIMIT_S = 120
OPTIONS: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 60_000}


@pytest.fixture(autouse=True)
def only_the_heap_of_the_test() -> Iterator[None]:
    """Keeps the collector from looking through what earlier tests left, which takes 0.1 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        for start in range(0, TOPICS, 2_000):
            numbers = range(start, min(TOPICS, start + 2_000))
            admin.create_topics([NewTopic(f"events-{each:06}", 1, 1) for each in numbers])
        admin.close()
        yield broker.bootstrap_servers


def _busiest(consumer: KafkaConsumer[Any, Any], partitions: int) -> float:
    """Returns the CPU time of the slowest poll until all partitions are read."""
    busiest = 0.0
    end = time.monotonic() + LIMIT_S
    settled = 0
    while settled < 5:
        assert time.monotonic() < end, f"{len(consumer.assignment())} partitions assigned"
        began = time.thread_time()
        consumer.poll(timeout_ms=POLL_MS)
        busiest = max(busiest, time.thread_time() - began)
        # A few more polls look up committed offsets and positions.
        settled += len(consumer.assignment()) == partitions
    return busiest


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
def test_no_poll_computes_for_long_while_many_topics_are_assigned(
    servers: str, protocol: Any
) -> None:
    group: dict[str, Any] = {}
    if protocol is not None:
        group = {"group_id": f"late-{protocol}", "group_protocol": protocol}
    with KafkaConsumer(bootstrap_servers=servers, **OPTIONS, **group) as consumer:
        consumer.subscribe(pattern="events-.*")
        assert _busiest(consumer, TOPICS) < BUSY_S


def test_no_poll_computes_for_long_while_many_topics_do_not_match(servers: str) -> None:
    with KafkaConsumer(bootstrap_servers=servers, group_id="none", **OPTIONS) as consumer:
        consumer.subscribe(pattern="others-.*")
        assert _busiest(consumer, 0) < BUSY_S


def test_an_event_loop_goes_on_while_many_topics_are_assigned(servers: str) -> None:
    async def longest_step() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id="loop", **OPTIONS)
        steps = [0.0]

        async def tick() -> None:
            while True:
                began = time.thread_time()
                await asyncio.sleep(0.005)
                steps.append(time.thread_time() - began)

        async with consumer:
            ticking = asyncio.create_task(tick())
            consumer.subscribe(pattern="events-.*")
            end = time.monotonic() + LIMIT_S
            while len(consumer.assignment()) < TOPICS:
                assert time.monotonic() < end
                await consumer.getmany(timeout_ms=POLL_MS)
            ticking.cancel()
        return max(steps)

    assert asyncio.run(longest_step()) < BUSY_S
