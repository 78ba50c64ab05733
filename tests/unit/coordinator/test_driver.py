"""Committed offsets: found, committed, retried, and reported in order (on a fake core)."""

from typing import Any

import pytest

from tests.support.closing import watch_nothing
from thalweg.coordinator.driver import _offset_commit
from thalweg.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from thalweg.interceptor import ConsumerInterceptor
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1}


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        configs = {"group_id": "g", "enable_auto_commit": False, **FAST, **configs}
        made.append(fake.consumer.KafkaConsumer(**configs))
        return made[-1]

    yield call
    for each in made:
        each.client.answers["OffsetCommit"] = committed()
        each.close(timeout_ms=10)


def committed(**errors: int) -> dict[str, Any]:
    """Makes an OffsetCommit response: p0=22 is an error code of partition 0."""
    rows = [{"PartitionIndex": each, "ErrorCode": errors.get(f"p{each}", 0)} for each in range(2)]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}


def offsets(code: int = 0, **found: int) -> dict[str, Any]:
    """Makes a new OffsetFetch response: p0=5 is the offset of partition 0, -1 for none."""
    rows = [
        {
            "PartitionIndex": int(name[1:]),
            "CommittedOffset": offset,
            "CommittedLeaderEpoch": 3,
            "Metadata": "m",
            "ErrorCode": 0,
        }
        for name, offset in found.items()
    ]
    topics = [{"Name": "t", "Partitions": rows}]
    return {"Groups": [{"GroupId": "g", "ErrorCode": code, "Topics": topics}]}


# ---------------------------------------------------------------- finding


def test_new_partitions_get_their_committed_offsets_before_records_flow(make):
    consumer = make()
    consumer.waiting = [ZERO, ONE]
    consumer.client.answers["OffsetFetch"] = offsets(p0=5, p1=-1)
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
    consumer.client.answers["OffsetFetch"] = {
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
    consumer.client.answers["OffsetFetch"] = [offsets(16), offsets(p0=5)]
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
    consumer.client.answers["OffsetFetch"] = offsets(30)
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.hooks.before_poll(0)


def test_without_group_nothing_is_looked_for(make):
    consumer = make(group_id=None)
    consumer.waiting = [ZERO]
    assert consumer.hooks.before_poll(0) is None
    assert consumer.client.requests == []


def test_committed_gives_offset_or_struct_or_none(make):
    consumer = make()
    consumer.client.answers["OffsetFetch"] = offsets(p0=5, p1=-1)
    assert consumer.committed(ZERO) == 5
    assert consumer.committed(ZERO, metadata=True) == OffsetAndMetadata(5, "m", 3)
    assert consumer.committed(ONE) is None
    assert consumer.committed(TopicPartition("other", 0)) is None


def test_committed_retries_within_its_limit(make):
    consumer = make()
    consumer.client.answers["OffsetFetch"] = [offsets(14), KafkaConnectionError("x"), offsets(p0=5)]
    assert consumer.committed(ZERO) == 5
    consumer.client.answers["OffsetFetch"] = offsets(14)
    with pytest.raises(KafkaTimeoutError, match="took longer than 20 ms") as caught:
        consumer.committed(ZERO, timeout_ms=20)
    assert caught.value.__cause__ is not None


def test_offsets_of_open_transactions_are_waited_for(make):
    consumer = make()
    pending = offsets(p0=5)
    pending["Groups"][0]["Topics"][0]["Partitions"][0]["ErrorCode"] = 88
    consumer.client.answers["OffsetFetch"] = [pending, offsets(p0=5)]
    assert consumer.committed(ZERO) == 5
    consumer.client.answers["OffsetFetch"] = pending
    with pytest.raises(KafkaTimeoutError) as caught:
        consumer.committed(ZERO, timeout_ms=10)
    assert isinstance(caught.value.__cause__, UnstableOffsetCommitError)


def test_seeking_to_committed_offsets(make):
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([ZERO, ONE])
    consumer.client.answers["OffsetFetch"] = offsets(p0=5, p1=-1)
    consumer.seek_to_committed()
    assert consumer.calls[-2:] == [("seek_to", [ONE], "earliest"), ("seek", ZERO, 5, 3)]


def test_seeking_to_committed_offsets_that_are_not_there_is_an_error_without_a_policy(make):
    consumer = make(auto_offset_reset="none")
    consumer.assign([ZERO, ONE])
    consumer.client.answers["OffsetFetch"] = offsets(p0=5, p1=-1)
    before = list(consumer.calls)
    with pytest.raises(NoOffsetForPartitionError, match="t-1"):
        consumer.seek_to_committed()
    assert consumer.calls == before


# ---------------------------------------------------------------- committing


def test_an_offset_alone_is_committed_without_metadata(make):
    consumer = make()
    consumer.client.answers["OffsetCommit"] = committed()
    consumer.commit({ZERO: 5})
    consumer.commit({ZERO: (6, "x")})
    consumer.commit_async({ZERO: 7})
    rows = [body["Topics"][0]["Partitions"][0] for _, body, _ in consumer.client.requests]
    found = [(row["CommittedOffset"], row["CommittedMetadata"]) for row in rows]
    assert found == [(5, ""), (6, "x"), (7, "")]


def test_a_commit_sends_positions_or_what_it_is_given(make):
    consumer = make(group_instance_id="i")
    consumer.client.answers["OffsetCommit"] = committed()
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
    consumer.client.answers["OffsetCommit"] = [committed(p0=16), committed(p0=14), committed()]
    consumer.commit()
    assert len(consumer.client.requests) == 3
    assert consumer.client.forgotten == [("group", "g")]


def test_a_commit_that_never_succeeds_ends_with_its_last_error(make):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.answers["OffsetCommit"] = committed(p0=16)
    with pytest.raises(KafkaTimeoutError) as caught:
        consumer.commit(timeout_ms=20)
    assert isinstance(caught.value.__cause__, NotCoordinatorError)


def test_the_error_that_no_retry_cures_wins(make):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.answers["OffsetCommit"] = committed(p0=14, p1=12)
    with pytest.raises(OffsetMetadataTooLargeError, match="t-1"):
        consumer.commit()


@pytest.mark.parametrize("code", [22, 25, 82, 113])
def test_a_group_with_members_refuses_with_what_to_do(make, code):
    consumer = make()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.client.answers["OffsetCommit"] = committed(p0=code)
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
    consumer.client.answers["OffsetCommit"] = committed()
    order: list[str] = []
    consumer.commit_async({ZERO: OffsetAndMetadata(1)}, lambda *_: order.append("async"))
    consumer.commit({ZERO: OffsetAndMetadata(2)})
    order.append("sync")
    assert order == ["async", "sync"]


def test_a_partition_that_does_not_exist_is_warned_of_once_and_named_at_the_end(make, caplog):
    """The error is retriable in commits, as in Java: the partition may be new."""
    consumer = make()
    consumer.client.answers["OffsetCommit"] = committed(p1=3)
    with pytest.raises(KafkaTimeoutError, match="t-1: This server does not host") as caught:
        consumer.commit({ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(2)}, timeout_ms=30)
    assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)
    assert len(consumer.client.requests) > 2
    (warning,) = [each for each in caplog.records if each.name == "thalweg.coordinator"]
    assert "committing the offset of t-1" in warning.getMessage()


