"""Members whose application holds the GIL for longer than their session timeout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.integration.support.groups import Group, Heard
from tests.support.brokers import Broker, configured
from tests.support.gil import hold_the_gil
from tests.support.scale import scaled

# Longer than a machine may pause.
SESSION_MS, HEARTBEAT_MS = 6000, 400
# More than a session even in a small run. In a full run, as long as a call in C may take.
HELD_S = scaled(120, 8)
CONFIGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
}
CLASSIC = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}


@pytest.fixture(scope="module", params=["embedded", "kafka-4.3"])
def strict(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with short sessions: in this process, where the GIL blocks it too, or in a JVM."""
    with configured(request.param, CONFIGS) as broker:
        yield broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_application_that_holds_the_interpreter_loses_nothing(
    strict: Broker, clients: Clients, protocol: str
) -> None:
    """Neither the client nor the embedded broker needs Python for heartbeats."""
    group = Group(strict, clients, protocol)
    options: dict[str, Any] = {"enable_auto_commit": False}
    options |= CLASSIC if protocol == "classic" else {}
    heard = Heard()
    member = group.join(heard, **options)
    group.settle()
    group.send(range(8))
    group.poll_until(lambda: len(group.records) == 8)
    generation = member.group_metadata().generation_id
    with within(2 * HELD_S, at_least_s=HELD_S):
        hold_the_gil(HELD_S)
    member.commit()  # before a poll could rejoin
    group.send(range(8, 16))
    group.poll_until(lambda: len(group.records) == 16)
    assert group.values() == list(range(16))
    assert member.group_metadata().generation_id == generation
    assert heard.events == [("assigned", [0, 1, 2, 3])]
    # Without heartbeats the group would have removed the member by now.
    member._stop_heartbeat()
    group.members.remove(member)
    group.join(**options)
    assert group.settle() == [{0, 1, 2, 3}]
