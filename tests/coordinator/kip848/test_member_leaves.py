"""How a member of KIP-848's protocol leaves its group."""

from __future__ import annotations

import pytest

from tests.coordinator.kip848.member_bench import joined, kinds, partitions
from thalweg import errors
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    AutoCommit,
    CallbacksDone,
    Closed,
    ForgetCoordinator,
    Lose,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    Unsubscribed,
)


@pytest.mark.parametrize("instance_id, epoch", [(None, -1), ("i", -2)])
def test_it_leaves_after_it_gave_everything_up(instance_id, epoch):
    talk = joined("T0", instance_id=instance_id)
    assert talk.step(Unsubscribed()) == [AutoCommit(), Revoke(partitions("t0"))]
    assert talk.is_in(ConsumerMemberState.PREPARE_LEAVING)
    assert talk.member.commit_refusal() is None
    assert kinds(talk.step(CallbacksDone())) == [StopHeartbeats, Send]
    assert (talk.body["MemberEpoch"], talk.body["InstanceId"]) == (epoch, instance_id)
    assert talk.is_in(ConsumerMemberState.LEAVING)
    talk.responds(epoch)
    assert talk.is_in(ConsumerMemberState.UNSUBSCRIBED)
    assert talk.member.assignment == ()
    assert isinstance(talk.member.commit_refusal(), errors.CommitFailedError)


def test_the_last_commits_carry_the_epoch_that_came_while_it_leaves():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    talk.step(Unsubscribed())
    assert talk.responds(5, "") == []
    assert (talk.member.generation, talk.member.commit_refusal()) == (5, None)
    assert talk.hears(4) == [], "overtaken"
    assert talk.member.generation == 5
    talk.step(CallbacksDone())
    assert talk.is_in(ConsumerMemberState.LEAVING)


def test_a_report_whose_response_is_lost_is_sent_again_while_it_leaves():
    talk = joined("T0")
    talk.step(Subscribed(frozenset("u")))
    said = talk.body
    talk.step(Unsubscribed())
    assert talk.sent is not None
    lost = Responded(talk.sent.token, None, errors.KafkaConnectionError("gone"))
    assert talk.step(lost) == [ForgetCoordinator()]
    again_at = talk.member.next_deadline()
    assert again_at is not None
    talk.now = again_at
    assert kinds(talk.step(Ticked())) == [Send]
    assert talk.body == said, "not that it subscribes to nothing"
    talk.responds(5)
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
    talk.responds(-1)
    assert talk.is_in(ConsumerMemberState.UNSUBSCRIBED)


def test_who_subscribes_again_while_it_leaves_joins_after_that():
    talk = joined("T0")
    talk.step(Unsubscribed())
    talk.step(Subscribed(frozenset("u")))
    talk.step(CallbacksDone())
    assert talk.is_in(ConsumerMemberState.LEAVING)
    talk.responds(-1)
    assert talk.is_in(ConsumerMemberState.JOINING)
    assert (talk.body["MemberEpoch"], talk.body["SubscribedTopicNames"]) == (0, ["u"])


def test_closing_may_leave_without_a_word():
    talk = joined("T0")
    assert kinds(talk.step(Closed(leave=False))) == [AutoCommit, Revoke]
    assert talk.step(CallbacksDone()) == [StopHeartbeats()]
    assert talk.is_in(ConsumerMemberState.UNSUBSCRIBED)


def test_who_lost_its_membership_leaves_without_a_word_and_revokes_nothing():
    talk = joined("T0")
    talk.hears(code=errors.UnknownMemberIdError.errno)
    assert talk.step(Closed(leave=True)) == [Lose(partitions("t0"))]
    assert talk.step(CallbacksDone()) == [StopHeartbeats()]
    assert talk.is_in(ConsumerMemberState.UNSUBSCRIBED)
