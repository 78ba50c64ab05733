"""A member in its driver: listeners that are interrupted, wait, close or leave (on a fake core)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.coordinator.membership.member import (
    ONE,
    ZERO,
    apis,
    going,
    is_held,
    leaves,
    not_committed,
    polled,
    rebalanced,
    synced,
)
from thalweg import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.errors import UnknownMemberIdError, WakeupError
from thalweg.structs import OffsetAndMetadata


@pytest.mark.parametrize("what", ["on_partitions_revoked", "on_partitions_assigned"])
def test_an_interrupted_listener_does_not_stop_the_membership(make, what):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            self.tell("on_partitions_revoked")

        def on_partitions_assigned(self, assigned):
            self.tell("on_partitions_assigned")

        def tell(self, called):
            if called == what and interrupts:
                interrupts.pop()
                raise KeyboardInterrupt

    interrupts: list[int] = []
    consumer = make()
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    interrupts.append(1)
    with pytest.raises(KeyboardInterrupt):
        rebalanced(consumer)
    consumer.client.responses["SyncGroup"] = synced(ONE)
    polled(consumer)
    rebalanced(consumer)
    assert consumer.assignment() == {ONE}
    assert apis(consumer).count("JoinGroup") == 3


@pytest.mark.parametrize("what", ["on_partitions_revoked", "on_partitions_assigned"])
def test_a_wakeup_that_ends_a_call_of_the_listener_also_ends_the_poll(make, what, caplog):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked): ...
        def on_partitions_assigned(self, assigned): ...

    def woken(self, partitions):
        raise WakeupError("position() was ended")

    setattr(Listener, what, woken)
    consumer = make()
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    rebalanced(consumer)
    assert "wakeup" in consumer.calls
    assert "raised" not in caplog.text
    assert consumer.assignment() == {ZERO, ONE}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("callback", ["on_partitions_revoked", "on_partitions_assigned"])
def test_a_listener_that_closes_its_consumer_leaves_the_group(make, protocol, callback):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            self.heard("on_partitions_revoked")

        def on_partitions_assigned(self, assigned):
            self.heard("on_partitions_assigned")

        def heard(self, what):
            if what == callback and not consumer.closed:
                consumer.close(timeout_ms=60_000)

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    if callback == "on_partitions_revoked":
        consumer.subscribe(["u"], listener=Listener())
        polled(consumer)
        consumer.unsubscribe()
    assert leaves(consumer) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_whose_membership_ends_during_the_commit_before_they_go_are_lost(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned): ...
        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", revoked))

        def on_partitions_lost(self, lost):
            heard.append(("lost", lost))

    heard: list[Any] = []
    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    held: list[Any] = []
    consumer.client.held = held
    consumer.heard = [(going(protocol), None)]
    polled(consumer)
    assert apis(consumer)[-1] == "OffsetCommit"
    consumer.heard = [({"ErrorCode": UnknownMemberIdError.errno}, None)]
    polled(consumer)
    assert heard == []
    consumer.client.held = None
    held[0].complete(not_committed(UnknownMemberIdError.errno))
    consumer.known = {}
    polled(consumer)
    assert heard == [("lost", [ZERO, ONE])]
    assert consumer.assignment() == {ZERO, ONE}, "it has joined again"


@pytest.mark.parametrize("ends", ["unsubscribe", "close"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_callback_of_the_commit_before_partitions_go_may_end_the_membership(
    make, protocol, ends
):
    """The wait for that commit is over only when its callback is."""
    calls = iter([ends])

    def callback(offsets, result):
        if (call := next(calls, None)) is not None:
            getattr(consumer, call)()

    consumer = make(group_protocol=protocol, default_offset_commit_callback=callback)
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    held: list[Any] = []
    consumer.client.held = held
    consumer.heard = [(going(protocol), None)]
    polled(consumer)
    assert apis(consumer)[-1] == "OffsetCommit"
    consumer.client.held = None
    consumer.known = {}
    held[0].complete({"Topics": []})
    polled(consumer)
    assert leaves(consumer) == 1
    assert not is_held(consumer)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_listener_that_unsubscribes_is_through_before_its_consumer_leaves(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            heard.append("revoked")

        def on_partitions_assigned(self, assigned):
            consumer.unsubscribe()
            assert leaves(consumer) == 0
            heard.append("assigned")

    heard: list[str] = []
    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    assert heard == ["assigned", "revoked"]
    assert leaves(consumer) == 1
    assert consumer.assignment() == set()
    consumer.assign([ZERO])
    consumer.commit({ZERO: OffsetAndMetadata(1)})
    assert consumer.client.requests[-1][1]["GenerationIdOrMemberEpoch"] == -1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_leaves_waits_for_a_listener_that_another_task_runs(make, protocol):
    """The listener may flush and then commit, which only a member may do."""

    class Task:
        is_over = False

        def done(self) -> bool:
            return self.is_over

    class Listener(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked): ...
        async def on_partitions_assigned(self, assigned): ...

    def spawn(told: Any) -> Task:
        told.close()
        return task

    task = Task()
    consumer = make(group_protocol=protocol, enable_auto_commit=False)
    consumer._driver._membership._chores._spawn = spawn
    consumer._driver._membership.listener = Listener()
    polled(consumer)
    task.is_over = True
    polled(consumer)
    task.is_over = False
    consumer.heard = [(going(protocol), None)]
    polled(consumer)
    assert is_held(consumer), "the listener is at work"
    steps = consumer._driver.unsubscribe()
    assert next(steps).task is task
    assert leaves(consumer) == 0
    consumer.commit({ZERO: OffsetAndMetadata(1)})
    assert consumer.client.requests[-1][1]["GenerationIdOrMemberEpoch"] == 1
    task.is_over = True
    wait = steps.send(None)
    assert leaves(consumer) == 1
    with pytest.raises(StopIteration):
        steps.send(wait.what.result(0))
