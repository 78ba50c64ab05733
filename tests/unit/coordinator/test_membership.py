"""A member in its driver: requests, heartbeats and chores (on a fake core)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.waiting import wait_until
from thalweg import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.coordinator.driver import _chores
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        given = {"group_id": "g", "retry_backoff_ms": 1, "retry_backoff_max_ms": 1, **configs}
        consumer = fake.consumer.KafkaConsumer(**given)
        consumer.client.answers.update(
            Metadata={
                "Brokers": [],
                "Topics": [
                    {
                        "Name": "t",
                        "TopicId": "T",
                        "ErrorCode": 0,
                        "IsInternal": False,
                        "Partitions": [{"PartitionIndex": each} for each in range(2)],
                    }
                ],
            },
            ConsumerGroupHeartbeat=beaten,
            JoinGroup=joined(),
            SyncGroup=synced(ZERO, ONE),
            LeaveGroup={"ErrorCode": 0},
            OffsetCommit={"Topics": []},
            OffsetFetch={"Groups": [{"GroupId": "g", "ErrorCode": 0, "Topics": []}]},
        )
        consumer.subscribe(["t"])
        made.append(consumer)
        return consumer

    yield call
    for each in made:
        each.close(timeout_ms=10)


def beaten(body: Any) -> dict[str, Any]:
    """Makes a ConsumerGroupHeartbeat response of a broker that assigns both partitions."""
    leaves = body["MemberEpoch"] < 0
    both = {"TopicPartitions": [{"TopicId": "T", "Partitions": [0, 1]}]}
    return {
        "ErrorCode": 0,
        "ErrorMessage": None,
        "MemberId": body["MemberId"],
        "MemberEpoch": body["MemberEpoch"] if leaves else 1,
        "HeartbeatIntervalMs": 5000,
        "Assignment": None if leaves else both,
    }


def joined(code: int = 0, generation: int = 1) -> dict[str, Any]:
    """Makes a JoinGroup response for a follower."""
    return {
        "ErrorCode": code,
        "GenerationId": generation,
        "ProtocolName": "range",
        "ProtocolType": "consumer",
        "Leader": "other",
        "MemberId": "m",
        "Members": [],
    }


def synced(*partitions: TopicPartition) -> dict[str, Any]:
    return {"ErrorCode": 0, "Assignment": Assignment(3, list(partitions)).encode()}


def polled(consumer: Any, times: int = 6) -> None:
    """Runs the core's hook several times, as poll does."""
    for _ in range(times):
        consumer.hooks.before_poll(1000)


def apis(consumer: Any) -> list[str]:
    return [api for api, _, _ in consumer.client.requests]


def leaves(consumer: Any) -> int:
    """Returns how often it has sent a request to leave the group."""
    return sum(
        api == "LeaveGroup" or (api == "ConsumerGroupHeartbeat" and body["MemberEpoch"] < 0)
        for api, body, _ in consumer.client.requests
    )


def test_no_partition_is_taken_while_a_heartbeat_that_was_replaced_is_under_way(make):
    consumer = make(group_protocol="consumer")
    consumer.old_heartbeat = True
    polled(consumer)
    assert apis(consumer).count("ConsumerGroupHeartbeat") == 1
    assert consumer.assigned == []
    consumer.old_heartbeat = False
    polled(consumer)
    assert consumer.assigned == [ZERO, ONE]


def test_the_answer_to_a_report_is_taken_before_those_to_its_repeats(make):
    consumer = make(group_protocol="consumer")
    body = {"MemberId": "m", "MemberEpoch": 0}
    later = beaten(body) | {
        "Assignment": {"TopicPartitions": [{"TopicId": "T", "Partitions": [0]}]},
    }
    consumer.heard = [(later, None)]
    polled(consumer)
    assigned = [each for each in consumer.calls if each[0] == "assign"]
    assert assigned[0] == ("assign", [ZERO])


def is_held(consumer: Any) -> bool:
    *_, (_, held) = [each for each in consumer.calls if each[0] == "hold"]
    return bool(held)


def test_a_member_joins_within_its_polls_and_is_assigned(make):
    consumer = make()
    polled(consumer)
    assert [each for each in apis(consumer) if each != "Metadata"] == ["JoinGroup", "SyncGroup"]
    assert consumer.assignment() == {ZERO, ONE}
    assert consumer.group_metadata().generation_id == 1
    [(_, beats, _)] = [each for each in consumer.calls if each[0] == "heartbeat"]
    assert beats.api == "Heartbeat"
    assert beats.interval_ms == consumer.config["heartbeat_interval_ms"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("given", "told"), [({}, 300_000), ({"rebalance_timeout_ms": 20_000}, 20_000)]
)
def test_the_group_hears_how_long_to_wait_for_a_member(make, protocol, given, told):
    consumer = make(group_protocol=protocol, **given)
    polled(consumer)
    api = {"classic": "JoinGroup", "consumer": "ConsumerGroupHeartbeat"}[protocol]
    first = next(body for each, body, _ in consumer.client.requests if each == api)
    assert first["RebalanceTimeoutMs"] == told


