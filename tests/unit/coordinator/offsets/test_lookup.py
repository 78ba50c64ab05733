"""Committed offsets are found before records flow (on a fake core)."""

from typing import Any

import pytest

from tests.unit.coordinator.offsets.responses import ONE, ZERO, offsets
from thalweg.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    UnstableOffsetCommitError,
)
from thalweg.structs import OffsetAndMetadata, TopicPartition


def test_new_partitions_get_their_committed_offsets_before_records_flow(make):
    consumer = make()
    consumer.waiting = [ZERO, ONE]
    consumer.client.responses["OffsetFetch"] = offsets(p0=5, p1=-1)
    assert consumer.hooks.before_poll(0) is None
    assert consumer.found == {ZERO: OffsetAndMetadata(5, "m", 3), ONE: None}
    _, body, node = consumer.client.requests[-1]
    assert node == ("coordinator", "group", "g")
    assert body == {
        "RequireStable": True,
        "Groups": [
            {"GroupId": "g", "Topics": [{"Name": "t", "PartitionIndexes": [0, 1]}]},
        ],
    }


def test_old_brokers_are_asked_in_their_own_form(make):
    consumer = make()
    consumer.client.versions["OffsetFetch"] = 5
    consumer.client.responses["OffsetFetch"] = {
        "ErrorCode": 0,
        "Topics": offsets(p0=5)["Groups"][0]["Topics"],
    }
    assert consumer.committed(ZERO) == 5
    body = consumer.client.requests[-1][1]
    assert body == {"GroupId": "g", "Topics": [{"Name": "t", "PartitionIndexes": [0]}]}


def test_looking_for_offsets_does_not_wait_and_asks_once(make):
    consumer = make()
    consumer.waiting = [ZERO]
    held: list[Any] = []
    consumer.client.held = held
    for _ in range(3):
        assert consumer.hooks.before_poll(1000) is None
    assert len(held) == 1
    held[0].complete(offsets(p0=5))
    assert consumer.calls[-1] == "reenter"
    consumer.hooks.before_poll(1000)
    assert consumer.found == {ZERO: OffsetAndMetadata(5, "m", 3)}


def test_partitions_that_come_while_offsets_are_looked_for_are_asked_for_next(make):
    consumer = make()
    held: list[Any] = []
    consumer.client.held = held
    consumer.assign([ZERO])
    consumer.waiting = [ZERO]
    consumer.hooks.before_poll(1000)
    consumer.assign([ZERO, ONE])
    consumer.waiting = [ZERO, ONE]
    consumer.hooks.before_poll(1000)  # called because of the new assignment
    held[0].complete(offsets(p0=5))
    consumer.hooks.before_poll(1000)  # called because of the response. Nothing else calls it
    assert len(held) == 2
    held[1].complete(offsets(p1=7))
    consumer.hooks.before_poll(1000)
    assert consumer.found == {
        ZERO: OffsetAndMetadata(5, "m", 3),
        ONE: OffsetAndMetadata(7, "m", 3),
    }


def test_a_coordinator_that_moved_is_forgotten_and_asked_for_again(make):
    consumer = make()
    consumer.waiting = [ZERO]
    consumer.client.responses["OffsetFetch"] = [offsets(16), offsets(p0=5)]
    wait = consumer.hooks.before_poll(0)
    assert wait is not None
    assert wait <= 3
    assert consumer.client.forgotten == [("group", "g")]
    import time

    time.sleep(0.005)
    consumer.hooks.before_poll(0)
    assert consumer.found == {ZERO: OffsetAndMetadata(5, "m", 3)}


def test_an_error_that_no_retry_cures_is_raised_from_poll(make):
    consumer = make()
    consumer.waiting = [ZERO]
    consumer.client.responses["OffsetFetch"] = offsets(30)
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.hooks.before_poll(0)


def test_without_group_nothing_is_looked_for(make):
    consumer = make(group_id=None)
    consumer.waiting = [ZERO]
    assert consumer.hooks.before_poll(0) is None
    assert consumer.client.requests == []


def test_committed_gives_offset_or_struct_or_none(make):
    consumer = make()
    consumer.client.responses["OffsetFetch"] = offsets(p0=5, p1=-1)
    assert consumer.committed(ZERO) == 5
    assert consumer.committed(ZERO, metadata=True) == OffsetAndMetadata(5, "m", 3)
    assert consumer.committed(ONE) is None
    assert consumer.committed(TopicPartition("other", 0)) is None


def test_committed_retries_within_its_limit(make):
    consumer = make()
    consumer.client.responses["OffsetFetch"] = [
        offsets(14),
        KafkaConnectionError("x"),
        offsets(p0=5),
    ]
    assert consumer.committed(ZERO) == 5
    consumer.client.responses["OffsetFetch"] = offsets(14)
    with pytest.raises(KafkaTimeoutError, match="took longer than 20 ms") as caught:
        consumer.committed(ZERO, timeout_ms=20)
    assert caught.value.__cause__ is not None


def test_offsets_of_open_transactions_are_waited_for(make):
    consumer = make()
    pending = offsets(p0=5)
    pending["Groups"][0]["Topics"][0]["Partitions"][0]["ErrorCode"] = 88
    consumer.client.responses["OffsetFetch"] = [pending, offsets(p0=5)]
    assert consumer.committed(ZERO) == 5
    consumer.client.responses["OffsetFetch"] = pending
    with pytest.raises(KafkaTimeoutError) as caught:
        consumer.committed(ZERO, timeout_ms=10)
    assert isinstance(caught.value.__cause__, UnstableOffsetCommitError)


def test_seeking_to_committed_offsets(make):
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([ZERO, ONE])
    consumer.client.responses["OffsetFetch"] = offsets(p0=5, p1=-1)
    consumer.seek_to_committed()
    assert consumer.calls[-2:] == [("seek_to", [ONE], "earliest"), ("seek", ZERO, 5, 3)]


def test_seeking_to_committed_offsets_that_are_not_there_is_an_error_without_a_policy(make):
    consumer = make(auto_offset_reset="none")
    consumer.assign([ZERO, ONE])
    consumer.client.responses["OffsetFetch"] = offsets(p0=5, p1=-1)
    before = list(consumer.calls)
    with pytest.raises(NoOffsetForPartitionError, match="t-1"):
        consumer.seek_to_committed()
    assert consumer.calls == before
