"""A member in its driver: how it leaves its group (on a fake core)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.waiting import wait_until
from tests.unit.coordinator.membership.member import (
    ONE,
    ZERO,
    apis,
    beaten,
    is_held,
    leaves,
    polled,
)
from thalweg import ConsumerRebalanceListener
from thalweg.errors import (
    CoordinatorLoadInProgressError,
    IllegalStateError,
    KafkaConnectionError,
    NotCoordinatorError,
    UnknownMemberIdError,
)
from thalweg.structs import OffsetAndMetadata, TopicPartition


def test_closing_leaves_the_group(make):
    consumer = make()
    polled(consumer)
    consumer.close()
    assert apis(consumer)[-1] == "LeaveGroup"
    assert "stop_heartbeat" in consumer.calls


def test_unsubscribing_commits_as_a_member_and_it_may_join_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.unsubscribe()
    [commit] = [body for api, body, _ in consumer.client.requests if api == "OffsetCommit"]
    assert (commit["MemberId"], commit["GenerationIdOrMemberEpoch"]) == ("m", 1)
    assert apis(consumer)[-1] == "LeaveGroup"
    assert consumer.assignment() == set()
    assert consumer.group_metadata().generation_id == -1
    consumer.subscribe(["t"])
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


def closed(consumer: Any) -> None:
    consumer.close(timeout_ms=60_000)


def respond_to_leaving(consumer: Any, *responses: Any) -> None:
    """Sets the responses to a leave request. The last one repeats."""
    api = "LeaveGroup" if consumer.config["group_protocol"] == "classic" else _HEARTBEAT
    good = beaten({"MemberId": "m", "MemberEpoch": -1})
    consumer.client.responses[api] = [
        {**good, "ErrorCode": each} if isinstance(each, int) else each for each in responses
    ]


_HEARTBEAT = "ConsumerGroupHeartbeat"
_LOST = KafkaConnectionError("the connection was lost")
_MOVED, _LOADING = NotCoordinatorError.errno, CoordinatorLoadInProgressError.errno


@pytest.mark.parametrize("failures", [[_LOST], [_MOVED], [_LOADING], [_MOVED, _LOST, _MOVED]])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_is_tried_again_until_the_group_has_heard_it(make, protocol, failures):
    consumer = make(group_protocol=protocol)
    polled(consumer)
    before = len(consumer.client.forgotten)
    respond_to_leaving(consumer, *failures, 0)
    consumer.close()
    assert leaves(consumer) == len(failures) + 1
    assert len(consumer.client.forgotten) - before == len(failures)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_is_given_up_with_a_warning_when_the_time_is_over(make, clock, caplog, protocol):
    consumer = make(group_protocol=protocol)
    polled(consumer)
    respond_to_leaving(consumer, _LOST)
    consumer.close(timeout_ms=500)
    assert 0.4 < clock.seconds < 0.6
    assert leaves(consumer) > 2
    assert "could not leave the group: KafkaConnectionError" in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_is_not_tried_again_where_the_group_does_not_know_the_member(make, protocol):
    """The response to the first request was lost, or the session has ended."""
    consumer = make(group_protocol=protocol)
    polled(consumer)
    respond_to_leaving(consumer, UnknownMemberIdError.errno)
    consumer.close()
    assert leaves(consumer) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_polls_try_to_leave_again_where_a_listener_has_unsubscribed(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked): ...
        def on_partitions_assigned(self, assigned):
            consumer.unsubscribe()
            respond_to_leaving(consumer, _LOST, _LOST, 0)

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    assert leaves(consumer) >= 1

    def has_left() -> bool:
        polled(consumer, 1)
        return leaves(consumer) == 3

    wait_until(has_left)
    polled(consumer)
    assert leaves(consumer) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_assign_after_the_unsubscribe_of_a_listener_stays(make, protocol):
    """The member gives up its partitions later, and one of them is the user's own now."""

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            heard.append(revoked)

        def on_partitions_assigned(self, assigned):
            consumer.unsubscribe()
            consumer.assign([ZERO])

    heard: list[Any] = []
    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    assert heard == [[ZERO, ONE]]
    assert leaves(consumer) == 1
    assert consumer.assignment() == {ZERO}
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    consumer.subscribe(["t"])
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}
    consumer.unsubscribe()
    assert consumer.assignment() == set()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_unsubscribe_after_an_assign_of_a_listener_counts(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked): ...
        def on_partitions_assigned(self, assigned):
            consumer.unsubscribe()
            consumer.assign([TopicPartition("u", 0)])
            consumer.unsubscribe()

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    assert consumer.assignment() == set()
    assert leaves(consumer) == 1


