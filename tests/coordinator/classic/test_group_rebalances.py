"""A classic group: a rebalance, and the assignments that end it."""

from __future__ import annotations

import pytest

from tests.coordinator.classic.group_bench import (
    DELAY,
    ILLEGAL,
    INCONSISTENT,
    REBALANCE,
    REBALANCING,
    SESSION,
    UNKNOWN,
    Bench,
    completing,
    stable,
    subscription,
)
from thalweg.coordinator.steps import Publish, Reply

# ---------------------------------------------------------------------- a rebalance


def test_a_newcomer_waits_until_all_known_members_have_joined_again():
    bench, ids = stable(2)
    _, newcomer = bench.enter()
    assert bench.state == "PreparingRebalance"
    bench.join(ids[0])
    assert newcomer not in bench.responses
    bench.join(ids[1])
    assert bench.responses[newcomer]["GenerationId"] == 2


def test_who_does_not_join_within_the_rebalance_timeout_is_removed():
    bench, ids = stable(2)
    _, newcomer = bench.enter()
    again = bench.join(ids[0])
    bench.tick(REBALANCE - 1)
    assert again not in bench.responses
    bench.tick(1)
    assert bench.code(again) == bench.code(newcomer) == 0
    assert ids[1] not in bench.view["members"]
    assert bench.code(bench.join(ids[1])) == UNKNOWN


def test_an_id_given_out_is_waited_for_too():
    bench, ids = stable(1)
    member_id = bench.responses[bench.join()]["MemberId"]
    token = bench.join(ids[0])
    assert token not in bench.responses
    bench.join(member_id)
    assert bench.code(token) == 0


def test_an_id_given_out_that_expires_lets_the_rebalance_go_on():
    bench, ids = stable(1)
    bench.join()
    token = bench.join(ids[0])
    bench.tick(SESSION)
    assert bench.code(token) == 0


def test_the_leader_that_is_gone_is_followed_by_a_member_that_takes_part():
    bench, ids = stable(3)
    second = bench.join(ids[1], protocols={"range": subscription("u")})
    third = bench.join(ids[2])
    bench.tick(REBALANCE)
    assert bench.responses[second]["Leader"] == ids[1]
    assert len(bench.responses[second]["Members"]) == 2
    assert bench.responses[third]["Members"] == []


def test_heartbeats_are_told_of_the_rebalance_while_the_group_prepares():
    bench, ids = stable(2)
    assert {row["heartbeat"] for row in bench.view["members"].values()} == {0}
    bench.enter()
    assert bench.view["members"][ids[0]]["heartbeat"] == REBALANCING
    bench.join(ids[0])
    bench.join(ids[1])
    assert bench.state == "CompletingRebalance"
    assert {row["heartbeat"] for row in bench.view["members"].values()} == {0}


def test_a_session_is_watched_unless_a_request_of_the_member_waits():
    bench, ids = stable(2)
    bench.join(ids[1], protocols={"range": subscription("u")})
    assert bench.view["members"][ids[0]]["watched"]
    assert not bench.view["members"][ids[1]]["watched"]
    bench.join(ids[0])
    assert {row["watched"] for row in bench.view["members"].values()} == {True}
    bench.sync(ids[1], 2)
    assert not bench.view["members"][ids[1]]["watched"]


def test_a_view_stands_before_the_replies_of_its_step():
    bench, ids = stable(2)
    bench.join(ids[1], protocols={"range": subscription("u")})
    bench.join(ids[0])
    assert [type(each) for each in bench.actions] == [Publish, Reply, Reply]


def test_a_step_that_changes_nothing_publishes_nothing():
    bench, ids = stable(2)
    bench.sync(ids[0], 1)
    assert [type(each) for each in bench.actions] == [Reply]


def test_the_view_names_the_topics_of_all_members():
    bench = Bench()
    bench.enter(protocols={"range": subscription("b", "a")})
    bench.enter(protocols={"range": subscription("c")})
    bench.tick(2 * DELAY)
    assert bench.view["topics"] == ["a", "b", "c"]


def test_metadata_that_is_no_subscription_harms_nobody():
    bench = Bench()
    _, token = bench.enter(protocols={"range": b"\0"})
    bench.tick(DELAY)
    assert bench.code(token) == 0
    assert bench.view["topics"] == []


def test_a_follower_that_rejoins_unchanged_gets_the_present_generation():
    bench, ids = stable(2)
    token = bench.join(ids[1])
    assert bench.responses[token]["GenerationId"] == 1
    assert bench.responses[token]["Members"] == []
    assert bench.state == "Stable"


