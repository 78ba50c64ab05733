"""Heartbeats and the poll-interval check of the native core, for a member that joined manually."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.integration.support.scripted import (
    FIND_COORDINATOR,
    HEARTBEAT,
    LEAVE_GROUP,
    Close,
    Request,
    ScriptedBroker,
    group_response,
)
from tests.support.brokers import Broker, configured
from tests.support.gil import hold_the_gil
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from thalweg import TopicPartition
from thalweg.coordinator.driver import Driver
from thalweg.coordinator.steps import Heartbeats
from thalweg.errors import KafkaConnectionError, WakeupError

GROUP = "by-hand"
WHERE: Any = ("coordinator", "group", GROUP)
# Longer than a machine may pause. What a member survives lasts a little longer than its session.
SESSION_MS, INTERVAL_MS = 6000, 500
OVER_S = 1.25 * SESSION_MS / 1000
LIMIT_S = 60
HOUR_MS = 3_600_000
_COORDINATOR_LOADING = 14
_UNKNOWN_SERVER_ERROR, _REQUEST_TIMED_OUT, _GROUP_AUTHORIZATION_FAILED = -1, 7, 30
_NOT_COORDINATOR, _UNKNOWN_MEMBER, _REBALANCE_IN_PROGRESS = 16, 25, 27


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A real Kafka that accepts short session timeouts."""
    configs = {
        "group.min.session.timeout.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
    }
    with configured("kafka-4.3", configs) as broker:
        yield broker


def _beat(consumer: Any, node: Any = WHERE, **changes: Any) -> None:
    consumer._set_subscribed(True)  # as a member is
    given: dict[str, Any] = {
        "api": "Heartbeat",
        "body": {"GroupId": GROUP, "GenerationId": 1, "MemberId": "m"},
        "interval_ms": 100,
        "leave": ("LeaveGroup", {"GroupId": GROUP, "MemberId": "m"}),
        "max_poll_interval_ms": HOUR_MS,
        **changes,
    }
    consumer._heartbeat(Heartbeats(**given), node)


@dataclass
class Member:
    """A consumer that is a Stable member of its own new group."""

    consumer: Any
    group: str
    session_ms: int
    member_id: str = ""
    generation: int = -1

    def __post_init__(self) -> None:
        joined: Any = wait_until(self._join, LIMIT_S)
        self.generation = joined["GenerationId"]
        given = [{"MemberId": self.member_id, "Assignment": b"all"}]
        protocol = {"ProtocolType": "by-hand", "ProtocolName": "p"}
        body = {**self.name(), **protocol, "Assignments": given}
        synced = self.consumer._core_client.request("SyncGroup", body, self.where)
        assert synced["ErrorCode"] == 0, synced

    @property
    def where(self) -> tuple[str, str, str]:
        return ("coordinator", "group", self.group)

    def name(self) -> dict[str, Any]:
        """Returns the fields that identify the member in requests."""
        return {
            "GroupId": self.group,
            "GenerationId": self.generation,
            "MemberId": self.member_id,
        }

    def join_body(self, member_id: str) -> dict[str, Any]:
        return {
            "GroupId": self.group,
            "MemberId": member_id,
            "SessionTimeoutMs": self.session_ms,
            "RebalanceTimeoutMs": 60_000,
            "ProtocolType": "by-hand",
            "Protocols": [{"Name": "p", "Metadata": b""}],
        }

    def _join(self) -> dict[str, Any] | None:
        body = self.join_body(self.member_id)
        response: dict[str, Any] = self.consumer._core_client.request("JoinGroup", body, self.where)
        self.member_id = response["MemberId"]  # the first response may only give this ID (KIP-394)
        return response if response["ErrorCode"] == 0 else None

    def beat(self, **changes: Any) -> None:
        where = {"body": self.name(), "node": self.where, "interval_ms": INTERVAL_MS}
        _beat(self.consumer, **{**where, **changes})

    def members(self) -> list[str]:
        """Returns the group's members, as its coordinator describes it."""
        body = {"Groups": [self.group]}
        response = self.consumer._core_client.request("DescribeGroups", body, self.where)
        return [each["MemberId"] for each in response["Groups"][0]["Members"]]


