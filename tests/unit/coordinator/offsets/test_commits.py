"""Commits are sent, retried, and reported in order (on a fake core)."""

from typing import Any

import pytest

from tests.unit.coordinator.offsets.responses import ONE, ZERO, committed
from tests.unit.coordinator.test_marks import record
from thalweg.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from thalweg.interceptor import ConsumerInterceptor
from thalweg.structs import OffsetAndMetadata


def test_an_offset_alone_is_committed_without_metadata(make):
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed()
    consumer.commit({ZERO: 5})
    consumer.commit({ZERO: (6, "x")})
    consumer.commit_async({ZERO: 7})
    rows = [body["Topics"][0]["Partitions"][0] for _, body, _ in consumer.client.requests]
    found = [(row["CommittedOffset"], row["CommittedMetadata"]) for row in rows]
    assert found == [(5, ""), (6, "x"), (7, "")]


def test_a_commit_without_time_leaves_earlier_ones_their_results(make):
    consumer = make()
    sent: list[Any] = []
    consumer.client.held = sent
    told: list[Any] = []
    future = consumer.commit_async({ZERO: 5}, lambda _, result: told.append(result))
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({ZERO: 6}, timeout_ms=0)
    assert (told, future.is_done) == ([], False)
    sent[0].complete(committed())
    consumer.hooks.before_poll(0)
    assert told == [committed()]
    assert future.succeeded()


def test_a_close_without_time_fails_commits_in_flight(make):
    consumer = make()
    consumer.client.held = []
    told: list[Any] = []
    consumer.commit_async({ZERO: 5}, lambda _, result: told.append(result))
    consumer.close(timeout_ms=0)
    assert [type(each) for each in told] == [KafkaTimeoutError]


def test_marks_in_a_topic_that_was_created_again_are_not_committed(make):
    """The core has no position to commit there. Groups keep offsets by the topic's name."""
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed()
    consumer.assign([ZERO, ONE])
    consumer.returned = dict.fromkeys((ZERO, ONE), (1, 0, 5, 5))
    consumer.mark([record(offset, partition=each) for offset in range(5) for each in (0, 1)])

    def sent():
        before = len(consumer.client.requests)
        consumer.commit_marked()
        bodies = [body for _, body, *_ in consumer.client.requests[before:]]
        rows = [row for body in bodies for row in body["Topics"][0]["Partitions"]]
        return [(row["PartitionIndex"], row["CommittedOffset"]) for row in rows]

    assert sent() == []
    consumer.known = {ONE: OffsetAndMetadata(5)}
    assert sent() == [(1, 5)]
    consumer.known[ZERO] = OffsetAndMetadata(5)  # the old topic ID came from an old response
    assert sent() == [(0, 5)]


def test_a_commit_sends_positions_or_what_it_is_given(make):
    consumer = make(group_instance_id="i")
    consumer.client.responses["OffsetCommit"] = committed()
    consumer.known = {ONE: OffsetAndMetadata(9, "", 4)}
    consumer.commit()
    api, body, node = consumer.client.requests[-1]
    assert (api, node) == ("OffsetCommit", ("coordinator", "group", "g"))
    assert body == {
        "GroupId": "g",
        "GenerationIdOrMemberEpoch": -1,
        "MemberId": "",
        "GroupInstanceId": "i",
        "Topics": [
            {
                "Name": "t",
                "Partitions": [
                    {
                        "PartitionIndex": 1,
                        "CommittedOffset": 9,
                        "CommittedLeaderEpoch": 4,
                        "CommittedMetadata": "",
                    }
                ],
            }
        ],
    }
    consumer.commit({ZERO: OffsetAndMetadata(2, "note")})
    row = consumer.client.requests[-1][1]["Topics"][0]["Partitions"][0]
    assert (row["PartitionIndex"], row["CommittedOffset"], row["CommittedMetadata"]) == (
        0,
        2,
        "note",
    )