def test_a_last_try_that_is_cut_short_does_not_hide_why_those_before_it_failed(make):
    consumer = make()
    answers = [committed(p0=3), KafkaTimeoutError("no response yet")]
    consumer.client.answers["OffsetCommit"] = answers
    with pytest.raises(KafkaTimeoutError, match="t-0: This server does not host"):
        consumer.commit({ZERO: OffsetAndMetadata(1)}, timeout_ms=30)


def test_a_callback_that_raises_is_logged_and_the_rest_run(make, caplog):
    consumer = make()
    consumer.client.answers["OffsetCommit"] = committed()
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


@pytest.mark.parametrize("call", ["poll", "commit", "close"])
def test_a_callback_may_commit_again_whenever_a_commit_fails(make, call):
    """The usual retry. Each call reports only commits that were made before the call."""
    consumer = make()
    consumer.client.answers["OffsetCommit"] = committed(p0=22)
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
    consumer.client.answers["OffsetCommit"] = committed()


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
    consumer.client.answers["OffsetCommit"] = [committed(p0=3, p1=16), committed()]
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
    consumer.client.answers["OffsetCommit"] = committed()
    given = {ZERO: OffsetAndMetadata(1)}
    consumer.commit_async(given)
    consumer.hooks.before_poll(0)
    assert heard == [("interceptor", given), ("default", given)]


# ---------------------------------------------------------------- auto-commit


def test_a_commit_whose_interceptor_is_interrupted_has_its_result(make):
    class Interrupted(ConsumerInterceptor):
        def on_commit(self, offsets):
            raise KeyboardInterrupt

    consumer = make(interceptor_classes=[Interrupted()])
    consumer.client.answers["OffsetCommit"] = committed()
    future = consumer.commit_async({ZERO: OffsetAndMetadata(1)})
    with pytest.raises(KeyboardInterrupt):
        consumer.hooks.before_poll(0)
    assert future.succeeded()