def _member(clients: Clients, broker: Any, group: str = GROUP) -> Any:
    return clients.consumer(broker, group_id=group, enable_auto_commit=False)


def _joined(clients: Clients, broker: Any, group: str, session_ms: int = SESSION_MS) -> Member:
    return Member(_member(clients, broker, group), group, session_ms)


def _compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_a_busy_application_stays_in_its_group(kafka: Broker, clients: Clients) -> None:
    member = _joined(clients, kafka, "busy")
    consumer = member.consumer
    member.beat()
    hold_the_gil(OVER_S)
    _compute(2.5)
    assert member.members() == [member.member_id]
    assert consumer._notable_heartbeats() == []
    figures = consumer.metrics()["consumer-coordinator-metrics"]
    assert figures["heartbeat-total"] >= 5
    assert figures["heartbeat-rate"] > 0
    assert figures["heartbeat-response-time-max"] > 0
    assert 0 <= figures["last-heartbeat-seconds-ago"] < SESSION_MS / 1000
    # Without heartbeats the group would have removed the member.
    consumer._stop_heartbeat()
    wait_until(lambda: not member.members(), LIMIT_S)


def test_a_member_that_computes_before_it_reads_the_response_to_its_join_stays(
    kafka: Broker, clients: Clients
) -> None:
    topics = [kafka.create_topic("joined", 2) for _ in range(2)]
    group = topics[0]
    options: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": INTERVAL_MS,
    }
    consumer = clients.consumer(kafka, group_id=group, enable_auto_commit=False, **options)

    def has(count: int) -> bool:
        consumer.poll(50)
        return len(consumer.assignment()) == count

    consumer.subscribe(topics)
    wait_until(lambda: has(4), LIMIT_S)
    before = consumer.group_metadata()
    consumer.subscribe(topics[:1])
    consumer.poll(0)  # sends JoinGroup, and does not wait
    hold_the_gil(OVER_S)
    (found,) = consumer._core_client.request(
        "DescribeGroups", {"Groups": [group]}, ("coordinator", "group", group)
    )["Groups"]
    assert found["GroupState"] == "CompletingRebalance"
    assert [each["MemberId"] for each in found["Members"]] == [before.member_id]
    wait_until(lambda: has(2), LIMIT_S)
    after = consumer.group_metadata()
    assert (after.member_id, after.generation_id) == (before.member_id, before.generation_id + 1)