@pytest.mark.parametrize("own", [ZERO, TopicPartition("u", 0)])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_assign_of_the_listener_of_an_unsubscribe_stays(make, protocol, own):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned): ...
        def on_partitions_revoked(self, revoked):
            consumer.assign([own])

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    consumer.unsubscribe()
    assert consumer.assignment() == {own}
    assert consumer.subscription() is None
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["t"])
    consumer.unsubscribe()
    assert consumer.assignment() == set()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_subscribe_of_the_listener_of_an_unsubscribe_stays(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned): ...
        def on_partitions_revoked(self, revoked):
            consumer.subscribe(["t"])

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    consumer.unsubscribe()
    assert consumer.subscription() == {"t"}
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}
    assert leaves(consumer) == 1
    stops_last = {"heartbeat": False, "join": False, "stop_heartbeat": True}
    calls = [each if isinstance(each, str) else each[0] for each in consumer.calls]
    # A stop after the join would prevent the heartbeats of the new membership.
    assert not [stops_last[each] for each in calls if each in stops_last][-1]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_subscribe_of_the_listener_of_a_close_does_not_join_again(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned): ...
        def on_partitions_revoked(self, revoked):
            consumer.subscribe(["t"])

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    consumer.close()
    assert leaves(consumer) == 1
    api, body, _ = consumer.client.requests[-1]
    assert api == "LeaveGroup" or body["MemberEpoch"] == -1


def unsubscribed(consumer: Any) -> None:
    consumer.unsubscribe()
    assert consumer.group_metadata().generation_id == -1
    consumer.subscribe(["t"])
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


@pytest.mark.parametrize("finish", [closed, unsubscribed, polled])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_unsubscribe_that_was_interrupted_is_finished_later(make, protocol, finish):
    """Ctrl-C interrupts the commit of positions: poll returns no records until that is done."""
    consumer = make(group_protocol=protocol)
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    held: list[Any] = []
    consumer.client.held = held
    steps = consumer._driver.unsubscribe()
    next(steps)
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt)
    assert apis(consumer)[-1] == "OffsetCommit"
    assert is_held(consumer)
    consumer.client.held = None
    held[0].complete({"Topics": []})
    consumer.known = {}
    finish(consumer)
    assert leaves(consumer) == 1
    assert apis(consumer).count("OffsetCommit") == 1
    assert not is_held(consumer)


@pytest.mark.parametrize("finish", [closed, unsubscribed, polled])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_unsubscribe_whose_listener_was_interrupted_is_finished_later(make, protocol, finish):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            heard.append(revoked)
            raise KeyboardInterrupt

        def on_partitions_assigned(self, assigned): ...

    heard: list[Any] = []
    consumer = make(group_protocol=protocol, block_rebalance_on_poll=True)
    consumer._records_handed_out = lambda: 7
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    with pytest.raises(KeyboardInterrupt):
        consumer.unsubscribe()
    consumer._driver._membership.listener = None
    finish(consumer)
    assert heard == [[ZERO, ONE]]
    assert leaves(consumer) == 1


@pytest.mark.parametrize("finish", [closed, unsubscribed])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_goodbye_that_nobody_waited_for_is_waited_for_later(make, protocol, finish):
    consumer = make(group_protocol=protocol)
    polled(consumer)
    held: list[Any] = []
    consumer.client.held = held
    steps = consumer._driver.unsubscribe()
    assert next(steps).what is held[0]
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt)
    again = consumer._driver.unsubscribe()
    assert next(again).what is held[0]
    again.close()
    consumer.client.held = None
    held[0].complete({"ErrorCode": 0, **beaten({"MemberId": "m", "MemberEpoch": -1})})
    finish(consumer)
    assert leaves(consumer) == 1


def test_partitions_of_ones_own_follow_a_subscription(make):
    """Assigned partitions have no group, so commits name no generation."""
    consumer = make()
    polled(consumer)
    consumer.unsubscribe()
    consumer.assign([ZERO])
    consumer.commit({ZERO: OffsetAndMetadata(1)})
    assert consumer.client.requests[-1][1]["GenerationIdOrMemberEpoch"] == -1


def test_closing_waits_neither_for_a_join_nor_for_a_coordinator_that_is_gone(make):
    consumer = make()
    consumer.client.held = []
    polled(consumer)
    consumer.close()
    assert apis(consumer)[-1] == "JoinGroup", "it never was a member"