def test_auto_commit_sends_what_moved_when_it_is_due(make):
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.answers["OffsetCommit"] = committed()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    assert consumer.hooks.before_poll(1000) is not None
    consumer.hooks.before_poll(1000)
    assert len(consumer.client.requests) == 1
    consumer.known = {ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(4)}
    consumer.hooks.before_poll(1000)
    sent = consumer.client.requests[-1][1]["Topics"][0]["Partitions"]
    assert [row["PartitionIndex"] for row in sent] == [1]


def test_waiting_for_a_position_is_no_poll(make):
    """It finds committed offsets. It does not commit records in progress or report outcomes."""
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.answers.update(OffsetCommit=committed(), OffsetFetch=offsets(p1=5))
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.waiting = [ONE]
    told: list[Any] = []
    consumer.commit_async({ZERO: OffsetAndMetadata(1)}, lambda *_: told.append("outcome"))
    assert consumer.hooks.before_poll(1000, False) is None
    assert consumer.found[ONE].offset == 5
    assert [api for api, _, _ in consumer.client.requests] == ["OffsetCommit", "OffsetFetch"]
    assert told == []
    consumer.hooks.before_poll(1000, True)
    assert told == ["outcome"]


def test_what_does_not_move_is_committed_again_now_and_then(make, monkeypatch):
    """A coordinator forgets offsets that are not committed again, even of an idle consumer."""
    monkeypatch.setattr(_offset_commit, "_REFRESH_MS", 0.0)
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.answers["OffsetCommit"] = committed()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    for _ in range(3):
        consumer.hooks.before_poll(1000)
    assert len(consumer.client.requests) == 3


def test_auto_commit_waits_for_its_interval(make):
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=60_000)
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    wait = consumer.hooks.before_poll(1000)
    assert 0 < wait <= 60_001
    assert consumer.client.requests == []


def test_a_failed_auto_commit_is_logged_and_tried_again(make, caplog):
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.answers["OffsetCommit"] = [committed(p0=14), committed()]
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.hooks.before_poll(0)
    assert "an asynchronous commit of group g failed" in caplog.text
    consumer.hooks.before_poll(0)
    assert len(consumer.client.requests) == 2


def test_closing_and_reassigning_commit_first(make):
    consumer = make(enable_auto_commit=True)
    consumer.client.answers["OffsetCommit"] = committed()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.assign([ONE])
    assert len(consumer.client.requests) == 1
    consumer.known = {ONE: OffsetAndMetadata(8)}
    consumer.close()
    assert consumer.client.requests[-1][1]["Topics"][0]["Partitions"][0]["CommittedOffset"] == 8


def test_closing_without_auto_commit_commits_nothing(make):
    for consumer, arguments in (
        (make(), {}),
        (make(enable_auto_commit=True), {"autocommit": False}),
    ):
        consumer.known = {ZERO: OffsetAndMetadata(1)}
        consumer.close(**arguments)
        assert consumer.client.requests == []


def test_a_with_block_that_fails_does_not_commit(fake):
    consumer = fake.consumer.KafkaConsumer(group_id="g")
    consumer.known = {ZERO: OffsetAndMetadata(1)}

    def work() -> None:
        with consumer:
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert consumer.client.requests == []
    assert consumer.closed


def test_a_consumer_that_is_open_at_exit_is_closed_and_does_not_commit(fake, monkeypatch):
    closing = fake.consumer.closing
    watch_nothing(closing, monkeypatch)
    consumer = fake.consumer.KafkaConsumer(group_id="g")
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    closing._close_all()
    assert consumer.closed
    assert consumer.client.requests == []


def test_a_last_commit_that_fails_is_logged_and_the_consumer_closed(make, caplog):
    consumer = make(enable_auto_commit=True)
    consumer.client.answers["OffsetCommit"] = committed(p0=30)
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.close(timeout_ms=100)
    assert consumer.closed
    assert "the last commit of group g failed" in caplog.text


def test_the_core_does_not_keep_the_consumer_alive(fake):
    import gc
    import weakref

    consumer = fake.consumer.KafkaConsumer(group_id="g")
    hooks = consumer.hooks
    gone = weakref.ref(consumer)
    consumer.close()
    del consumer
    gc.collect()
    assert gone() is None
    assert hooks.before_poll is not None
