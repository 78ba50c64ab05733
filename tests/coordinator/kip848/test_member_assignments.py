"""How a member of KIP-848's protocol joins, takes partitions and gives them up."""

from __future__ import annotations

import pytest

from tests.coordinator.kip848.member_bench import Talk, joined, kinds, partitions, response, rows
from thalweg import errors
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Heartbeats,
    Lose,
    OldHeartbeatsDone,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)


def test_it_joins_with_all_that_it_has_to_say():
    talk = Talk(rack_id="r", server_assignor="range", max_poll_interval_ms=7_000)
    actions = talk.step(Subscribed(frozenset({"u", "t"})))
    assert kinds(actions) == [StopHeartbeats, Send, Heartbeats]
    assert talk.body == {
        "GroupId": "g",
        "MemberId": "m",
        "MemberEpoch": 0,
        "InstanceId": None,
        "RackId": "r",
        "RebalanceTimeoutMs": 7_000,
        "SubscribedTopicNames": ["t", "u"],
        "ServerAssignor": "range",
        "TopicPartitions": [],
    }
    assert talk.repeated is not None
    assert talk.repeated.body == talk.body
    assert talk.repeated.max_poll_interval_ms == 7_000
    assert talk.member.generation == -1
    assert isinstance(talk.member.commit_refusal(), errors.RebalanceInProgressError)


@pytest.mark.parametrize(("given", "used"), [(2**31 - 1, 60_000), (-5, 5_000), (0, 5_000)])
def test_a_damaged_interval_does_not_silence_it(given, used):
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    damaged = response(2, "T0") | {"HeartbeatIntervalMs": given}
    talk.step(Responded(talk.sent.token, damaged))
    assert talk.repeated is not None
    assert talk.repeated.interval_ms == used


def test_a_pattern_of_the_brokers_own_is_sent_and_taken_back():
    talk = Talk()
    talk.step(Subscribed(frozenset(), "t.*"))
    assert talk.body["SubscribedTopicRegex"] == "t.*"
    talk.responds(2, "T0")
    talk.step(Subscribed(frozenset("t")))
    assert talk.body["SubscribedTopicRegex"] == ""
    assert talk.body["SubscribedTopicNames"] == ["t"]


def test_what_it_is_given_is_assigned_within_poll_then_reported_then_it_only_lives():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    actions = talk.responds(2, "T1 T0")
    assert kinds(actions) == [Heartbeats]
    assert talk.is_in(ConsumerMemberState.RECONCILING)
    both = partitions("t0 t1")
    assert talk.polls() == [Assign(both, both)]
    assert talk.polls() == [], "callbacks run"
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send, Heartbeats]
    assert talk.is_in(ConsumerMemberState.ACKNOWLEDGING)
    assert talk.body["TopicPartitions"] == rows("T0 T1")
    assert talk.body["MemberEpoch"] == 2
    talk.responds(2, "T0 T1")
    assert talk.is_in(ConsumerMemberState.STABLE)
    assert talk.repeated is not None
    assert talk.repeated.body == {
        "GroupId": "g",
        "MemberId": "m",
        "MemberEpoch": 2,
        "InstanceId": None,
    }
    assert talk.member.assignment == both
    assert talk.member.group_metadata()[:3] == ("g", 2, "m")
    assert talk.member.commit_refusal() is None


def test_an_empty_first_assignment_is_told_once():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    talk.responds(2, "")
    assert talk.polls() == [Assign((), ())]
    assert talk.step(CallbacksDone()) == []
    assert talk.is_in(ConsumerMemberState.STABLE)
    talk.hears(2, "T0")
    assert talk.polls() == [Assign(partitions("t0"), partitions("t0"))]


def test_it_gives_up_and_reports_that_before_it_takes_what_is_new():
    talk = joined()
    talk.hears(3, "T0 T1 U5")
    assert talk.polls() == [AutoCommit(), Revoke(partitions("t2 t3"))]
    assert talk.member.commit_refusal() is None, "what is read is committed meanwhile"
    talk.step(CallbacksDone())
    assert talk.body["TopicPartitions"] == rows("T0 T1")
    assert talk.polls() == [], "not before the broker has heard of it"
    talk.responds(3, "T0 T1 U5")
    assert talk.polls() == [Assign(partitions("t0 t1 u5"), partitions("u5"))]


def test_nothing_is_taken_while_a_repeat_of_a_report_is_in_flight():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.now += 5_000  # the application did other work, and the report was repeated
    talk.lingers = True
    assert kinds(talk.responds(3, "T0 T2")) == [Heartbeats]
    assert talk.is_in(ConsumerMemberState.ACKNOWLEDGING)
    assert talk.polls() == []
    assert talk.step(OldHeartbeatsDone()) == []
    assert kinds(talk.polls()) == [Assign]


def test_however_late_the_response_is_looked_at_a_report_is_not_sent_again():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.now += 600_000
    assert kinds(talk.responds(3, "T0 T2")) == [Heartbeats]
    assert kinds(talk.polls()) == [Assign]


def test_old_heartbeats_with_a_response_do_not_settle_a_report_without_one():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    assert talk.step(OldHeartbeatsDone()) == []
    assert talk.is_in(ConsumerMemberState.ACKNOWLEDGING)
    assert talk.polls() == []


