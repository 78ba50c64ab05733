"""A classic group: who may join, and what the responses say."""

from __future__ import annotations

import uuid

import pytest

from tests.coordinator.classic.group_bench import (
    BAD_SESSION,
    DELAY,
    FULL,
    ID_REQUIRED,
    INCONSISTENT,
    LONG_ID,
    SESSION,
    STRING_BYTES_MAX,
    UNKNOWN,
    Bench,
    stable,
    subscription,
)
from thalweg.coordinator.classic.group import GroupSettings


def test_a_member_without_an_id_is_given_one_and_asked_to_join_with_it():
    bench = Bench()
    token = bench.join()
    assert bench.responses[token]["ErrorCode"] == ID_REQUIRED
    assert bench.responses[token]["MemberId"] == "client-u1"
    assert bench.state == "Empty"


def test_versions_before_4_join_at_once():
    bench = Bench()
    token = bench.join(version=3)
    bench.tick(DELAY)
    assert bench.responses[token]["MemberId"] == "client-u1"
    assert bench.code(token) == 0


def test_a_static_member_joins_at_once_and_its_id_tells_its_instance():
    bench = Bench()
    token = bench.join(instance="i1")
    bench.tick(DELAY)
    assert bench.responses[token]["MemberId"] == "i1-u1"


@pytest.mark.parametrize("instance", [None, LONG_ID])
def test_a_long_client_or_instance_id_is_cut_so_that_the_member_id_fits_into_responses(instance):
    bench = Bench()
    bench.client_id = LONG_ID
    token = bench.join(instance=instance)
    bench.tick(DELAY)
    chosen, _, unique = bench.responses[token]["MemberId"].rpartition("-")
    assert LONG_ID.startswith(chosen)
    assert unique == "u1"
    assert 30_000 < len(chosen.encode()) < STRING_BYTES_MAX - len(f"-{uuid.uuid4()}")


def test_a_pending_id_ends_with_its_session():
    bench = Bench()
    member_id = bench.responses[bench.join()]["MemberId"]
    bench.tick(SESSION)
    assert bench.code(bench.join(member_id)) == UNKNOWN


def test_an_unknown_member_id_is_refused():
    bench = Bench()
    assert bench.code(bench.join("who")) == UNKNOWN


def test_an_empty_group_waits_for_the_initial_delay():
    bench = Bench()
    _, token = bench.enter()
    bench.tick(DELAY - 1)
    assert token not in bench.responses
    bench.tick(1)
    assert bench.code(token) == 0


def test_each_newcomer_makes_the_initial_wait_longer_up_to_the_rebalance_timeout():
    bench = Bench()
    _, token = bench.enter(RebalanceTimeoutMs=7_000)
    for _ in range(3):
        bench.tick(2_000)
        bench.enter(RebalanceTimeoutMs=7_000)
    assert token not in bench.responses
    bench.tick(999)
    assert token not in bench.responses
    bench.tick(1)
    assert bench.code(token) == 0


def test_only_the_leader_hears_who_the_members_are():
    bench = Bench()
    (first, first_token), (second, second_token) = bench.enter(), bench.enter()
    bench.tick(2 * DELAY)
    leader, follower = bench.responses[first_token], bench.responses[second_token]
    assert leader["Leader"] == follower["Leader"] == first
    assert [each["MemberId"] for each in leader["Members"]] == [first, second]
    assert follower["Members"] == []
    assert leader["Members"][0]["Metadata"] == subscription("t")


def test_the_protocol_is_the_one_with_most_votes_among_those_that_all_support():
    bench = Bench()
    tokens = [
        bench.enter(protocols={name: name.encode() for name in names})[1]
        for names in (["a", "b", "c"], ["b", "c"], ["x", "c", "b"])
    ]
    bench.tick(2 * DELAY)
    assert {bench.responses[each]["ProtocolName"] for each in tokens} == {"b"}
    rows = bench.responses[tokens[0]]["Members"]
    assert [each["Metadata"] for each in rows] == [b"b"] * 3


def test_a_member_without_a_common_protocol_is_refused():
    bench, _ = stable(1)
    assert bench.code(bench.join(protocols={"other": b""})) == INCONSISTENT
    assert bench.code(bench.join(ProtocolType="connect")) == INCONSISTENT
    assert bench.code(bench.join(protocols={})) == INCONSISTENT
    assert bench.state == "Stable"


@pytest.mark.parametrize("session_ms, code", [(5_999, BAD_SESSION), (1_800_001, BAD_SESSION)])
def test_session_timeouts_have_bounds(session_ms, code):
    bench = Bench()
    assert bench.code(bench.join(SessionTimeoutMs=session_ms)) == code


def test_the_bounds_themselves_are_allowed():
    bench = Bench()
    for session_ms in (6_000, 1_800_000):
        assert bench.code(bench.join(SessionTimeoutMs=session_ms)) == ID_REQUIRED


def test_a_full_group_takes_nobody_but_its_own_members():
    bench, ids = stable(2, max_size=2)
    assert bench.code(bench.join()) == FULL
    rejoin = bench.join(ids[0])
    bench.join(ids[1], protocols={"range": subscription("t", "u")})
    assert bench.code(rejoin) == 0


def test_a_group_above_its_size_loses_who_rejoins_last():
    bench, ids = stable(3)
    bench.group._settings = GroupSettings(max_size=2)
    first, second = bench.join(ids[0]), bench.join(ids[1])
    assert bench.code(bench.join(ids[2])) == FULL
    assert bench.code(first) == bench.code(second) == 0
    assert list(bench.view["members"]) == ids[:2]


def test_version_0_waits_for_the_session_timeout():
    bench = Bench()
    bench.join(version=0, RebalanceTimeoutMs=-1)
    assert bench.group.roster.rebalance_timeout_ms() == SESSION