def test_a_follower_that_rejoins_with_other_metadata_starts_a_rebalance():
    bench, ids = stable(2)
    bench.join(ids[1], protocols={"range": subscription("u")})
    assert bench.state == "PreparingRebalance"


def test_a_leader_that_rejoins_starts_a_rebalance():
    bench, ids = stable(2)
    bench.join(ids[0])
    assert bench.state == "PreparingRebalance"


def test_who_missed_the_response_while_completing_gets_it_again():
    bench, ids = completing()
    leader, follower = bench.join(ids[0]), bench.join(ids[1])
    assert len(bench.responses[leader]["Members"]) == 2
    assert bench.responses[follower]["Members"] == []
    assert bench.state == "CompletingRebalance"


def test_a_change_while_completing_sends_who_waits_back_to_join():
    bench, ids = completing()
    waits = bench.sync(ids[1], 2)
    bench.join(ids[0], protocols={"range": subscription("u")})
    assert bench.code(waits) == REBALANCING
    assert bench.state == "PreparingRebalance"


def test_a_client_that_reconnects_gets_its_response_on_its_new_connection_only():
    bench, ids = stable(2)
    old = bench.join(ids[0])
    new = bench.join(ids[0])
    bench.join(ids[1])
    assert old not in bench.responses
    assert bench.code(new) == 0
    old, new = bench.sync(ids[1], 2), bench.sync(ids[1], 2)
    bench.sync(ids[0], 2, {ids[1]: b"mine"})
    assert old not in bench.responses
    assert bench.responses[new]["Assignment"] == b"mine"


def test_a_new_member_that_never_gets_its_response_is_given_up_after_five_minutes():
    bench, _ids = stable(1)
    bench.group.roster.members[_ids[0]].rebalance_timeout_ms = 400_000
    _, token = bench.enter()
    bench.tick(300_000)
    assert bench.code(token) == UNKNOWN


# ---------------------------------------------------------------------- SyncGroup


def test_everyone_waits_for_the_leaders_assignment():
    bench, ids = completing()
    follower = bench.sync(ids[1], 2)
    assert follower not in bench.responses
    leader = bench.sync(ids[0], 2, {ids[0]: b"one", ids[1]: b"two"})
    assert bench.responses[leader]["Assignment"] == b"one"
    assert bench.responses[follower]["Assignment"] == b"two"
    assert bench.responses[follower]["ProtocolName"] == "range"
    assert bench.view["state"] == "Stable"


def test_who_syncs_late_gets_its_assignment_at_once():
    bench, ids = completing()
    bench.sync(ids[0], 2, {ids[1]: b"two"})
    assert bench.responses[bench.sync(ids[1], 2)]["Assignment"] == b"two"


def test_a_member_without_a_row_gets_an_empty_assignment():
    bench, ids = completing()
    bench.sync(ids[0], 2, {})
    assert bench.responses[bench.sync(ids[1], 2)]["Assignment"] == b""


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"GenerationId": 1}, ILLEGAL),
        ({"GenerationId": 3}, ILLEGAL),
        ({"MemberId": "who"}, UNKNOWN),
        ({"ProtocolName": "other"}, INCONSISTENT),
        ({"ProtocolType": "connect"}, INCONSISTENT),
        ({"ProtocolName": None, "ProtocolType": None}, None),
    ],
)
def test_a_sync_must_be_of_this_generation_member_and_protocol(fields, code):
    bench, ids = completing()
    token = bench.sync(ids[1], 2, **fields)
    assert bench.responses.get(token, {}).get("ErrorCode") == code


def test_a_sync_while_preparing_is_sent_back_to_join():
    bench, ids = stable(2)
    bench.join(ids[0])
    assert bench.code(bench.sync(ids[1], 1)) == REBALANCING


def test_members_that_do_not_sync_are_removed_and_the_group_prepares_again():
    bench, ids = completing()
    waits = bench.sync(ids[1], 2)
    bench.tick(REBALANCE - 1)
    assert waits not in bench.responses
    bench.tick(1)
    assert bench.code(waits) == REBALANCING
    assert list(bench.view["members"]) == [ids[1]]
    assert bench.state == "PreparingRebalance"


def test_a_follower_that_does_not_sync_is_removed_out_of_a_stable_group():
    bench, ids = completing()
    bench.sync(ids[0], 2, {})
    assert bench.state == "Stable"
    bench.tick(REBALANCE)
    assert list(bench.view["members"]) == [ids[0]]


def test_nobody_is_removed_once_all_have_synced():
    bench, ids = stable(2)
    bench.tick(10 * REBALANCE)
    assert list(bench.view["members"]) == ids