def test_who_does_not_poll_leaves_the_group_long_before_its_session_ends(
    kafka: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    member = _joined(clients, kafka, "left", 300_000)
    consumer = member.consumer
    old = {"GroupId": member.group, "MemberId": member.member_id}
    new = {"GroupId": member.group, "Members": [{"MemberId": member.member_id}]}
    leave = ("LeaveGroup", [(0, old), (3, new)])
    with caplog.at_level(logging.WARNING, "thalweg.consumer"):
        assert member.members() == [member.member_id]
        member.beat(leave=leave, max_poll_interval_ms=1000)
        wait_until(lambda: not member.members(), LIMIT_S)
        wait_until(lambda: "max_poll_interval_ms (1000 ms)" in caplog.text, LIMIT_S)
    assert "max_poll_records" in caplog.text
    assert consumer._poll_expired()
    assert not consumer._poll_expired()


def test_a_rebalance_is_told_at_once_and_the_member_is_kept(
    kafka: Broker, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    _on_notable(monkeypatch, told)
    member = _joined(clients, kafka, "rebalanced")
    member.beat()
    second = _member(clients, kafka, member.group)._core_client
    asked = second.request("JoinGroup", member.join_body(""), member.where)
    joining = member.join_body(asked["MemberId"])
    waits = second.submit("JoinGroup", joining, member.where, timeout_ms=60_000)
    with within(30), pytest.raises(WakeupError):
        member.consumer.poll(60_000)
    assert told[0][0]["ErrorCode"] == _REBALANCE_IN_PROGRESS
    _compute(OVER_S)  # without heartbeats the group would remove the member
    assert member.member_id in member.members()
    assert not waits.is_done


def _enter(client: Any, group: str, member: str, topic: str) -> dict[str, Any]:
    """Joins a group of the consumer protocol (KIP-848), and returns the response."""
    body = {
        "GroupId": group,
        "MemberId": member,
        "MemberEpoch": 0,
        "RebalanceTimeoutMs": 60_000,
        "SubscribedTopicNames": [topic],
        "TopicPartitions": [],
    }

    where = ("coordinator", "group", group)

    def entered() -> dict[str, Any] | None:
        response: dict[str, Any] = client.request("ConsumerGroupHeartbeat", body, where)
        # A coordinator that has just been found may still be loading.
        if response["ErrorCode"] in (_COORDINATOR_LOADING, _NOT_COORDINATOR):
            return None
        assert response["ErrorCode"] == 0, response
        return response

    response: Any = wait_until(entered, what="the coordinator")
    return dict(response)


def test_a_member_that_the_coordinator_moves_on_is_not_fenced_while_python_is_busy(
    kafka: Broker, clients: Clients
) -> None:
    group = kafka.unused_name("moved-on")
    where: Any = ("coordinator", "group", group)
    consumer: Any = clients.consumer(kafka, group_id=group)
    epoch = _enter(consumer._core_client, group, "first", kafka.create_topic("one"))["MemberEpoch"]
    body = {"GroupId": group, "MemberId": "first", "MemberEpoch": epoch}
    _beat(consumer, api="ConsumerGroupHeartbeat", body=body, node=where, interval_ms=200)
    # A second member, of another topic, increases the epochs of the group and the first member.
    _enter(consumer._core_client, group, "second", kafka.create_topic("two"))
    _compute(OVER_S)
    told: list[Any] = []

    def members() -> dict[str, int]:
        response = consumer._core_client.request(
            "ConsumerGroupDescribe", {"GroupIds": [group]}, where
        )
        return {row["MemberId"]: row["MemberEpoch"] for row in response["Groups"][0]["Members"]}

    def has_moved_on() -> bool:
        told.extend(consumer._notable_heartbeats())
        assert [body["ErrorCode"] for body, *_ in told] == [0] * len(told)
        moved = max((body["MemberEpoch"] for body, *_ in told), default=epoch)
        return bool(members()["first"] == moved > epoch)

    wait_until(has_moved_on, what="an epoch that the member and the group agree on")
    wait_until(
        lambda: members().keys() == {"first"},
        what="the end of the second, which sent no heartbeats",
    )


def _on_notable(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    """Makes poll raise WakeupError as soon as a heartbeat has something to report."""

    def before_poll(self: Driver, left_ms: int | None, polls: bool = True) -> None:
        del left_ms, polls
        told.extend(self._consumer._notable_heartbeats())
        if told or self._consumer._poll_expired():
            consumer: Any = self._consumer
            consumer.wakeup()

    monkeypatch.setattr(Driver, "before_poll", before_poll)


def _count(scripted: ScriptedBroker, key: int) -> int:
    return scripted.seen.count(key)


def test_the_interval_is_kept(scripted: ScriptedBroker, clients: Clients) -> None:
    consumer = _member(clients, scripted)
    began = time.monotonic()
    _beat(consumer)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= 10, 30)
    assert time.monotonic() - began > 0.99
    consumer._stop_heartbeat()
    wait_until(lambda: consumer._core_client.bootstrap_connected())  # the I/O thread has stopped it
    sent = _count(scripted, HEARTBEAT)
    _compute(0.5)
    assert _count(scripted, HEARTBEAT) - sent <= 1
    assert _count(scripted, LEAVE_GROUP) == 0


def test_a_poll_that_waits_hears_at_once_of_a_member_that_is_no_more(
    scripted: ScriptedBroker, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    _on_notable(monkeypatch, told)
    scripted.respond(HEARTBEAT, lambda _: group_response(_UNKNOWN_MEMBER))
    consumer = _member(clients, scripted)
    _beat(consumer)
    with within(30), pytest.raises(WakeupError):
        consumer.poll(60_000)
    assert [(body["ErrorCode"], error) for body, error, _ in told] == [(_UNKNOWN_MEMBER, None)]
    _compute(0.5)
    assert _count(scripted, HEARTBEAT) == 1, "heartbeats pause"
    scripted.respond(HEARTBEAT, lambda _: group_response(0))
    _beat(consumer)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= 5)


def test_heartbeats_go_on_after_an_error_that_says_nothing_of_the_membership(
    scripted: ScriptedBroker, clients: Clients
) -> None:
    """A classic member sends nothing else, and would be removed when its session ends."""
    codes = [_UNKNOWN_SERVER_ERROR, _REQUEST_TIMED_OUT, _GROUP_AUTHORIZATION_FAILED]
    left = list(codes)
    scripted.respond(HEARTBEAT, lambda _: group_response(left.pop(0) if left else 0))
    consumer = _member(clients, scripted)
    _beat(consumer)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= 8, 30)
    told = consumer._notable_heartbeats()
    assert [body["ErrorCode"] for body, *_ in told] == codes


def test_a_poll_that_waits_hears_at_once_of_a_lost_connection(
    scripted: ScriptedBroker, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_: Request) -> bytes:
        raise Close

    told: list[Any] = []
    _on_notable(monkeypatch, told)
    scripted.respond(HEARTBEAT, close)
    consumer = _member(clients, scripted)
    _beat(consumer)
    with within(30), pytest.raises(WakeupError):
        consumer.poll(60_000)
    body, error, _ = told[0]
    assert body is None
    assert isinstance(error, KafkaConnectionError)
    scripted.respond(HEARTBEAT, lambda _: group_response(0))
    before = _count(scripted, HEARTBEAT)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= before + 5)


