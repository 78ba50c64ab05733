"""How a member of the classic protocol leaves its group."""

from __future__ import annotations

import pytest

from tests.coordinator.assignors import Sticky
from tests.coordinator.classic.member_bench import REBALANCING, Bench, parts, sent
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    Lose,
    Polled,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    Unsubscribed,
)


def test_unsubscribing_revokes_and_then_leaves():
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.tell(Unsubscribed()) == [AutoCommit(), Revoke(parts(0))]
    stop, leave = bench.tell(CallbacksDone())
    assert stop == StopHeartbeats()
    assert leave.api == "LeaveGroup"
    assert leave.body[0][1]["Members"][0]["MemberId"] == "m"
    assert bench.poll() == []
    assert bench.respond(leave) == []
    bench.tell(Subscribed(frozenset({"t"})))
    body = bench.join().body
    assert body["MemberId"] == ""


def test_who_subscribes_again_joins_with_the_next_poll():
    bench = Bench()
    bench.stable(*parts(0))
    bench.tell(Unsubscribed())
    bench.tell(CallbacksDone())
    assert bench.poll() == []
    assert bench.tell(Subscribed(frozenset({"t"}))) == []
    assert sent(bench.poll(), "JoinGroup")


def test_unsubscribing_in_the_middle_of_a_rebalance_loses_what_was_kept():
    bench = Bench(Sticky())
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    send = bench.join()
    assert bench.tell(Unsubscribed()) == [Lose(parts(0))]
    assert sent(bench.tell(CallbacksDone()), "LeaveGroup")
    assert bench.joined(send) == []


def test_a_static_member_closes_without_leaving():
    bench = Bench(group_instance_id="i")
    bench.stable(*parts(0))
    assert bench.tell(Closed(True)) == [AutoCommit(), Revoke(parts(0))]
    assert bench.tell(CallbacksDone()) == [StopHeartbeats()]
    assert bench.member.state is MemberState.CLOSED


def test_a_member_may_close_without_telling_the_group():
    bench = Bench()
    bench.stable(*parts(0))
    bench.tell(Closed(False))
    assert bench.tell(CallbacksDone()) == [StopHeartbeats()]


def test_a_closed_member_says_nothing_more():
    bench = Bench()
    bench.stable(*parts(0))
    bench.tell(Closed(True))
    bench.tell(CallbacksDone())
    assert bench.poll() == bench.tell(Ticked()) == bench.tell(Closed(True)) == []


def test_a_member_that_never_joined_closes_without_a_request():
    assert Bench().tell(Closed(True)) == []


def test_a_consumer_may_unsubscribe_in_a_callback():
    bench = Bench()
    bench.stable(*parts(0, 1))
    bench.beat(REBALANCING)
    assert bench.tell(Polled()) == [AutoCommit(), Revoke(parts(0, 1))]
    assert bench.tell(Unsubscribed()) == [], "it may still commit there"
    assert bench.member.commit_refusal() is None
    assert sent(bench.tell(CallbacksDone()), "LeaveGroup")
    assert bench.poll() == []


def test_a_consumer_may_unsubscribe_and_subscribe_in_a_callback():
    bench = Bench()
    bench.stable(*parts(0, 1))
    bench.beat(REBALANCING)
    bench.tell(Polled())
    bench.tell(Unsubscribed())
    bench.tell(Subscribed(frozenset({"u"})))
    actions = [*bench.tell(CallbacksDone()), *bench.poll()]
    assert [each.api for each in actions if isinstance(each, Send)] == ["LeaveGroup", "JoinGroup"]
    assert actions[-1].body["MemberId"] == ""


@pytest.mark.parametrize("event", [Unsubscribed(), Closed(True)])
def test_what_was_just_assigned_is_revoked_before_it_leaves(event):
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    bench.synced(sync, *parts(0))
    assert bench.tell(Polled()) == [Assign(parts(0), parts(0))]
    assert bench.tell(event) == []
    assert bench.tell(CallbacksDone()) == [AutoCommit(), Revoke(parts(0))]
    assert sent(bench.tell(CallbacksDone()), "LeaveGroup")


@pytest.mark.parametrize("first, second", [(Unsubscribed(), Closed(True)), (Closed(True),) * 2])
def test_closing_again_while_it_leaves_leaves_once(first, second):
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.tell(first) == [AutoCommit(), Revoke(parts(0))]
    assert bench.tell(second) == []
    assert sent(bench.tell(CallbacksDone()), "LeaveGroup")
    assert bench.member.state is MemberState.CLOSED


def test_who_unsubscribes_while_it_closes_is_closed():
    bench = Bench()
    bench.stable(*parts(0))
    bench.tell(Closed(True))
    assert bench.tell(Unsubscribed()) == []
    assert sent(bench.tell(CallbacksDone()), "LeaveGroup")
    assert bench.member.state is MemberState.CLOSED
