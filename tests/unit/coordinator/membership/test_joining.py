"""A member in its driver: polls join the group and take its partitions (on a fake core)."""

from __future__ import annotations

import pytest

from tests.unit.coordinator.membership.member import ONE, ZERO, apis, beaten, joined, polled
from thalweg import ConsumerRebalanceListener
from thalweg.coordinator.protocol import Subscription
from thalweg.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    RebalanceInProgressError,
    SaslAuthenticationFailedError,
)
from thalweg.structs import OffsetAndMetadata


def test_no_partition_is_taken_while_a_heartbeat_that_was_replaced_is_in_flight(make):
    consumer = make(group_protocol="consumer")
    consumer.old_heartbeat = True
    polled(consumer)
    assert apis(consumer).count("ConsumerGroupHeartbeat") == 1
    assert consumer.assigned == []
    consumer.old_heartbeat = False
    polled(consumer)
    assert consumer.assigned == [ZERO, ONE]


def test_the_response_to_a_report_is_taken_before_those_to_its_repeats(make):
    consumer = make(group_protocol="consumer")
    body = {"MemberId": "m", "MemberEpoch": 0}
    later = beaten(body) | {
        "Assignment": {"TopicPartitions": [{"TopicId": "T", "Partitions": [0]}]},
    }
    consumer.heard = [(later, None)]
    polled(consumer)
    assigned = [each for each in consumer.calls if each[0] == "assign"]
    assert assigned[0] == ("assign", [ZERO])


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
    consumer.client.responses["JoinGroup"] = {**joined(), "Leader": "m", "Members": rows}
    assert consumer.hooks.before_poll(1000) > 1
    assert apis(consumer)[-1] == "JoinGroup"
    assert consumer.hooks.before_poll(1000) <= 1, "not once metadata_max_age_ms is over"
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


def test_a_leader_that_was_interrupted_assigns_although_a_topic_of_the_group_is_missing(make):
    consumer = make()
    rows = [
        {"MemberId": each, "Metadata": Subscription(3, [topic]).encode()}
        for each, topic in (("m", "t"), ("n", "missing"))
    ]
    consumer.client.responses["JoinGroup"] = {**joined(), "Leader": "m", "Members": rows}
    polled(consumer)
    assert apis(consumer).count("SyncGroup") == 1
    consumer._driver._interruptions.is_broken = True
    polled(consumer)
    assert apis(consumer).count("JoinGroup") == 2
    assert apis(consumer).count("SyncGroup") == 2


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
    consumer.client.responses["JoinGroup"] = [joined(GroupAuthorizationFailedError.errno), joined()]
    with pytest.raises(GroupAuthorizationFailedError):
        polled(consumer)
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_refused_logins_whose_texts_differ_are_raised_once(make, protocol):
    """A heartbeat is refused again and again while nobody polls."""
    consumer = make(group_protocol=protocol)
    polled(consumer)
    consumer.heard = [
        (None, SaslAuthenticationFailedError(f"refused (request {each})")) for each in range(5)
    ]
    with pytest.raises(SaslAuthenticationFailedError, match="request 4"):
        polled(consumer)
    polled(consumer)
    assert consumer.assignment() == {ZERO, ONE}