def test_a_dead_coordinator_makes_no_busy_loop(scripted: ScriptedBroker, clients: Clients) -> None:
    """As in kafka-python #2695: heartbeats to a dead coordinator kept a core busy.

    Bug 21.
    """
    port = free_port()
    scripted.respond(FIND_COORDINATOR, lambda _: scripted.coordinator_at(9, port))
    consumer = _member(clients, scripted)
    _beat(consumer)
    wait_until(lambda: _count(scripted, FIND_COORDINATOR) >= 2, 30)
    before = len(scripted.seen)
    _compute(3)
    assert len(scripted.seen) - before < 60
    scripted.respond(FIND_COORDINATOR, lambda _: scripted.coordinator_at(1, scripted.port))
    wait_until(lambda: _count(scripted, HEARTBEAT) >= 3, 30)


def test_a_node_that_is_no_coordinator_any_more_makes_no_busy_loop(
    scripted: ScriptedBroker, clients: Clients
) -> None:
    """As in librdkafka #2944: a member that got NOT_COORDINATOR was stuck forever. Bug 21."""
    scripted.respond(HEARTBEAT, lambda _: group_response(_NOT_COORDINATOR))
    consumer = _member(clients, scripted)
    _beat(consumer, interval_ms=10)
    # Longer than a request may wait for its coordinator. A member that is not stuck tries again.
    wait_until(
        lambda: _count(scripted, HEARTBEAT) >= 2,
        75,
        what=lambda: f"a second heartbeat, after {scripted.seen}",
    )
    before = len(scripted.seen)
    _compute(3)
    assert len(scripted.seen) - before < 60
    assert {body["ErrorCode"] for body, *_ in consumer._notable_heartbeats()} == {_NOT_COORDINATOR}
    scripted.respond(HEARTBEAT, lambda _: group_response(0))
    before = _count(scripted, HEARTBEAT)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= before + 20, 30)


