"""A member of a group with many topics: long steps run in a separate thread (on a fake core)."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.waiting import wait_until
from tests.unit.coordinator.membership.member import apis, joined
from thalweg.coordinator.assignors.range import RangePartitionAssignor
from thalweg.coordinator.classic.ownership import Ownership
from thalweg.coordinator.driver import _waits
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import KafkaTimeoutError
from thalweg.structs import OffsetAndMetadata, TopicPartition

MANY = _waits.LONG + 1
NAMES = [f"events-{number:05}" for number in range(MANY)]
PARTITIONS = [TopicPartition(name, 0) for name in NAMES]


def leading() -> dict[str, Any]:
    """Makes a JoinGroup response for the leader of a group of one."""
    metadata = Subscription(3, NAMES).encode()
    return {**joined(), "Leader": "m", "Members": [{"MemberId": "m", "Metadata": metadata}]}


def synced(body: Any) -> dict[str, Any]:
    """Responds with the leader's assignment, or assigns everything to a follower."""
    rows = body["Assignments"]
    return {
        "ErrorCode": 0,
        "Assignment": rows[0]["Assignment"] if rows else Assignment(3, PARTITIONS).encode(),
    }


@pytest.fixture
def make(fake: Any) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        consumer = fake.consumer.KafkaConsumer(**{"group_id": "g", **configs})
        row = {"ErrorCode": 0, "IsInternal": False, "Partitions": [{"PartitionIndex": 0}]}
        consumer.client.responses.update(
            Metadata={
                "Brokers": [],
                "Topics": [{"Name": name, "TopicId": f"id-{name}", **row} for name in NAMES],
            },
            JoinGroup=leading(),
            SyncGroup=synced,
            LeaveGroup={"ErrorCode": 0},
            OffsetCommit={"Topics": []},
            OffsetFetch={"Groups": [{"GroupId": "g", "ErrorCode": 0, "Topics": []}]},
        )
        consumer.subscribe(pattern="events-.*")
        made.append(consumer)
        return consumer

    yield call
    for each in made:
        each.close(timeout_ms=1000)


