"""Auto-commit, and the last commit of a consumer that closes (on a fake core)."""

from typing import Any

import pytest

from tests.support.closing import watch_nothing
from tests.unit.coordinator.offsets.responses import ONE, ZERO, committed, offsets
from thalweg.coordinator.driver import _offset_commit
from thalweg.interceptor import ConsumerInterceptor
from thalweg.structs import OffsetAndMetadata


def test_a_commit_whose_interceptor_is_interrupted_has_its_result(make):
    class Interrupted(ConsumerInterceptor):
        def on_commit(self, offsets):
            raise KeyboardInterrupt

    consumer = make(interceptor_classes=[Interrupted()])
    consumer.client.responses["OffsetCommit"] = committed()
    future = consumer.commit_async({ZERO: OffsetAndMetadata(1)})
    with pytest.raises(KeyboardInterrupt):
        consumer.hooks.before_poll(0)
    assert future.succeeded()


def test_auto_commit_sends_what_moved_when_it_is_due(make):
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.responses["OffsetCommit"] = committed()
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    assert consumer.hooks.before_poll(1000) is not None
    consumer.hooks.before_poll(1000)
    assert len(consumer.client.requests) == 1
    consumer.known = {ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(4)}
    consumer.hooks.before_poll(1000)
    sent = consumer.client.requests[-1][1]["Topics"][0]["Partitions"]
    assert [row["PartitionIndex"] for row in sent] == [1]


def test_the_same_offset_is_committed_again_after_a_reset(make):
    """The topic may be a new one, of which nothing is committed."""
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.responses["OffsetCommit"] = committed()
    consumer.known = {ZERO: OffsetAndMetadata(100)}
    for since, requests in ((7, 1), (7, 1), (9, 2), (9, 2)):
        consumer.returned = {ZERO: (since, 0, 100, 100)}
        consumer.hooks.before_poll(1000)
        assert len(consumer.client.requests) == requests
    consumer.returned = {ZERO: (11, 0, 100, 100)}
    consumer.close()
    assert len(consumer.client.requests) == 3


def test_waiting_for_a_position_is_no_poll(make):
    """It finds committed offsets. It does not commit records in progress or report outcomes."""
    consumer = make(enable_auto_commit=True, auto_commit_interval_ms=0)
    consumer.client.responses.update(OffsetCommit=committed(), OffsetFetch=offsets(p1=5))
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
    consumer.client.responses["OffsetCommit"] = committed()
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
    consumer.client.responses["OffsetCommit"] = [committed(p0=14), committed()]
    consumer.known = {ZERO: OffsetAndMetadata(1)}
    consumer.hooks.before_poll(0)
    assert "an asynchronous commit of group g failed" in caplog.text
    consumer.hooks.before_poll(0)
    assert len(consumer.client.requests) == 2


def test_closing_and_reassigning_commit_first(make):
    consumer = make(enable_auto_commit=True)
    consumer.client.responses["OffsetCommit"] = committed()
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
    consumer.client.responses["OffsetCommit"] = committed(p0=30)
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
