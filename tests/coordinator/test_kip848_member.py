"""One member of KIP-848's protocol: its requests and actions, event by event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from thalweg import errors
from thalweg.coordinator.kip848.member import ConsumerMember, ConsumerMemberSettings
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    Answered,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    Fail,
    ForgetCoordinator,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
    MemberAction,
    MemberEvent,
    OldHeartbeatsAnswered,
    Polled,
    PollExpired,
    Raise,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.structs import TopicPartition

_S = ConsumerMemberState
IDS = {"t": "T", "u": "U"}


def partitions(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each[0], int(each[1:])) for each in text.split())


def rows(text: str) -> list[dict[str, Any]]:
    """Parses partitions: `rows("T0 T1")` in the form of a request."""
    topics: dict[str, list[int]] = {}
    for each in text.split():
        topics.setdefault(each[0], []).append(int(each[1:]))
    return [{"TopicId": topic, "Partitions": each} for topic, each in topics.items()]


def answer(epoch: int = 0, assigned: str | None = None, code: int = 0) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "ErrorMessage": None,
        "MemberId": "m",
        "MemberEpoch": epoch,
        "HeartbeatIntervalMs": 5_000,
        "Assignment": None if assigned is None else {"TopicPartitions": rows(assigned)},
    }


class Talk:
    """A member, the time, and the last report that it sent.

    A repeated heartbeat that the report replaces gets its response at once, unless `lingers`.
    """

    def __init__(self, *, known: bool = True, **options: Any) -> None:
        settings = ConsumerMemberSettings(group_id="g", member_id="m", **options)
        self.member = ConsumerMember(settings, lambda: 1.0)
        self.now = 1_000.0
        self.sent: Send | None = None
        self.repeated: Heartbeats | None = None
        self.lingers = False
        if known:
            self.step(TopicsChanged({"t": 9, "u": 9}, {}, IDS))

    def step(self, event: MemberEvent) -> list[MemberAction]:
        actions = self.member.step(event, self.now)
        if not self.lingers and any(isinstance(each, Heartbeats) for each in actions):
            actions += self.member.step(OldHeartbeatsAnswered(), self.now)
        for action in actions:
            if isinstance(action, Send):
                self.sent = action
            if isinstance(action, Heartbeats):
                self.repeated = action
            if isinstance(action, StopHeartbeats):
                self.repeated = None
        return actions

    def answers(self, *args: Any, **kwargs: Any) -> list[MemberAction]:
        assert self.sent is not None
        return self.step(Answered(self.sent.token, answer(*args, **kwargs)))

    def hears(self, *args: Any, is_current: bool = True, **kwargs: Any) -> list[MemberAction]:
        """Handles a response to a repeated heartbeat, current or not."""
        return self.step(HeartbeatAnswered(answer(*args, **kwargs), is_current=is_current))

    def polls(self) -> list[MemberAction]:
        return self.step(Polled())

    @property
    def body(self) -> Mapping[str, Any]:
        assert self.sent is not None
        assert isinstance(self.sent.body, Mapping)
        return self.sent.body

    def is_in(self, state: ConsumerMemberState) -> bool:
        return self.member.state is state


def joined(assigned: str = "T0 T1 T2 T3", **options: Any) -> Talk:
    """Makes a stable member at epoch 2."""
    talk = Talk(**options)
    talk.step(Subscribed(frozenset("tu")))
    talk.answers(2, assigned)
    talk.polls()
    talk.step(CallbacksDone())
    if assigned:
        talk.answers(2, assigned)
    assert talk.is_in(_S.STABLE)
    return talk


def kinds(actions: list[MemberAction]) -> list[type]:
    return [type(each) for each in actions]


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


def test_a_damaged_interval_does_not_silence_it():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    damaged = answer(2, "T0") | {"HeartbeatIntervalMs": 2**31 - 1}
    talk.step(Answered(talk.sent.token, damaged))
    assert talk.repeated is not None
    assert talk.repeated.interval_ms == 60_000


def test_a_pattern_of_the_brokers_own_is_sent_and_taken_back():
    talk = Talk()
    talk.step(Subscribed(frozenset(), "t.*"))
    assert talk.body["SubscribedTopicRegex"] == "t.*"
    talk.answers(2, "T0")
    talk.step(Subscribed(frozenset("t")))
    assert talk.body["SubscribedTopicRegex"] == ""
    assert talk.body["SubscribedTopicNames"] == ["t"]


def test_what_it_is_given_is_assigned_within_poll_then_reported_then_it_only_lives():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    actions = talk.answers(2, "T1 T0")
    assert kinds(actions) == [Heartbeats]
    assert talk.is_in(_S.RECONCILING)
    both = partitions("t0 t1")
    assert talk.polls() == [Assign(both, both)]
    assert talk.polls() == [], "callbacks run"
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send, Heartbeats]
    assert talk.is_in(_S.ACKNOWLEDGING)
    assert talk.body["TopicPartitions"] == rows("T0 T1")
    assert talk.body["MemberEpoch"] == 2
    talk.answers(2, "T0 T1")
    assert talk.is_in(_S.STABLE)
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
    talk.answers(2, "")
    assert talk.polls() == [Assign((), ())]
    assert talk.step(CallbacksDone()) == []
    assert talk.is_in(_S.STABLE)
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
    talk.answers(3, "T0 T1 U5")
    assert talk.polls() == [Assign(partitions("t0 t1 u5"), partitions("u5"))]


def test_nothing_is_taken_while_a_repeat_of_a_report_is_under_way():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.now += 5_000  # the application did other work, and the report was repeated
    talk.lingers = True
    assert kinds(talk.answers(3, "T0 T2")) == [Heartbeats]
    assert talk.is_in(_S.ACKNOWLEDGING)
    assert talk.polls() == []
    assert talk.step(OldHeartbeatsAnswered()) == []
    assert kinds(talk.polls()) == [Assign]


def test_however_late_the_answer_is_looked_at_a_report_is_not_sent_again():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.now += 600_000
    assert kinds(talk.answers(3, "T0 T2")) == [Heartbeats]
    assert kinds(talk.polls()) == [Assign]


def test_old_heartbeats_that_are_answered_do_not_settle_a_report_that_is_not():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    assert talk.step(OldHeartbeatsAnswered()) == []
    assert talk.is_in(_S.ACKNOWLEDGING)
    assert talk.polls() == []


def test_once_a_report_has_failed_the_answer_to_its_repeat_is_as_good():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    assert talk.sent is not None
    talk.step(Answered(talk.sent.token, None, errors.KafkaTimeoutError("silence")))
    talk.hears(3, "T0 T2", is_current=False)
    assert talk.is_in(_S.ACKNOWLEDGING), "that was sent before the report"
    assert kinds(talk.hears(3, "T0 T2")) == [Heartbeats]
    assert talk.member.next_deadline() is None
    assert kinds(talk.polls()) == [Assign]


def test_nothing_is_taken_while_another_subscription_is_on_its_way():
    talk = joined("T0")
    talk.hears(3, "T0 T1")
    assert talk.is_in(_S.RECONCILING)
    talk.step(Subscribed(frozenset("t")))
    assert talk.polls() == [], "it says that it owns T0 only: T1 may be given away at once"
    talk.answers(3, "T0 T1")
    assert kinds(talk.polls()) == [Assign]


def test_an_answer_to_a_heartbeat_from_before_a_report_does_not_pass_for_the_reports():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.step(CallbacksDone())
    talk.hears(2, "T0 T2")
    assert talk.is_in(_S.ACKNOWLEDGING)
    assert talk.polls() == []


def test_a_target_that_turns_back_amid_a_revocation_is_assigned_anew():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    assert kinds(talk.polls()) == [AutoCommit, Revoke]
    talk.hears(2, "T0 T1")
    talk.step(CallbacksDone())
    talk.answers(3, "T0 T1")
    assert talk.polls() == [Assign(partitions("t0 t1"), partitions("t1"))]


def test_a_target_that_turns_back_before_it_was_seen_stops_nothing():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    assert talk.is_in(_S.RECONCILING)
    talk.hears(2, "T0 T1")
    assert talk.is_in(_S.STABLE)
    assert talk.polls() == []


def test_topics_that_are_not_known_by_id_wait_and_the_others_do_not():
    talk = Talk()
    talk.step(Subscribed(frozenset(), "."))
    talk.answers(2, "T0 X7")
    actions = talk.polls()
    assert actions == [
        WatchTopics(frozenset(), frozenset("X")),
        Assign(partitions("t0"), partitions("t0")),
    ]
    talk.step(CallbacksDone())
    talk.answers(2, "T0 X7")
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
    talk.answers(-1)
    talk.step(Subscribed(frozenset("t")))
    talk.answers(3, "X7")
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
    talk.answers(3, "N0")
    assert talk.polls() == [Assign(partitions("t0"), partitions("t0"))]


@pytest.mark.parametrize("code", [25, 110, 69])
def test_who_is_fenced_loses_all_and_joins_anew(code):
    """FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: nothing is committed under the old epoch.

    Scenario 37.
    """
    talk = joined("T0")
    assert talk.hears(code=code) == [StopHeartbeats()]
    assert talk.is_in(_S.FENCED)
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert talk.member.generation == -1
    assert talk.polls() == [Lose(partitions("t0"))]
    talk.step(CallbacksDone())
    assert talk.is_in(_S.JOINING)
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (0, [])
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    talk.answers(5, "T0")
    assert talk.member.commit_refusal() is None


def test_who_is_fenced_with_nothing_joins_at_once():
    talk = joined("")
    assert kinds(talk.hears(code=110))[-2:] == [Send, Heartbeats]


def test_who_is_fenced_amid_a_callback_loses_the_rest_after_it():
    talk = joined("T0 T1")
    talk.hears(2, "T0")
    talk.polls()
    talk.hears(code=110)
    assert talk.polls() == []
    assert talk.step(CallbacksDone()) == [Lose(partitions("t0"))]
    talk.step(CallbacksDone())
    assert talk.is_in(_S.JOINING)


def test_an_answer_from_before_the_fence_changes_nothing():
    talk = joined("T0")
    talk.hears(code=110)
    talk.hears(9, "T0 T1")
    assert talk.is_in(_S.FENCED)
    talk.polls()
    talk.step(CallbacksDone())
    talk.hears(9, "T0 T1", is_current=False)
    assert talk.is_in(_S.JOINING)
    assert talk.member.generation == -1


@pytest.mark.parametrize(
    "code, kind",
    [
        (30, errors.GroupAuthorizationFailedError),
        (35, errors.UnsupportedVersionError),
        (42, errors.InvalidRequestError),
        (81, errors.GroupMaxSizeReachedError),
        (82, errors.FencedInstanceIdError),
        (111, errors.UnreleasedInstanceIdError),
        (112, errors.UnsupportedAssignorError),
        (128, errors.InvalidRegularExpressionError),
        (-1, errors.UnknownError),
    ],
)
def test_some_errors_are_the_end(code, kind):
    talk = joined("T0")
    actions = talk.hears(code=code)
    assert kinds(actions) == [StopHeartbeats, Lose, Fail]
    assert isinstance(actions[-1], Fail)
    assert type(actions[-1].error) is kind
    talk.step(CallbacksDone())
    assert talk.is_in(_S.FATAL)
    for event in (Polled(), Subscribed(frozenset("t")), Unsubscribed(), Closed(True), Ticked()):
        assert talk.step(event) == []


def test_a_broker_without_the_protocol_is_named():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    error = errors.IncompatibleBrokerVersion("no ConsumerGroupHeartbeat")
    actions = talk.step(Answered(talk.sent.token, None, error))
    assert isinstance(actions[-1], Fail)
    assert "does not support the consumer group protocol" in str(actions[-1].error)
    assert "group_protocol='classic'" in str(actions[-1].error)


@pytest.mark.parametrize("code, forgets", [(14, False), (15, True), (16, True)])
def test_a_coordinator_that_moves_costs_nothing(code, forgets):
    talk = joined("T0")
    actions = talk.hears(code=code)
    assert actions == ([ForgetCoordinator()] if forgets else [])
    assert talk.is_in(_S.STABLE)
    assert talk.member.next_deadline() == talk.now + 100
    talk.now += 100
    assert kinds(talk.step(Ticked())) == [StopHeartbeats, Send, Heartbeats]
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (2, rows("T0"))
    talk.answers(2, "T0")
    assert talk.polls() == []
    assert talk.member.assignment == partitions("t0")


def test_tries_are_further_and_further_apart():
    talk = joined("T0")
    talk.hears(code=errors.NotCoordinatorError.errno)
    waits = []
    for _ in range(6):
        deadline = talk.member.next_deadline()
        assert deadline is not None
        waits.append(deadline - talk.now)
        talk.now = deadline
        talk.step(Ticked())
        assert talk.sent is not None
        talk.step(Answered(talk.sent.token, None, errors.KafkaTimeoutError("silence")))
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_a_lost_join_is_sent_again():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    first = talk.sent
    actions = talk.step(Answered(first.token, None, errors.KafkaConnectionError("broken")))
    assert actions == [ForgetCoordinator()]
    talk.now += 100
    talk.step(Ticked())
    assert talk.body == first.body
    assert talk.step(Answered(first.token, answer(2, "T0"))) == [], "given up"
    talk.answers(2, "T0")
    assert talk.is_in(_S.RECONCILING)


def test_a_topic_that_may_not_be_read_is_told_and_tried_again():
    talk = joined("T0")
    (raised,) = talk.hears(code=29)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, errors.TopicAuthorizationFailedError)
    assert talk.member.next_deadline() is not None
    assert talk.is_in(_S.STABLE)


def test_who_does_not_poll_is_stale_and_joins_once_it_has_lost_all():
    talk = joined("T0", max_poll_interval_ms=9_000)
    assert talk.repeated is not None
    assert talk.repeated.leave == (
        "ConsumerGroupHeartbeat",
        {"GroupId": "g", "MemberId": "m", "MemberEpoch": -1, "InstanceId": None},
    )
    talk.step(PollExpired())
    assert talk.is_in(_S.STALE)
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert talk.polls() == [Lose(partitions("t0"))]
    # Not with another poll: perhaps nothing would request one.
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send, Heartbeats]
    assert talk.body["MemberEpoch"] == 0
    assert talk.polls() == []


@pytest.mark.parametrize("instance_id, epoch", [(None, -1), ("i", -2)])
def test_it_leaves_after_it_gave_everything_up(instance_id, epoch):
    talk = joined("T0", instance_id=instance_id)
    assert talk.step(Unsubscribed()) == [AutoCommit(), Revoke(partitions("t0"))]
    assert talk.is_in(_S.PREPARE_LEAVING)
    assert talk.member.commit_refusal() is None
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send]
    assert (talk.body["MemberEpoch"], talk.body["InstanceId"]) == (epoch, instance_id)
    assert talk.is_in(_S.LEAVING)
    talk.answers(epoch)
    assert talk.is_in(_S.UNSUBSCRIBED)
    assert talk.member.assignment == ()
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)


def test_the_last_commits_carry_the_epoch_that_came_while_it_leaves():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    talk.step(Unsubscribed())
    assert talk.answers(5, "") == []
    assert (talk.member.generation, talk.member.commit_refusal()) == (5, None)
    assert talk.hears(4) == [], "overtaken"
    assert talk.member.generation == 5
    talk.step(CallbacksDone())
    assert talk.is_in(_S.LEAVING)


def test_a_report_whose_answer_is_lost_is_sent_again_while_it_leaves():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    said = talk.body
    talk.step(Unsubscribed())
    assert talk.sent is not None
    lost = Answered(talk.sent.token, None, errors.KafkaConnectionError("gone"))
    assert talk.step(lost) == [ForgetCoordinator()]
    again_at = talk.member.next_deadline()
    assert again_at is not None
    talk.now = again_at
    assert kinds(talk.step(Ticked())) == [Send]
    assert talk.body == said, "not that it subscribes to nothing"
    talk.answers(5)
    assert talk.member.generation == 5
    assert talk.member.next_deadline() is None


def test_who_is_fenced_while_it_leaves_commits_nothing_more():
    talk = joined("T0")
    talk.step(Unsubscribed())
    assert talk.hears(code=errors.FencedMemberEpochError.errno) == []
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert talk.hears(7) == [], "from before the fence"
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send]
    talk.answers(-1)
    assert talk.is_in(_S.UNSUBSCRIBED)


def test_who_subscribes_again_while_it_leaves_joins_after_that():
    talk = joined("T0")
    talk.step(Unsubscribed())
    talk.step(Subscribed(frozenset("u")))
    talk.step(CallbacksDone())
    assert talk.is_in(_S.LEAVING)
    talk.answers(-1)
    assert talk.is_in(_S.JOINING)
    assert (talk.body["MemberEpoch"], talk.body["SubscribedTopicNames"]) == (0, ["u"])


def test_closing_may_leave_without_a_word():
    talk = joined("T0")
    assert kinds(talk.step(Closed(leave=False))) == [AutoCommit, Revoke]
    assert talk.step(CallbacksDone()) == [StopHeartbeats()]
    assert talk.is_in(_S.UNSUBSCRIBED)


def test_who_lost_its_membership_leaves_without_a_word_and_revokes_nothing():
    talk = joined("T0")
    talk.hears(code=errors.UnknownMemberIdError.errno)
    assert talk.step(Closed(leave=True)) == [Lose(partitions("t0"))]
    assert talk.step(CallbacksDone()) == [StopHeartbeats()]
    assert talk.is_in(_S.UNSUBSCRIBED)


def test_another_subscription_is_told_at_once():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    assert talk.body["SubscribedTopicNames"] == ["u"]
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (2, rows("T0"))
    assert talk.step(Subscribed(frozenset("u"))) == []


def test_the_epoch_of_commits_follows_the_answers():
    talk = joined("T0")
    talk.hears(7)
    assert talk.member.generation == 7
    assert talk.is_in(_S.STABLE)
    talk.hears(6, "T0 T1")
    assert talk.member.generation == 7, "overtaken answers are not news"
    assert talk.is_in(_S.STABLE)