class Gate:
    """Blocks the assignor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.threads: list[threading.Thread] = []
        decide = RangePartitionAssignor.assign_group

        def slowly(assignor: RangePartitionAssignor, group: Any) -> Any:
            self.threads.append(threading.current_thread())
            self.begun.set()
            assert self.opened.wait(30)
            return decide(assignor, group)

        monkeypatch.setattr(RangePartitionAssignor, "assign_group", slowly)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def poll(consumer: Any) -> None:
    consumer.hooks.before_poll(10)


def wait_for_threads() -> None:
    """Waits for the long steps. A thread wakes the poll only after its step has a result."""
    wait_until(lambda: all(each.name != "thalweg-coordinator" for each in threading.enumerate()))


def polled_until(consumer: Any, condition: Callable[[], bool]) -> None:
    def seen() -> bool:
        poll(consumer)
        return condition()

    wait_until(seen, 30)


def test_polls_end_while_an_assignor_decides_about_many_topics(
    make: Callable[..., Any], gate: Gate
) -> None:
    consumer = make()
    polled_until(consumer, gate.begun.is_set)
    for _ in range(3):
        poll(consumer)
    assert "SyncGroup" not in apis(consumer)
    assert consumer._driver.group_metadata().member_id == ""  # the state before the step
    gate.opened.set()
    polled_until(consumer, lambda: consumer.assignment() == set(PARTITIONS))
    assert threading.current_thread() not in gate.threads


def test_the_end_of_a_long_step_wakes_the_poll(make: Callable[..., Any], gate: Gate) -> None:
    consumer = make()
    polled_until(consumer, gate.begun.is_set)
    poll(consumer)
    consumer.calls.clear()
    gate.opened.set()
    wait_until(lambda: "reenter" in consumer.calls, 30)


def test_polls_that_change_nothing_do_not_wake_themselves(make: Callable[..., Any]) -> None:
    consumer = make()
    polled_until(consumer, lambda: "JoinGroup" in apis(consumer))
    polled_until(consumer, lambda: consumer.assignment() == set(PARTITIONS))
    consumer.client.held = []
    consumer.heard.append(({"ErrorCode": 27}, None))  # the group rebalances
    polled_until(consumer, lambda: apis(consumer).count("JoinGroup") == 2)
    wait_for_threads()
    poll(consumer)
    wait_for_threads()
    consumer.calls.clear()
    poll(consumer)  # not settled: this starts another long step, which changes nothing
    wait_for_threads()
    assert "reenter" not in consumer.calls


def test_leaving_waits_for_a_long_step(make: Callable[..., Any], gate: Gate) -> None:
    consumer = make()
    polled_until(consumer, gate.begun.is_set)
    poll(consumer)
    threading.Timer(0.05, gate.opened.set).start()
    consumer.unsubscribe()
    assert apis(consumer)[-1] == "LeaveGroup"


class OwnAssignor(RangePartitionAssignor):
    threads: list[threading.Thread]

    def assign(self, cluster: Any, members: Any) -> Any:
        type(self).threads = [threading.current_thread()]
        return super().assign(cluster, members)


def test_an_assignor_of_the_users_own_runs_in_the_thread_that_polls(
    make: Callable[..., Any],
) -> None:
    consumer = make(partition_assignment_strategy=[OwnAssignor])
    polled_until(consumer, lambda: consumer.assignment() == set(PARTITIONS))
    assert OwnAssignor.threads == [threading.current_thread()]


def test_many_committed_offsets_are_asked_for_and_read_beside_the_polls(
    make: Callable[..., Any],
) -> None:
    consumer = make()
    consumer.waiting = list(PARTITIONS)
    polled_until(consumer, lambda: not consumer.waiting)
    assert consumer.found == dict.fromkeys(PARTITIONS)


def test_a_short_commit_does_not_overtake_a_long_one(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = make(enable_auto_commit=False)
    polled_until(consumer, lambda: consumer.assignment() == set(PARTITIONS))
    opened = threading.Event()
    module = sys.modules["thalweg.coordinator.driver._committed_offsets"]
    body = module.wire.commit_body

    def slowly(group: Any, offsets: Any) -> Any:
        if len(offsets) > 1:
            assert opened.wait(30)
        return body(group, offsets)

    monkeypatch.setattr(module.wire, "commit_body", slowly)
    consumer.commit_async({each: OffsetAndMetadata(1, "", -1) for each in PARTITIONS})
    done: list[Any] = []
    short = {PARTITIONS[0]: OffsetAndMetadata(2, "", -1)}
    consumer.commit_async(short, lambda offsets, response: done.append(offsets))
    assert "OffsetCommit" not in apis(consumer)
    opened.set()
    polled_until(consumer, lambda: done == [short])
    sent = [body for api, body, _ in consumer.client.requests if api == "OffsetCommit"]
    assert [len(each["Topics"]) for each in sent] == [MANY, 1]


def test_giving_partitions_up_visits_each_of_them_a_few_times() -> None:
    class Counted(TopicPartition):
        hashes = 0

        def __hash__(self) -> int:
            Counted.hashes += 1
            return super().__hash__()

    def hashes(count: int) -> int:
        owned = Ownership(cooperative=True)
        owned.partitions = tuple(Counted("t", number) for number in range(count))
        Counted.hashes = 0
        owned.before_join(frozenset({"t"}))
        return Counted.hashes

    assert hashes(200) <= 2.2 * hashes(100)


def test_a_background_computation_tells_its_error_and_times_out() -> None:
    opened = threading.Event()

    def fails() -> None:
        opened.wait(30)
        raise ValueError("none")

    work: _waits.Work[None] = _waits.Work(fails)
    with pytest.raises(KafkaTimeoutError):
        work.result(0)
    told: list[Any] = []
    work.add_done_callback(told.append)
    opened.set()
    with pytest.raises(ValueError, match="none"):
        work.result(30_000)
    wait_until(lambda: told == [work], 30)
    work.add_done_callback(told.append)
    assert told == [work, work]


def test_joins_assignments_and_leaves_are_logged(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "thalweg.coordinator"):
        consumer = make(client_id="app")
        polled_until(consumer, lambda: consumer.assignment() == set(PARTITIONS))
        consumer.close()
    first = ", ".join(f"{name}-0" for name in NAMES[:5])
    many = f"{MANY} partitions ({first}, ...)"
    who = "consumer app of group g, member m"
    assert caplog.messages == [
        f"{who}: joined generation 1, as the leader of 1",
        f"{who}, generation 1: is assigned {many}; added: {many}",
        f"{who}, generation 1: gives up {many}",
        f"{who}: leaves the group",
    ]
