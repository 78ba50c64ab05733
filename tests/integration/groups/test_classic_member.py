"""`ClassicMember` in groups of real brokers: both sides understand each other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.coordinator.assignors import Spread, Sticky
from tests.support.brokers import Broker, Brokers
from tests.support.kafka.cluster import VERSIONS
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, TopicPartition
from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Assign,
    CallbacksDone,
    Closed,
    ForgetCoordinator,
    HeartbeatResponded,
    Heartbeats,
    Lose,
    Polled,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
)
from thalweg.errors import KafkaError

PARTITIONS = 6
LIMIT_S = 60


@dataclass(frozen=True)
class Place:
    """A broker, and a topic of this file."""

    broker: Broker
    topic: str

    def group(self, name: str) -> str:
        return f"{self.topic}-{name}"


class Runner:
    """The part of a driver that these tests need: one step at a time, in the test's own thread."""

    def __init__(self, place: Place, group: str, assignor: Any, instance: str | None) -> None:
        # Heartbeats come from the test's thread, too: a pause must not end the session.
        settings = MemberSettings(
            group, instance, heartbeat_interval_ms=200, session_timeout_ms=90_000
        )
        self.member = ClassicMember(settings, [assignor], lambda: 1.0)
        self.lost = False
        self._consumer = KafkaConsumer(bootstrap_servers=place.broker.bootstrap_servers)
        self._client = self._consumer._core_client
        self._where: Any = ("coordinator", "group", group)
        self._group = group
        self._pending: list[tuple[int, Any]] = []
        self._beats: Heartbeats | None = None
        self._beat_at = 0.0
        self._step(Subscribed(frozenset({place.topic})))
        self._step(TopicsChanged({place.topic: PARTITIONS}, {}))

    def poll(self) -> tuple[TopicPartition, ...]:
        for token, request in list(self._pending):
            if request.is_done:
                self._pending.remove((token, request))
                self._step(self._responded(token, request))
        self._beat()
        self._step(Ticked())
        self._step(Polled())
        return self.member.assignment

    def close(self, leave: bool = True) -> None:
        self._step(Closed(leave))
        for _, request in self._pending:
            request.result(30_000)
        self._consumer.close()

    def _responded(self, token: int, request: Any) -> Responded:
        try:
            return Responded(token, request.result(0))
        except KafkaError as error:
            return Responded(token, None, error)

    def _beat(self) -> None:
        if self._beats is None or time.monotonic() < self._beat_at:
            return
        self._beat_at = time.monotonic() + self._beats.interval_ms / 1000
        body = self._client.request(self._beats.api, self._beats.body, self._where)
        self._step(HeartbeatResponded(body))

    def _step(self, event: Any) -> None:
        actions = self.member.step(event, time.monotonic() * 1000)
        for action in actions:
            match action:
                case Send():
                    timeout_ms = int(action.timeout_ms)
                    request = self._client.submit(
                        action.api, action.body, self._where, timeout_ms=timeout_ms
                    )
                    self._pending.append((action.token, request))
                case Heartbeats():
                    self._beats = action
                case StopHeartbeats():
                    self._beats = None
                case ForgetCoordinator():
                    self._client.forget_coordinator("group", self._group)
                case Lose():
                    self.lost = True
        if any(isinstance(each, Revoke | Lose | Assign) for each in actions):
            self._step(CallbacksDone())


@pytest.fixture(scope="module", params=VERSIONS)
def place(request: pytest.FixtureRequest, brokers: Brokers) -> Place:
    broker = brokers.get(f"kafka-{request.param}")
    return Place(broker, broker.create_topic("classic-member", PARTITIONS))


def share_all(place: Place, *members: Runner) -> bool:
    """Whether each partition has exactly one owner, and no rebalance is in progress.

    A cooperative member keeps its partitions during a rebalance. If it closes then, it loses them.
    """
    owned = sorted(each for member in members for each in member.poll())
    everyone = all(
        member.member.assignment and member.member.state is MemberState.STABLE for member in members
    )
    return everyone and owned == [
        TopicPartition(place.topic, number) for number in range(PARTITIONS)
    ]


@pytest.mark.parametrize("assignor", [Spread, Sticky])
def test_members_share_a_topic_as_they_come_and_go(place, assignor):
    group = place.group(f"dynamic-{assignor.name}")
    first = Runner(place, group, assignor(), None)
    wait_until(lambda: share_all(place, first), LIMIT_S)
    second = Runner(place, group, assignor(), None)
    wait_until(lambda: share_all(place, first, second), LIMIT_S)
    first.close()
    wait_until(lambda: share_all(place, second), LIMIT_S)
    assert not first.lost
    assert not second.lost
    second.close()


def test_a_static_member_finds_its_partitions_again(place):
    group = place.group("static")
    first = Runner(place, group, Spread(), "a")
    second = Runner(place, group, Spread(), "b")
    wait_until(lambda: share_all(place, first, second), LIMIT_S)
    owned, generation = second.member.assignment, second.member.generation
    second.close()
    back = Runner(place, group, Spread(), "b")
    wait_until(lambda: share_all(place, first, back), LIMIT_S)
    assert (back.member.assignment, back.member.generation) == (owned, generation)
    first.close()
    back.close()