@pytest.mark.parametrize(
    "poll",
    [
        pytest.param(lambda consumer: consumer.poll(0), id="poll"),
        pytest.param(lambda consumer: consumer.poll(6500), id="a poll longer than the interval"),
        pytest.param(lambda consumer: consumer.poll_arrow(0), id="poll_arrow"),
        pytest.param(lambda consumer: next(consumer, None), id="iteration"),
    ],
)
def test_who_polls_does_not_expire_and_who_stops_does(
    scripted: ScriptedBroker, clients: Clients, poll: Callable[[Any], object]
) -> None:
    scripted.logs["t", 0] = []
    consumer = clients.consumer(
        scripted, group_id=GROUP, enable_auto_commit=False, consumer_timeout_ms=20
    )
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek(TopicPartition("t", 0), 0)
    # Longer than a machine may pause between two polls.
    _beat(consumer, max_poll_interval_ms=6000)
    end = time.monotonic() + 7
    while time.monotonic() < end:
        poll(consumer)
        assert not consumer._poll_expired()
    wait_until(consumer._poll_expired, LIMIT_S)
    wait_until(lambda: _count(scripted, LEAVE_GROUP) == 1, LIMIT_S)
    sent = _count(scripted, HEARTBEAT)
    _compute(0.5)
    assert _count(scripted, HEARTBEAT) == sent
    assert _count(scripted, LEAVE_GROUP) == 1


def test_shutdown_ends_heartbeats_and_leaves_nothing(
    scripted: ScriptedBroker, clients: Clients
) -> None:
    consumer = _member(clients, scripted)
    _beat(consumer)
    wait_until(lambda: _count(scripted, HEARTBEAT) >= 2)
    consumer._shutdown(5000)
    sent = _count(scripted, HEARTBEAT)
    _compute(0.5)
    assert _count(scripted, HEARTBEAT) - sent <= 1  # the server may read the last one late
    assert _count(scripted, LEAVE_GROUP) == 0


def test_what_cannot_be_sent_is_refused(scripted: ScriptedBroker, clients: Clients) -> None:
    consumer = _member(clients, scripted)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"api": "Hearbeat"}, "no Kafka API"),
        ({"body": {"GroupID": GROUP}}, "GroupID"),
        ({"node": ("coordinator", "groups", GROUP)}, "'group' or 'transaction'"),
        ({"leave": ("Leave", {})}, "no Kafka API"),
        ({"interval_ms": 0}, "interval_ms"),
        ({"interval_ms": float("nan")}, "interval_ms"),
        ({"max_poll_interval_ms": 0}, "max_poll_interval_ms"),
        ({"response_timeout_ms": -1}, "response_timeout_ms"),
    ]
    for wrong, message in refused:
        with pytest.raises(ValueError, match=message):
            _beat(consumer, **wrong)


def test_a_value_of_a_wrong_type_is_refused_by_its_name(
    scripted: ScriptedBroker, clients: Clients
) -> None:
    consumer = _member(clients, scripted)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"api": 12}, r"Heartbeats\.api"),
        ({"body": 12}, "HeartbeatRequest: expected a mapping .*, got int"),
        ({"node": 1.5}, "node: expected .*, got float"),
        ({"node": ("coordinator", "group")}, "node: expected .*, got tuple"),
        ({"interval_ms": "100"}, r"Heartbeats\.interval_ms"),
        ({"leave": "LeaveGroup"}, r"Heartbeats\.leave"),
        ({"leave": ("LeaveGroup",)}, r"Heartbeats\.leave"),
        ({"leave": ("LeaveGroup", 12)}, "LeaveGroupRequest: expected a mapping .*, got int"),
        ({"max_poll_interval_ms": None}, r"Heartbeats\.max_poll_interval_ms"),
        ({"response_timeout_ms": "1"}, r"Heartbeats\.response_timeout_ms"),
    ]
    for changes, message in wrong:
        with pytest.raises(TypeError, match=message):
            _beat(consumer, **changes)
