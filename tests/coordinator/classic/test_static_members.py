"""A classic group: static members that go and come back."""

from __future__ import annotations

from tests.coordinator.classic.group_bench import (
    DELAY,
    FENCED,
    REBALANCE,
    REBALANCING,
    UNKNOWN,
    Bench,
    stable,
    stable_static,
    subscription,
)
from thalweg.coordinator.steps import Ticked


def test_a_static_member_comes_back_without_a_rebalance_and_finds_its_assignment():
    bench, ids = stable_static(2)
    token = bench.join(instance="i1")
    response = bench.responses[token]
    assert response["GenerationId"] == 1
    assert response["MemberId"] not in ids
    assert response["Leader"] == ids[0]
    synced = bench.sync(response["MemberId"], 1, instance="i1")
    assert bench.responses[synced]["Assignment"] == ids[1].encode()
    assert bench.state == "Stable"


def test_a_static_leader_that_comes_back_is_told_to_leave_the_assignment_alone():
    bench, ids = stable_static(2)
    response = bench.responses[bench.join(instance="i0")]
    assert response["Leader"] == response["MemberId"] != ids[0]
    assert response["SkipAssignment"]
    assert len(response["Members"]) == 2


def test_an_old_static_leader_that_comes_back_takes_itself_for_a_follower():
    bench, ids = stable_static(2)
    response = bench.responses[bench.join(instance="i0", version=8)]
    assert response["Leader"] == ids[0] != response["MemberId"]
    assert response["Members"] == []


def test_the_older_of_two_with_the_same_instance_id_is_fenced():
    bench, ids = stable_static(2)
    bench.join(instance="i1")
    assert bench.code(bench.sync(ids[1], 1, instance="i1")) == FENCED
    assert bench.code(bench.join(ids[1], instance="i1")) == FENCED
    token = bench.leave((ids[1], "i1"))
    assert bench.responses[token]["Members"][0]["ErrorCode"] == FENCED


def test_the_older_one_is_fenced_at_once_if_it_waits():
    bench = Bench()
    old = bench.join(instance="i1")
    new = bench.join(instance="i1")
    assert bench.code(old) == FENCED
    bench.tick(DELAY)
    assert bench.code(new) == 0


def test_a_static_member_that_comes_back_with_another_protocol_starts_a_rebalance():
    bench = Bench()
    both = {"range": subscription("t"), "other": subscription("t")}
    bench.join(instance="i1", protocols=both)
    bench.tick(DELAY)
    bench.sync("i1-u1", 1, {}, instance="i1")
    token = bench.join(instance="i1", protocols={"other": subscription("t")})
    assert bench.responses[token]["GenerationId"] == 2
    assert bench.responses[token]["ProtocolName"] == "other"


def test_a_static_member_that_comes_back_while_completing_makes_all_join_again():
    bench, ids = stable_static(2)
    bench.join(ids[0], instance="i0")
    bench.join(ids[1], instance="i1")
    waits = bench.sync(ids[1], 2, instance="i1")
    back = bench.join(instance="i0")
    assert bench.code(waits) == REBALANCING
    again = bench.join(ids[1], instance="i1")
    assert bench.responses[back]["GenerationId"] == bench.responses[again]["GenerationId"] == 3


def test_an_absent_static_member_stays_through_a_rebalance_until_it_should_have_synced():
    bench, ids = stable_static(2)
    token = bench.join(ids[0], instance="i0")
    bench.tick(REBALANCE)
    assert bench.code(token) == 0
    assert list(bench.view["members"]) == ids
    bench.sync(ids[0], 2, {}, instance="i0")
    bench.tick(REBALANCE)
    assert list(bench.view["members"]) == [ids[0]]


def test_a_group_of_absent_static_members_waits_for_one_to_come():
    bench, ids = stable_static(2)
    bench.leave(("", "i0"))
    bench.tick(3 * REBALANCE)
    assert bench.state == "PreparingRebalance"
    token = bench.join(ids[1], instance="i1")
    assert bench.responses[token]["Leader"] == ids[1]


def test_a_group_of_absent_static_members_does_not_spin_if_their_rebalance_timeout_is_0():
    bench = Bench()
    rows = [("i0", REBALANCE), ("i1", 0)]
    tokens = [bench.join(instance=each, RebalanceTimeoutMs=ms) for each, ms in rows]
    bench.tick(2 * DELAY)
    ids = [bench.responses[each]["MemberId"] for each in tokens]
    bench.sync(ids[0], 1, {}, instance="i0")
    bench.sync(ids[1], 1, instance="i1")
    bench.leave(("", "i0"))
    bench.step(Ticked())
    assert bench.state == "PreparingRebalance"
    assert bench.group.next_deadline() == bench.now + 1_000


def test_a_static_member_that_comes_back_before_it_had_synced_is_waited_for_under_its_new_id():
    bench, ids = stable_static(2)
    bench.join(ids[0], instance="i0")
    bench.join(ids[1], instance="i1")
    bench.sync(ids[0], 2, {}, instance="i0")
    back = bench.responses[bench.join(instance="i1")]["MemberId"]
    bench.sync(back, 2, instance="i1")
    bench.tick(2 * REBALANCE)
    assert bench.state == "Stable"


def test_an_instance_id_must_be_that_of_the_member():
    bench, ids = stable(1)
    assert bench.code(bench.join(ids[0], instance="i1")) == UNKNOWN