def test_a_poll_sends_what_is_to_be_asked_and_waits_for_nothing(make):
    consumer = make()
    consumer.client.held = []
    polled(consumer)
    assert apis(consumer) == ["Metadata", "JoinGroup"]
    for pending in list(consumer.client.held):
        pending.complete(KafkaConnectionError("gone"))
    polled(consumer)
    assert consumer.client.forgotten[-1] == ("group", "g")


def test_a_leader_has_the_topics_of_others_looked_for_at_once(make):
    consumer = make()
    rows = [
        {"MemberId": each, "Metadata": Subscription(3, [topic]).encode()}
        for each, topic in (("m", "t"), ("n", "u"))
    ]
    consumer.client.answers["JoinGroup"] = {**joined(), "Leader": "m", "Members": rows}
    assert consumer.hooks.before_poll(1000) > 1
    assert apis(consumer)[-1] == "JoinGroup"
    assert consumer.hooks.before_poll(1000) <= 1, "not once metadata_max_age_ms is over"
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


def test_a_rebalance_goes_on_while_a_position_is_waited_for_but_takes_nothing_away(make):
    heard: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            heard.append("revoked")

        def on_partitions_assigned(self, assigned):
            heard.append("assigned")

    def waited() -> None:
        for _ in range(6):
            consumer.hooks.before_poll(1000, False)

    consumer = make()
    consumer.subscribe(["t"], listener=Listener())
    consumer.hooks.before_poll(1000)
    assert apis(consumer)[-1] == "JoinGroup"
    waited()
    assert apis(consumer)[-1] == "SyncGroup"
    assert (heard, consumer.assignment()) == ([], set())
    polled(consumer)
    assert (heard, consumer.assignment()) == (["assigned"], {ZERO, ONE})
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    waited()
    assert (heard, consumer.assignment()) == (["assigned"], {ZERO, ONE})
    assert apis(consumer)[-1] == "SyncGroup"
    polled(consumer)
    assert heard == ["assigned", "revoked", "assigned"]
    assert apis(consumer)[-3:] == ["OffsetCommit", "JoinGroup", "SyncGroup"]


def test_what_is_wrong_is_raised_once_and_the_next_poll_tries_again(make):
    consumer = make()
    consumer.client.answers["JoinGroup"] = [joined(GroupAuthorizationFailedError.errno), joined()]
    with pytest.raises(GroupAuthorizationFailedError):
        polled(consumer)
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


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


def joins(consumer: Any) -> int:
    """Returns how often it has joined, after some more polls."""
    polled(consumer)
    return apis(consumer).count("JoinGroup")


def rebalanced(consumer: Any) -> None:
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    polled(consumer)


def going(protocol: str) -> dict[str, Any]:
    """Makes a response to a heartbeat after which the member gives up its partitions."""
    rebalance = beaten({"MemberId": "m", "MemberEpoch": 0})
    rebalance["Assignment"] = {"TopicPartitions": []}
    rebalance["ErrorCode"] = RebalanceInProgressError.errno if protocol == "classic" else 0
    return rebalance


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


def not_committed(code: int) -> dict[str, Any]:
    rows = [{"PartitionIndex": 0, "ErrorCode": code}]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}


def test_the_commit_before_partitions_go_is_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    moved = not_committed(NotCoordinatorError.errno)
    consumer.client.answers["OffsetCommit"] = [moved, moved, {"Topics": []}]
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    wait_until(lambda: joins(consumer) == 2, 5)
    assert [each for each in apis(consumer) if each in ("OffsetCommit", "JoinGroup")] == [
        "JoinGroup",
        *["OffsetCommit"] * 3,
        "JoinGroup",
    ]
    assert ("group", "g") in consumer.client.forgotten


def test_the_commit_before_partitions_go_is_not_tried_for_ever(make, monkeypatch):
    # Long enough for a second try on a busy machine.
    monkeypatch.setattr(_chores, "_AUTO_COMMIT_LIMIT_MS", 300.0)
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.client.answers["OffsetCommit"] = not_committed(NotCoordinatorError.errno)
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    wait_until(lambda: joins(consumer) == 2, 5)
    assert apis(consumer).count("OffsetCommit") > 1


def test_a_commit_for_a_topic_that_is_gone_is_not_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    gone = not_committed(UnknownTopicOrPartitionError.errno)
    consumer.client.answers["OffsetCommit"] = gone
    consumer.close()
    assert apis(consumer)[-2:] == ["OffsetCommit", "LeaveGroup"]
    assert apis(consumer).count("OffsetCommit") == 1


