"""A coordinator moves, restarts, loads, or cannot be found: members keep their partitions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read, within
from tests.integration.support.groups import PARTITIONS, Group, Heard
from tests.integration.support.scripts import start
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, OffsetAndMetadata, TopicPartition
from thalweg.errors import KafkaTimeoutError

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
}
LOADING = ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"]


def _joined(
    started: EmbeddedBroker, clients: Clients, protocol: str, heard: Heard
) -> tuple[Group, Any]:
    group = Group(Broker("embedded", started.bootstrap_servers), clients, protocol)
    options = {"heartbeat_interval_ms": 100} if protocol == "classic" else {}
    member = group.join(heard, **options)
    group.settle()
    return group, member


def _reads_on(group: Group, count: int = 20) -> None:
    """Checks that the group reads all records sent from now on, each once."""
    group.records.clear()
    group.send(range(count))
    group.poll_until(lambda: len(group.records) >= count)
    assert group.values() == list(range(count))


@BOTH
def test_a_coordinator_that_moves_costs_no_rebalance(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """Another node becomes the coordinator. The generation and all assignments stay the same.

    Scenario 4.
    """
    started = start_embedded(nodes=3, configs=QUICK)
    heard = Heard()
    group, member = _joined(started, clients, protocol, heard)
    generation = member.group_metadata().generation_id
    for node in started.nodes:
        started.move_coordinator(group.topic, node)
        _reads_on(group)
        member.commit()
    assert member.group_metadata().generation_id == generation
    assert heard.events == [("assigned", list(range(PARTITIONS)))]


@BOTH
def test_a_rolling_restart_leaves_no_member_behind(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """As in librdkafka #2944: stuck forever after NOT_COORDINATOR in a rolling update.

    The test stops each node in turn, including the coordinator and the leaders. Bug 21.
    """
    started = start_embedded(nodes=3, configs=QUICK)
    heard = Heard()
    group, member = _joined(started, clients, protocol, heard)
    for node in started.nodes:
        started.move_coordinator(group.topic, node)
        _reads_on(group)
        started.stop_node(node)
        _reads_on(group)
        member.commit()
        started.start_node(node)
        _reads_on(group)
        member.commit()
    assert heard.events == [("assigned", list(range(PARTITIONS)))]
    other = group.join()
    group.settle()
    assert other.assignment()


@pytest.mark.parametrize(
    "protocol, api",
    [
        ("classic", "JoinGroup"),
        ("classic", "SyncGroup"),
        ("classic", "Heartbeat"),
        ("classic", "OffsetFetch"),
        ("consumer", "ConsumerGroupHeartbeat"),
        ("consumer", "OffsetFetch"),
        ("consumer", "OffsetCommit"),
    ],
)
def test_a_coordinator_that_loads_is_waited_for(
    start_embedded: Any, clients: Clients, protocol: str, api: str
) -> None:
    """The new coordinator of a group first reads it from its log, and nothing is lost meanwhile.

    Scenario 4.
    """
    started = start_embedded(configs=QUICK)
    heard = Heard()
    faults = [started.faults.on(api).then_fail(each) for each in LOADING]
    group, member = _joined(started, clients, protocol, heard)
    _reads_on(group)
    member.commit()
    group.poll_until(lambda: [each.hits for each in faults] == [1, 1, 1])
    _reads_on(group)
    assert heard.events == [("assigned", list(range(PARTITIONS)))]


def _share_of_a_core(work: Callable[[], object], seconds: float) -> float:
    """Returns the part of a core that this process uses during `seconds` of work."""
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        work()
    return (time.process_time() - used) / (time.monotonic() - began)


@BOTH
def test_a_coordinator_that_is_nowhere_makes_no_busy_loop(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """As in kafka-python #2695: without a coordinator a consumer kept a core and the brokers busy.

    Bug 21.
    """
    started = start_embedded(configs=QUICK)
    group = Group(Broker("embedded", started.bootstrap_servers), clients, protocol)
    with started.faults.on("FindCoordinator").then_fail("COORDINATOR_NOT_AVAILABLE", times=None):
        member = group.join()
        assert _share_of_a_core(lambda: member.poll(500), 3) < 0.3
        assert started.requests("FindCoordinator").get("FindCoordinator", 0) <= 60
        assert sum(started.requests().values()) < 200
        wait_until(  # it continues to try
            lambda: (
                member.poll(100) == {}
                and started.requests("FindCoordinator").get("FindCoordinator", 0) >= 3
            )
        )
    assert group.settle() == [set(range(PARTITIONS))]
    started.faults.on("FindCoordinator").then_fail("COORDINATOR_NOT_AVAILABLE", times=None)
    started.faults.on("OffsetCommit").then_fail("NOT_COORDINATOR", times=None)
    before = sum(started.requests().values())
    with pytest.raises(KafkaTimeoutError, match="took longer than"):
        member.commit({TopicPartition(group.topic, 0): OffsetAndMetadata(0)}, timeout_ms=2000)
    assert sum(started.requests().values()) - before < 200
    started.faults.clear()


@BOTH
def test_a_stale_epoch_is_not_asked_with_over_and_over(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """KAFKA-20765: an OffsetFetch refused for its epoch was sent again without a pause.

    After any refusal, the consumer starts at the committed offset, not by the reset policy. Bug 22.
    """
    started = start_embedded(configs=QUICK)
    topic, where = "committed", TopicPartition("committed", 0)
    started.create_topic(topic)
    fill(clients, started, topic, 10)
    options: dict[str, Any] = {"group_id": "g", "group_protocol": protocol}
    options["enable_auto_commit"] = False
    with clients.consumer(started, **options) as first:
        first.subscribe([topic])
        read(first, 10)
        first.commit({where: OffsetAndMetadata(7)})
    code = "STALE_MEMBER_EPOCH" if protocol == "consumer" else "UNSTABLE_OFFSET_COMMIT"
    asked = started.requests("OffsetFetch").get("OffsetFetch", 0)
    with started.faults.on("OffsetFetch").then_fail(code, times=None) as fault:
        second = clients.consumer(started, **options)
        second.subscribe([topic])
        wait_until(lambda: second.poll(20) == {} and fault.hits >= 2, 20)
        assert _share_of_a_core(lambda: second.poll(500), 2) < 0.3
        asked = started.requests("OffsetFetch")["OffsetFetch"] - asked
        assert asked <= 60
    with within(30):
        assert [each.offset for each in read(second, 3)] == [7, 8, 9]


def _leave_is_lost(started: EmbeddedBroker, group: Group, protocol: str) -> None:
    api = "LeaveGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    started.faults.on(api).then_disconnect()


def _response_to_the_leave_is_lost(started: EmbeddedBroker, group: Group, protocol: str) -> None:
    api = "LeaveGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    started.faults.on(api).apply_then_disconnect()


def _coordinator_moves(started: EmbeddedBroker, group: Group, protocol: str) -> None:
    for node in started.nodes:  # the last node was not the coordinator before
        started.move_coordinator(group.topic, node)


def _coordinator_loads(started: EmbeddedBroker, group: Group, protocol: str) -> None:
    api = "LeaveGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    for error in LOADING:
        started.faults.on(api).then_fail(error)


@pytest.mark.parametrize(
    "happens",
    [_leave_is_lost, _response_to_the_leave_is_lost, _coordinator_moves, _coordinator_loads],
)
@BOTH
def test_closing_leaves_the_group_whatever_happens_to_its_coordinator(
    start_embedded: Any, clients: Clients, protocol: str, happens: Callable[..., None]
) -> None:
    """Otherwise the group would keep the closed member's partitions until its session ends."""
    started = start_embedded(nodes=3)
    group = Group(Broker("embedded", started.bootstrap_servers), clients, protocol)
    first = group.join()
    group.settle()
    started.move_coordinator(group.topic, started.nodes[0])
    first.commit()  # finds the coordinator
    happens(started, group, protocol)
    with within(20):
        group.leave(first)
    assert [each["group_state"] for each in clients.admin(started).list_groups()] == ["Empty"]


