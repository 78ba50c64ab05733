"""A member in its driver: commits before and after partitions go (on a fake core)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.waiting import wait_until
from tests.unit.coordinator.membership.member import (
    ONE,
    ZERO,
    apis,
    joined,
    joins,
    not_committed,
    polled,
    rebalanced,
    synced,
)
from thalweg.coordinator.driver import _chores
from thalweg.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    KafkaConnectionError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import OffsetAndMetadata, TopicPartition


def test_positions_are_committed_before_partitions_go_and_nothing_is_handed_out_meanwhile(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    held: list[Any] = []
    consumer.client.held = held
    before = len(consumer.calls)
    polled(consumer)
    assert apis(consumer)[-1] == "OffsetCommit"
    assert [each for each in consumer.calls[before:] if each[0] == "hold"] == [("hold", True)]
    assert consumer.assignment() == {ZERO, ONE}
    consumer.client.held = None
    held[0].complete({"Topics": []})
    polled(consumer)
    assert ("hold", False) in consumer.calls
    assert "JoinGroup" in apis(consumer)[-3:]


def fetched(offset: int) -> dict[str, Any]:
    row = {
        "PartitionIndex": 0,
        "CommittedOffset": offset,
        "CommittedLeaderEpoch": -1,
        "Metadata": "",
        "ErrorCode": 0,
    }
    topics = [{"Name": "t", "Partitions": [row]}]
    return {"Groups": [{"GroupId": "g", "ErrorCode": 0, "Topics": topics}]}


def test_the_commit_before_partitions_go_is_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    moved = not_committed(NotCoordinatorError.errno)
    consumer.client.responses["OffsetCommit"] = [moved, moved, {"Topics": []}]
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    wait_until(lambda: joins(consumer) == 2)
    assert [each for each in apis(consumer) if each in ("OffsetCommit", "JoinGroup")] == [
        "JoinGroup",
        *["OffsetCommit"] * 3,
        "JoinGroup",
    ]
    assert ("group", "g") in consumer.client.forgotten


def test_the_commit_before_partitions_go_is_not_tried_for_ever(make, monkeypatch):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.client.responses["OffsetCommit"] = not_committed(NotCoordinatorError.errno)
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    times = itertools.count(0.0, 10.0)  # each look at the clock is 10 ms later
    with monkeypatch.context() as patched:
        patched.setattr(_chores, "now_ms", lambda: next(times))
        patched.setattr(_chores, "_AUTO_COMMIT_LIMIT_MS", 300.0)
        wait_until(lambda: joins(consumer) == 2)
    assert apis(consumer).count("OffsetCommit") > 1


def test_a_commit_for_a_topic_that_is_gone_is_not_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    gone = not_committed(UnknownTopicOrPartitionError.errno)
    consumer.client.responses["OffsetCommit"] = gone
    consumer.close()
    assert apis(consumer)[-2:] == ["OffsetCommit", "LeaveGroup"]
    assert apis(consumer).count("OffsetCommit") == 1


def test_the_end_waits_no_longer_for_the_last_commit_than_it_may(make, clock):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.client.responses["OffsetCommit"] = not_committed(NotCoordinatorError.errno)
    consumer.close(timeout_ms=100)
    assert clock.seconds < 0.2
    assert 1 < apis(consumer).count("OffsetCommit") < 110


def test_the_last_commit_of_a_member_is_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    gone = KafkaConnectionError("gone")
    consumer.client.responses["OffsetCommit"] = [gone, gone, {"Topics": []}]
    consumer.close()
    assert apis(consumer)[-4:] == ["OffsetCommit"] * 3 + ["LeaveGroup"]


def test_offsets_that_were_asked_for_before_partitions_went_are_not_used(make):
    consumer = make(enable_auto_commit=False)
    polled(consumer)
    consumer.waiting = [ZERO]
    held: list[Any] = []
    consumer.client.held = held
    consumer.hooks.before_poll(0)
    assert apis(consumer)[-1] == "OffsetFetch"
    consumer.client.held = None
    consumer.client.responses["OffsetFetch"] = fetched(7)
    rebalanced(consumer)
    held[0].complete(fetched(1))
    polled(consumer)
    assert consumer.found[ZERO].offset == 7


def tried_again_after_a_rebalance(consumer: Any, *kept: TopicPartition) -> Any:
    """The first commit of ONE is refused, and a rebalance comes before the second try."""
    consumer.client.responses["OffsetCommit"] = [
        not_committed(CoordinatorLoadInProgressError.errno),
        {"Topics": []},
    ]
    steps = consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 60_000)
    wait = next(steps)
    pause = steps.send(wait.what.result(0))
    assert pause.what is None
    consumer.client.responses["SyncGroup"] = synced(*kept)
    rebalanced(consumer)
    assert consumer.assignment() == set(kept)
    return steps


@pytest.mark.parametrize("kept", [(ZERO,), (ZERO, ONE)])
def test_a_commit_is_not_tried_again_for_a_partition_that_went(make, kept):
    """Another task polls meanwhile. If the partition is back, another member may have had it."""
    consumer = make(enable_auto_commit=False)
    polled(consumer)
    steps = tried_again_after_a_rebalance(consumer, *kept)
    with pytest.raises(CommitFailedError, match=r"gave up t-1 before the commit succeeded"):
        steps.send(None)
    assert apis(consumer).count("OffsetCommit") == 1


def test_a_response_to_a_commit_from_before_a_partition_went_says_nothing_of_its_offset_now(make):
    """Another member may have committed meanwhile: what this one commits next is not skipped."""
    consumer = make(auto_commit_interval_ms=0)
    polled(consumer)
    held: list[Any] = []
    consumer.client.held = held
    consumer.commit_async({ZERO: OffsetAndMetadata(5)})
    consumer.client.held = None
    rebalanced(consumer)
    assert consumer.assignment() == {ZERO, ONE}
    assert apis(consumer).count("OffsetCommit") == 1
    held[0].complete({"Topics": []})
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    wait_until(lambda: joins(consumer) == 2 and apis(consumer).count("OffsetCommit") == 2)


def test_a_commit_is_tried_again_where_its_partition_stays_through_a_rebalance(make):
    consumer = make(enable_auto_commit=False, partition_assignment_strategy=["cooperative-sticky"])
    consumer.client.responses["JoinGroup"] = {**joined(), "ProtocolName": "cooperative-sticky"}
    polled(consumer)
    steps = tried_again_after_a_rebalance(consumer, ONE)
    wait = steps.send(None)
    with pytest.raises(StopIteration):
        steps.send(wait.what.result(0))
    assert apis(consumer).count("OffsetCommit") == 2


def test_a_commit_that_waited_for_its_turn_is_not_sent_for_a_partition_that_went(make):
    consumer = make(enable_auto_commit=False)
    polled(consumer)
    asked_at = consumer._driver.departures
    consumer.client.responses["SyncGroup"] = synced(ZERO)
    rebalanced(consumer)
    with pytest.raises(CommitFailedError, match="t-1"):
        next(consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 60_000, asked_at))
    assert "OffsetCommit" not in apis(consumer)


def test_partitions_of_ones_own_choice_are_committed_though_others_are_assigned_meanwhile(make):
    consumer = make()
    consumer.unsubscribe()
    consumer.assign([ONE])
    consumer.client.responses["OffsetCommit"] = [
        not_committed(CoordinatorLoadInProgressError.errno),
        {"Topics": []},
    ]
    steps = consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 60_000)
    wait = next(steps)
    steps.send(wait.what.result(0))
    consumer.assign([ZERO])
    wait = steps.send(None)
    with pytest.raises(StopIteration):
        steps.send(wait.what.result(0))


def test_a_commit_outside_of_the_group_says_what_to_do(make):
    consumer = make(enable_auto_commit=False)
    polled(consumer)
    consumer.expired = True
    with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
        consumer.commit({ZERO: OffsetAndMetadata(1)})