@pytest.mark.parametrize(
    "given, error",
    [({("t", 0): OffsetAndMetadata(1)}, TypeError), ({ZERO: "5"}, TypeError)],
)
def test_a_commit_wants_structs(make, given, error):
    consumer = make()
    for call in (consumer.commit, consumer.commit_async):
        with pytest.raises(error):
            call(given)


def test_a_negative_offset_is_refused(make):
    with pytest.raises(ValueError, match="negative"):
        make().commit({ZERO: OffsetAndMetadata(-1)})


def test_nothing_to_commit_asks_nobody(make):
    consumer = make()
    consumer.commit()
    future = consumer.commit_async()
    consumer.hooks.before_poll(0)
    assert consumer.client.requests == []
    assert future.succeeded()


def test_a_commit_is_retried_while_that_may_help(make):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.responses["OffsetCommit"] = [committed(p0=16), committed(p0=14), committed()]
    consumer.commit()
    assert len(consumer.client.requests) == 3
    assert consumer.client.forgotten == [("group", "g")]


def test_a_commit_that_never_succeeds_ends_with_its_last_error(make):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.responses["OffsetCommit"] = committed(p0=16)
    with pytest.raises(KafkaTimeoutError) as caught:
        consumer.commit(timeout_ms=20)
    assert isinstance(caught.value.__cause__, NotCoordinatorError)


def test_the_error_that_no_retry_cures_wins(make):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.responses["OffsetCommit"] = committed(p0=14, p1=12)
    with pytest.raises(OffsetMetadataTooLargeError, match="t-1"):
        consumer.commit()


@pytest.mark.parametrize("code", [22, 25, 82, 113])
def test_a_group_with_members_refuses_with_what_to_do(make, code):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.responses["OffsetCommit"] = committed(p0=code)
    with pytest.raises(CommitFailedError, match="Use another group_id"):
        consumer.commit()
    assert UnknownMemberIdError.errno == 25


def test_asynchronous_commits_are_told_in_order_from_within_poll(make):
    consumer = make()
    held: list[Any] = []
    consumer.client.held = held
    told: list[Any] = []
    futures = [
        consumer.commit_async(
            {ZERO: OffsetAndMetadata(number)},
            lambda offsets, result: told.append((offsets, result)),
        )
        for number in (1, 2, 3)
    ]
    held[2].complete(committed())
    consumer.hooks.before_poll(0)
    assert told == []
    held[0].complete(committed(p0=27))
    held[1].complete(KafkaConnectionError("lost"))
    consumer.hooks.before_poll(0)
    assert [offsets[ZERO].offset for offsets, _ in told] == [1, 2, 3]
    assert [type(result).__name__ for _, result in told] == [
        "RebalanceInProgressError",
        "KafkaConnectionError",
        "dict",
    ]
    assert [future.failed() for future in futures] == [True, True, False]
    assert [future.retriable() for future in futures] == [False, True, False]


def test_a_commit_waits_for_the_asynchronous_ones_before_it(make):
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed()
    order: list[str] = []
    consumer.commit_async({ZERO: OffsetAndMetadata(1)}, lambda *_: order.append("async"))
    consumer.commit({ZERO: OffsetAndMetadata(2)})
    order.append("sync")
    assert order == ["async", "sync"]


def test_a_partition_that_does_not_exist_is_warned_of_once_and_named_at_the_end(
    make, clock, caplog
):
    """The error is retriable in commits, as in Java: the partition may be new."""
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed(p1=3)
    with pytest.raises(KafkaTimeoutError, match="t-1: This server does not host") as caught:
        consumer.commit({ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(2)}, timeout_ms=500)
    assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)
    assert len(consumer.client.requests) > 2
    (warning,) = [each for each in caplog.records if each.name == "thalweg.coordinator"]
    assert "committing the offset of t-1" in warning.getMessage()


def test_a_last_try_that_is_cut_short_does_not_hide_why_those_before_it_failed(make):
    consumer = make()
    responses = [committed(p0=3), KafkaTimeoutError("no response yet")]
    consumer.client.responses["OffsetCommit"] = responses
    with pytest.raises(KafkaTimeoutError, match="t-0: This server does not host"):
        consumer.commit({ZERO: OffsetAndMetadata(1)}, timeout_ms=500)