def test_the_end_waits_no_longer_for_the_last_commit_than_it_may(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    consumer.client.answers["OffsetCommit"] = not_committed(NotCoordinatorError.errno)
    began = time.monotonic()
    consumer.close(timeout_ms=100)
    assert time.monotonic() - began < 2
    assert 1 < apis(consumer).count("OffsetCommit") < 110


def test_the_last_commit_of_a_member_is_tried_again(make):
    consumer = make()
    polled(consumer)
    consumer.known = {ZERO: OffsetAndMetadata(5)}
    gone = KafkaConnectionError("gone")
    consumer.client.answers["OffsetCommit"] = [gone, gone, {"Topics": []}]
    consumer.close()
    assert apis(consumer)[-4:] == ["OffsetCommit"] * 3 + ["LeaveGroup"]


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
    consumer.client.answers["SyncGroup"] = synced(ONE)
    polled(consumer)
    rebalanced(consumer)
    assert consumer.assignment() == {ONE}
    assert apis(consumer).count("JoinGroup") == 3


def test_offsets_that_were_asked_for_before_partitions_went_are_not_used(make):
    consumer = make(enable_auto_commit=False)
    polled(consumer)
    consumer.waiting = [ZERO]
    held: list[Any] = []
    consumer.client.held = held
    consumer.hooks.before_poll(0)
    assert apis(consumer)[-1] == "OffsetFetch"
    consumer.client.held = None
    consumer.client.answers["OffsetFetch"] = fetched(7)
    rebalanced(consumer)
    held[0].complete(fetched(1))
    polled(consumer)
    assert consumer.found[ZERO].offset == 7


def tried_again_after_a_rebalance(consumer: Any, *kept: TopicPartition) -> Any:
    """The first commit of ONE is refused, and a rebalance comes before the second try."""
    consumer.client.answers["OffsetCommit"] = [
        not_committed(CoordinatorLoadInProgressError.errno),
        {"Topics": []},
    ]
    steps = consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 1000)
    wait = next(steps)
    pause = steps.send(wait.what.result(0))
    assert pause.what is None
    consumer.client.answers["SyncGroup"] = synced(*kept)
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


def test_an_answer_to_a_commit_from_before_a_partition_went_says_nothing_of_its_offset_now(make):
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
    wait_until(lambda: joins(consumer) == 2 and apis(consumer).count("OffsetCommit") == 2, 5)


def test_a_commit_is_tried_again_where_its_partition_stays_through_a_rebalance(make):
    consumer = make(enable_auto_commit=False, partition_assignment_strategy=["cooperative-sticky"])
    consumer.client.answers["JoinGroup"] = {**joined(), "ProtocolName": "cooperative-sticky"}
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
    consumer.client.answers["SyncGroup"] = synced(ZERO)
    rebalanced(consumer)
    with pytest.raises(CommitFailedError, match="t-1"):
        next(consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 1000, asked_at))
    assert "OffsetCommit" not in apis(consumer)


def test_partitions_of_ones_own_choice_are_committed_though_others_are_assigned_meanwhile(make):
    consumer = make()
    consumer.unsubscribe()
    consumer.assign([ONE])
    consumer.client.answers["OffsetCommit"] = [
        not_committed(CoordinatorLoadInProgressError.errno),
        {"Topics": []},
    ]
    steps = consumer._driver.commit({ONE: OffsetAndMetadata(5)}, 1000)
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
    consumer.close(timeout_ms=1000)


def answer_to_leaving(consumer: Any, *answers: Any) -> None:
    """Sets the responses to a leave request. The last one repeats."""
    api = "LeaveGroup" if consumer.config["group_protocol"] == "classic" else _HEARTBEAT
    good = beaten({"MemberId": "m", "MemberEpoch": -1})
    consumer.client.answers[api] = [
        {**good, "ErrorCode": each} if isinstance(each, int) else each for each in answers
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
    answer_to_leaving(consumer, *failures, 0)
    consumer.close()
    assert leaves(consumer) == len(failures) + 1
    assert len(consumer.client.forgotten) - before == len(failures)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_is_given_up_with_a_warning_when_the_time_is_over(make, caplog, protocol):
    consumer = make(group_protocol=protocol)
    polled(consumer)
    answer_to_leaving(consumer, _LOST)
    began = time.monotonic()
    consumer.close(timeout_ms=50)
    assert 0.04 < time.monotonic() - began < 5
    assert leaves(consumer) > 2
    assert "could not leave the group: KafkaConnectionError" in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_is_not_tried_again_where_the_group_does_not_know_the_member(make, protocol):
    """The response to the first request was lost, or the session has ended."""
    consumer = make(group_protocol=protocol)
    polled(consumer)
    answer_to_leaving(consumer, UnknownMemberIdError.errno)
    consumer.close()
    assert leaves(consumer) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_polls_try_to_leave_again_where_a_listener_has_unsubscribed(make, protocol):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked): ...
        def on_partitions_assigned(self, assigned):
            consumer.unsubscribe()
            answer_to_leaving(consumer, _LOST, _LOST, 0)

    consumer = make(group_protocol=protocol)
    consumer.subscribe(["t"], listener=Listener())
    polled(consumer)
    assert leaves(consumer) >= 1

    def has_left() -> bool:
        polled(consumer, 1)
        return leaves(consumer) == 3

    wait_until(has_left, 5)
    polled(consumer)
    assert leaves(consumer) == 3


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
                consumer.close(timeout_ms=1000)

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
