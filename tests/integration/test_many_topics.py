"""Patterns that match many topics: each poll ends in time, whatever is left to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.scale import scaled
from thalweg import KafkaAdminClient, KafkaConsumer
from thalweg.admin import NewTopic
from thalweg.aio import AIOKafkaConsumer
from thalweg.broker import EmbeddedBroker

TOPICS = max(4_000, scaled(50_000))
POLL_MS = 200
# Other processes of the test run take their share; quadratic work took 0.3 s here, 8 s of 16,000.
LATE_S = 0.25
LIMIT_S = 120
OPTIONS = {"auto_offset_reset": "earliest", "request_timeout_ms": 60_000}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        for start in range(0, TOPICS, 2_000):
            numbers = range(start, min(TOPICS, start + 2_000))
            admin.create_topics([NewTopic(f"events-{each:06}", 1, 1) for each in numbers])
        admin.close()
        yield broker.bootstrap_servers


def _lateness(consumer: KafkaConsumer[Any, Any], partitions: int) -> float:
    """By how much the longest poll overran its timeout, until all partitions are read."""
    late = 0.0
    end = time.monotonic() + LIMIT_S
    settled = 0
    while settled < 5:
        assert time.monotonic() < end, f"{len(consumer.assignment())} partitions assigned"
        began = time.monotonic()
        consumer.poll(timeout_ms=POLL_MS)
        late = max(late, time.monotonic() - began - POLL_MS / 1000)
        # Then come committed offsets, positions and the first auto-commit.
        settled += len(consumer.assignment()) == partitions
    return late


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
def test_polls_end_in_time_while_many_topics_are_assigned(servers: str, protocol: Any) -> None:
    group: dict[str, Any] = {}
    if protocol is not None:
        group = {"group_id": f"late-{protocol}", "group_protocol": protocol}
    with KafkaConsumer(bootstrap_servers=servers, **OPTIONS, **group) as consumer:
        consumer.subscribe(pattern="events-.*")
        assert _lateness(consumer, TOPICS) < LATE_S


def test_polls_end_in_time_while_many_topics_do_not_match(servers: str) -> None:
    with KafkaConsumer(bootstrap_servers=servers, group_id="none", **OPTIONS) as consumer:
        consumer.subscribe(pattern="others-.*")
        assert _lateness(consumer, 0) < LATE_S


def test_an_event_loop_goes_on_while_many_topics_are_assigned(servers: str) -> None:
    async def longest_pause() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id="loop", **OPTIONS)
        pauses = [0.0]

        async def tick() -> None:
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.005)
                pauses.append(time.monotonic() - began)

        async with consumer:
            ticking = asyncio.create_task(tick())
            consumer.subscribe(pattern="events-.*")
            end = time.monotonic() + LIMIT_S
            while len(consumer.assignment()) < TOPICS:
                assert time.monotonic() < end
                await consumer.getmany(timeout_ms=POLL_MS)
            ticking.cancel()
        return max(pauses)

    assert asyncio.run(longest_pause()) < LATE_S
