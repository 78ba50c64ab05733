"""What a member of KIP-848's protocol does about errors, fences and silence."""

from __future__ import annotations

import pytest

from tests.coordinator.kip848.member_bench import Talk, joined, kinds, partitions, response, rows
from thalweg import errors
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    Assign,
    CallbacksDone,
    Closed,
    Fail,
    ForgetCoordinator,
    HeartbeatResponded,
    Heartbeats,
    Lose,
    Polled,
    PollExpired,
    Raise,
    Responded,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    Unsubscribed,
)


@pytest.mark.parametrize("code", [25, 110, 69])
def test_who_is_fenced_loses_all_and_joins_anew(code):
    """FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: nothing is committed under the old epoch.

    Scenario 37.
    """
    talk = joined("T0")
    assert talk.hears(code=code) == [StopHeartbeats()]
    assert talk.is_in(ConsumerMemberState.FENCED)
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert talk.member.generation == -1
    assert talk.polls() == [Lose(partitions("t0"))]
    talk.step(CallbacksDone())
    assert talk.is_in(ConsumerMemberState.JOINING)
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (0, [])
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    talk.responds(5, "T0")
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
    assert talk.is_in(ConsumerMemberState.JOINING)


def test_a_response_from_before_the_fence_changes_nothing():
    talk = joined("T0")
    talk.hears(code=110)
    talk.hears(9, "T0 T1")
    assert talk.is_in(ConsumerMemberState.FENCED)
    talk.polls()
    talk.step(CallbacksDone())
    talk.hears(9, "T0 T1", is_current=False)
    assert talk.is_in(ConsumerMemberState.JOINING)
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
    assert talk.is_in(ConsumerMemberState.FATAL)
    for event in (Polled(), Subscribed(frozenset("t")), Unsubscribed(), Closed(True), Ticked()):
        assert talk.step(event) == []


def test_a_broker_without_the_protocol_is_named():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    error = errors.IncompatibleBrokerVersion("no ConsumerGroupHeartbeat")
    actions = talk.step(Responded(talk.sent.token, None, error))
    assert isinstance(actions[-1], Fail)
    assert "does not support the consumer group protocol" in str(actions[-1].error)
    assert "group_protocol='classic'" in str(actions[-1].error)


@pytest.mark.parametrize("code, forgets", [(14, False), (15, True), (16, True)])
def test_a_coordinator_that_moves_costs_nothing(code, forgets):
    talk = joined("T0")
    actions = talk.hears(code=code)
    assert actions == ([ForgetCoordinator()] if forgets else [])
    assert talk.is_in(ConsumerMemberState.STABLE)
    assert talk.member.next_deadline() == talk.now + 100
    talk.now += 100
    assert kinds(talk.step(Ticked())) == [StopHeartbeats, Send, Heartbeats]
    assert (talk.body["MemberEpoch"], talk.body["TopicPartitions"]) == (2, rows("T0"))
    talk.responds(2, "T0")
    assert talk.polls() == []
    assert talk.member.assignment == partitions("t0")


def test_a_lost_response_to_a_replaced_heartbeat_is_requested_again():
    """It may have had an assignment, which the broker says only once unless it gets a report."""
    talk = joined("T0")
    lost = HeartbeatResponded(None, errors.KafkaConnectionError("broken"), is_current=False)
    assert talk.step(lost) == [ForgetCoordinator()]
    talk.now += 100
    assert kinds(talk.step(Ticked())) == [StopHeartbeats, Send, Heartbeats]
    assert talk.body["TopicPartitions"] == rows("T0")
    assert talk.step(lost) == [], "the report that is in flight gets the assignment"
    talk.responds(2, "T0 T1")
    assert [each for each in talk.polls() if isinstance(each, Assign)] == [
        Assign(partitions("t0 t1"), partitions("t1"))
    ]


def test_a_lost_response_from_before_a_fence_changes_nothing():
    talk = joined("T0")
    talk.hears(code=110)
    talk.polls()
    talk.step(CallbacksDone())
    assert talk.is_in(ConsumerMemberState.JOINING)
    lost = HeartbeatResponded(None, errors.KafkaConnectionError("broken"), is_current=False)
    assert talk.step(lost) == []
    assert talk.is_in(ConsumerMemberState.JOINING)


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
        talk.step(Responded(talk.sent.token, None, errors.KafkaTimeoutError("silence")))
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_a_lost_join_is_sent_again():
    talk = Talk()
    talk.step(Subscribed(frozenset("t")))
    assert talk.sent is not None
    first = talk.sent
    actions = talk.step(Responded(first.token, None, errors.KafkaConnectionError("broken")))
    assert actions == [ForgetCoordinator()]
    talk.now += 100
    talk.step(Ticked())
    assert talk.body == first.body
    assert talk.step(Responded(first.token, response(2, "T0"))) == [], "given up"
    talk.responds(2, "T0")
    assert talk.is_in(ConsumerMemberState.RECONCILING)


def test_a_topic_that_may_not_be_read_is_told_and_tried_again():
    talk = joined("T0")
    (raised,) = talk.hears(code=29)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, errors.TopicAuthorizationFailedError)
    assert talk.member.next_deadline() is not None
    assert talk.is_in(ConsumerMemberState.STABLE)


def test_a_refused_login_is_raised_and_the_member_continues():
    talk = joined("T0")
    refused = errors.SaslAuthenticationFailedError("invalid credentials")
    assert talk.step(HeartbeatResponded(None, refused)) == [Raise(refused)]
    assert talk.is_in(ConsumerMemberState.STABLE)
    for _ in range(3):
        talk.now += 1_000
        talk.step(Ticked())
        assert talk.sent is not None
        assert talk.step(Responded(talk.sent.token, None, refused)) == [Raise(refused)]
    talk.now += 1_000
    talk.step(Ticked())
    talk.responds(2, "T0")
    assert talk.polls() == []
    assert talk.member.assignment == partitions("t0")


def test_credentials_that_are_missing_for_a_moment_are_not_raised():
    talk = joined("T0")
    missing = errors.NoCredentialsError("the token provider raised")
    assert talk.step(HeartbeatResponded(None, missing)) == [ForgetCoordinator()]
    assert talk.is_in(ConsumerMemberState.STABLE)


def test_who_does_not_poll_is_stale_and_joins_once_it_has_lost_all():
    talk = joined("T0", max_poll_interval_ms=9_000)
    assert talk.repeated is not None
    assert talk.repeated.leave == (
        "ConsumerGroupHeartbeat",
        {"GroupId": "g", "MemberId": "m", "MemberEpoch": -1, "InstanceId": None},
    )
    talk.step(PollExpired())
    assert talk.is_in(ConsumerMemberState.STALE)
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)
    assert talk.polls() == [Lose(partitions("t0"))]
    # Not with another poll: perhaps nothing would request one.
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send, Heartbeats]
    assert talk.body["MemberEpoch"] == 0
    assert talk.polls() == []