def test_a_callback_that_raises_is_logged_and_the_rest_run(make, caplog):
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed()
    told: list[Any] = []

    def bad(*_: Any) -> None:
        raise ValueError("no")

    consumer.commit_async({ZERO: OffsetAndMetadata(1)}, bad).add_callback(bad).add_callback(
        told.append
    )
    consumer.commit_async({ZERO: OffsetAndMetadata(2)}, lambda *_: told.append("second"))
    consumer.hooks.before_poll(0)
    assert told[-1] == "second"
    assert len(told) == 2
    assert "the callback of a commit raised" in caplog.text


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_wakeup_that_ends_a_call_of_a_callback_also_ends_the_poll(make, is_closed, monkeypatch):
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed()
    woken: list[bool] = []

    def wakeup() -> None:
        woken.append(True)
        if is_closed:
            raise IllegalStateError("the consumer is closed")

    def position(*_: Any) -> None:
        raise WakeupError("position() was ended")

    monkeypatch.setattr(consumer, "wakeup", wakeup)
    consumer.commit_async({ZERO: OffsetAndMetadata(1)}, position)
    consumer.hooks.before_poll(0)
    assert woken == [True]


@pytest.mark.parametrize("call", ["poll", "commit", "close"])
def test_a_callback_may_commit_again_whenever_a_commit_fails(make, call):
    """The usual retry. Each call reports only commits that were made before the call."""
    consumer = make()
    consumer.client.responses["OffsetCommit"] = committed(p0=22)
    told: list[Any] = []

    def again(given: Any, outcome: Any) -> None:
        told.append(outcome)
        assert len(told) < 100, "it never ends"
        if isinstance(outcome, Exception):
            futures.append(consumer.commit_async(given, again))

    futures = [consumer.commit_async({ZERO: OffsetAndMetadata(1)}, again)]
    if call == "poll":
        consumer.hooks.before_poll(0)
    elif call == "commit":
        with pytest.raises(CommitFailedError):
            consumer.commit({ONE: OffsetAndMetadata(1)})
    else:
        consumer.close(timeout_ms=50)
        assert all(each.failed() for each in futures)
    assert len(told) == 1
    consumer.client.responses["OffsetCommit"] = committed()


def test_close_with_a_silent_coordinator_ends_although_a_callback_commits_again(make):
    consumer = make()
    consumer.client.held = []
    told: list[Any] = []

    def again(given: Any, outcome: Any) -> None:
        told.append(outcome)
        assert len(told) < 100, "it never ends"
        futures.append(consumer.commit_async(given, again))

    futures = [consumer.commit_async({ZERO: OffsetAndMetadata(1)}, again)]
    consumer.close(timeout_ms=20)
    assert len(told) == 1
    assert all(each.failed() for each in futures)


def test_a_moved_coordinator_is_found_although_another_partition_is_refused(make):
    """A broker refuses a deleted topic's partition before it checks that it is the coordinator."""
    consumer = make()
    consumer.client.responses["OffsetCommit"] = [committed(p0=3, p1=16), committed()]
    consumer.commit({ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(2)}, timeout_ms=1000)
    assert consumer.client.forgotten == [("group", "g")]
    assert len(consumer.client.requests) == 2


def test_the_default_callback_and_interceptors_hear_of_commits(make):
    heard: list[Any] = []

    class Own(ConsumerInterceptor):
        def on_commit(self, offsets):
            heard.append(("interceptor", offsets))

    consumer = make(
        interceptor_classes=[Own()],
        default_offset_commit_callback=lambda offsets, result: heard.append(("default", offsets)),
    )
    consumer.client.responses["OffsetCommit"] = committed()
    given = {ZERO: OffsetAndMetadata(1)}
    consumer.commit_async(given)
    consumer.hooks.before_poll(0)
    assert heard == [("interceptor", given), ("default", given)]