ROUNDS = 20
MEMBER = """
from thalweg.errors import KafkaError

servers, topic, protocol = sys.argv[1:4]
rounds = int(sys.argv[4])
consumer = KafkaConsumer(
    topic,
    bootstrap_servers=servers,
    group_id=topic,
    group_protocol=protocol,
    auto_offset_reset="earliest",
    auto_commit_interval_ms=20,
    reconnect_backoff_ms=1,
    retry_backoff_ms=1,
    **({"heartbeat_interval_ms": 5} if protocol == "classic" else {}),
)
while not consumer.poll(100):
    pass
print("joined")
read = refused = 0
while read < rounds:
    read += sum(len(each) for each in consumer.poll(5).values())
    try:
        consumer.commit(timeout_ms=500)
    except KafkaError:
        refused += 1
print("read")
consumer.close(timeout_ms=5000)
print("closed")
"""


@BOTH
def test_heartbeats_and_the_application_do_not_wait_for_each_other(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """As in kafka-python #1623, #1671: the heartbeat thread and the polling thread deadlocked.

    Each waited for the other's lock when the coordinator's connection broke, or during the lookup
    of the coordinator. Bug 20.
    """
    started = start_embedded(nodes=2, configs=QUICK)
    started.create_topic("beating")
    started.move_coordinator("beating", started.nodes[0])
    producer = clients.producer(started)
    producer.send("beating", b"first").get(20)
    with start(MEMBER, started.bootstrap_servers, "beating", protocol, ROUNDS) as script:
        script.wait_for("joined")
        heartbeat = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
        for number in range(ROUNDS):
            for api in (heartbeat, "OffsetCommit", "FindCoordinator"):
                fault = started.faults.on(api).then_disconnect()
                if api == "FindCoordinator":
                    started.move_coordinator("beating", started.nodes[(number + 1) % 2])
                wait_until(lambda fault=fault: fault.hits == 1, 20)  # type: ignore[misc]
            producer.send("beating", b"%d" % number).get(20)
        script.wait_for("read")
        with within(25):
            script.wait_for("closed")
        assert script.end().code == 0