def test_once_a_report_has_failed_the_response_to_its_repeat_is_as_good():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    assert talk.sent is not None
    talk.step(Responded(talk.sent.token, None, errors.KafkaTimeoutError("silence")))
    talk.hears(3, "T0 T2", is_current=False)
    assert talk.is_in(ConsumerMemberState.ACKNOWLEDGING), "that was sent before the report"
    assert kinds(talk.hears(3, "T0 T2")) == [Heartbeats]
    assert talk.member.next_deadline() is None
    assert kinds(talk.polls()) == [Assign]


def test_nothing_is_taken_while_another_subscription_is_on_its_way():
    talk = joined("T0")
    talk.hears(3, "T0 T1")
    assert talk.is_in(ConsumerMemberState.RECONCILING)
    talk.step(Subscribed(frozenset("t")))
    assert talk.polls() == [], "it says that it owns T0 only: T1 may be given away at once"
    talk.responds(3, "T0 T1")
    assert kinds(talk.polls()) == [Assign]


def test_a_response_to_a_heartbeat_from_before_a_report_does_not_pass_for_the_reports():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.hears(2, "T0 T2")
    assert talk.is_in(ConsumerMemberState.ACKNOWLEDGING)
    assert talk.polls() == []


def test_a_target_that_turns_back_amid_a_revocation_is_assigned_anew():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    assert kinds(talk.polls()) == [AutoCommit, Revoke]
    talk.hears(2, "T0 T1")
    talk.step(CallbacksDone())
    talk.responds(3, "T0 T1")
    assert talk.polls() == [Assign(partitions("t0 t1"), partitions("t1"))]


def test_a_target_that_turns_back_before_it_was_seen_stops_nothing():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    assert talk.is_in(ConsumerMemberState.RECONCILING)
    talk.hears(2, "T0 T1")
    assert talk.is_in(ConsumerMemberState.STABLE)
    assert talk.polls() == []


def test_topics_that_are_not_known_by_id_wait_and_the_others_do_not():
    talk = Talk()
    talk.step(Subscribed(frozenset(), "."))
    talk.responds(2, "T0 X7")
    actions = talk.polls()
    assert actions == [
        WatchTopics(frozenset(), frozenset("X")),
        Assign(partitions("t0"), partitions("t0")),
    ]
    talk.step(CallbacksDone())
    talk.responds(2, "T0 X7")
    assert talk.polls() == [], "asked for once"
    talk.step(TopicsChanged({"t": 9, "x": 9}, {}, {"t": "T", "x": "X"}))
    assert talk.polls() == [Assign(partitions("t0 x7"), partitions("x7"))]


def test_who_joins_again_asks_again_for_topics_that_are_not_known():
    watch = WatchTopics(frozenset(), frozenset("X"))
    talk = joined("T0")
    talk.hears(2, "T0 X7")
    assert talk.polls() == [watch]
    talk.step(Unsubscribed())
    talk.step(CallbacksDone())
    talk.responds(-1)
    talk.step(Subscribed(frozenset("t")))
    talk.responds(3, "X7")
    assert talk.polls() == [watch]


def test_what_is_no_longer_assigned_is_no_longer_asked_for():
    watch, enough = (WatchTopics(frozenset(), frozenset(each)) for each in ("X", ""))
    talk = joined("T0")
    talk.hears(2, "T0 X7")
    assert talk.polls() == [watch]
    assert talk.hears(2, "T0") == [enough], "there is nothing to reconcile"
    talk.hears(2, "T0 X7")
    assert talk.polls() == [watch]
    talk.hears(2, "T0 U1")
    assert talk.polls() == [enough, Assign(partitions("t0 u1"), partitions("u1"))]


def test_what_is_left_of_a_deleted_topic_goes_before_anything_is_committed():
    talk = joined("T0 U0")
    talk.step(TopicsChanged({"t": 1}, {}, {"t": "T"}))
    talk.hears(2, "")
    assert talk.polls() == [Lose(partitions("u0")), AutoCommit(), Revoke(partitions("t0"))]
    talk.step(CallbacksDone())
    assert talk.body["TopicPartitions"] == []


def test_a_topic_that_was_made_anew_is_another_one():
    talk = joined("T0")
    talk.step(TopicsChanged({"t": 1}, {}, {"t": "N"}))
    talk.hears(2, "")
    assert talk.polls() == [Lose(partitions("t0"))], "its offsets are not those of the new one"
    talk.step(CallbacksDone())
    talk.responds(3, "N0")
    assert talk.polls() == [Assign(partitions("t0"), partitions("t0"))]


def test_another_subscription_is_told_at_once():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    assert talk.body["SubscribedTopicNames"] == ["u"]
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (2, rows("T0"))
    assert talk.step(Subscribed(frozenset("u"))) == []


def test_the_epoch_of_commits_follows_the_responses():
    talk = joined("T0")
    talk.hears(7)
    assert talk.member.generation == 7
    assert talk.is_in(ConsumerMemberState.STABLE)
    talk.hears(6, "T0 T1")
    assert talk.member.generation == 7, "overtaken responses change nothing"
    assert talk.is_in(ConsumerMemberState.STABLE)
