"""The broker's side of one classic group: each test checks one rule on its own group."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from thalweg.coordinator.classic.group import ClassicGroup, GroupSettings
from thalweg.coordinator.protocol import Subscription
from thalweg.coordinator.states import GroupState
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
)

UNKNOWN, ILLEGAL, REBALANCING, FENCED, ID_REQUIRED = 25, 22, 27, 82, 79
INCONSISTENT, BAD_SESSION, FULL = 23, 26, 81
DELAY, REBALANCE, SESSION = 3_000, 60_000, 10_000
STRING_BYTES_MAX = 32_767  # in non-flexible versions
LONG_ID = "\N{GRINNING FACE}" * (STRING_BYTES_MAX // 4)


class Bench:
    """A group, and its output."""

    def __init__(self, **settings: Any) -> None:
        ids = itertools.count(1)
        self.now = 0.0
        self.client_id = "client"
        self.group = ClassicGroup("g", GroupSettings(**settings), lambda: f"u{next(ids)}")
        self.answers: dict[int, dict[str, Any]] = {}
        self.view: dict[str, Any] = {}
        self.actions: list[Any] = []
        self.tokens = itertools.count(1)

    def step(self, event: Any) -> None:
        self.actions = self.group.step(event, self.now)
        for action in self.actions:
            match action:
                case Reply(token, body):
                    assert token not in self.answers, "answered twice"
                    self.answers[token] = body
                case Publish(view):
                    self.view = view

    def ask(self, api: str, version: int, body: dict[str, Any]) -> int:
        token = next(self.tokens)
        self.step(Arrived(token, api, version, body, self.client_id, "/127.0.0.1"))
        return token

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        version: int = 9,
        **fields: Any,
    ) -> int:
        rows = {"range": subscription("t")} if protocols is None else protocols
        body = {
            "GroupId": "g",
            "SessionTimeoutMs": SESSION,
            "RebalanceTimeoutMs": REBALANCE,
            "MemberId": member_id,
            "GroupInstanceId": instance,
            "ProtocolType": "consumer",
            "Protocols": [{"Name": n, "Metadata": m} for n, m in rows.items()],
        }
        return self.ask("JoinGroup", version, body | fields)

    def enter(self, **options: Any) -> tuple[str, int]:
        """Joins twice, as KIP-394 requires: returns the member ID and the waiting token."""
        first = self.join(**options)
        if self.answers.get(first, {}).get("ErrorCode") != ID_REQUIRED:
            return "", first
        member_id = self.answers[first]["MemberId"]
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        instance: str | None = None,
        **fields: Any,
    ) -> int:
        body = {
            "GroupId": "g",
            "GenerationId": generation,
            "MemberId": member_id,
            "GroupInstanceId": instance,
            "ProtocolType": "consumer",
            "ProtocolName": "range",
            "Assignments": [
                {"MemberId": m, "Assignment": a} for m, a in (assignments or {}).items()
            ],
        }
        return self.ask("SyncGroup", 5, body | fields)

    def leave(self, *rows: tuple[str, str | None]) -> int:
        members = [{"MemberId": m, "GroupInstanceId": i} for m, i in rows]
        return self.ask("LeaveGroup", 5, {"GroupId": "g", "Members": members})

    def tick(self, ms: float) -> None:
        """Advances the time, with a Ticked event at each deadline."""
        end = self.now + ms
        while (due := self.group.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.step(Ticked())
        self.now = end

    def code(self, token: int) -> int:
        return self.answers[token]["ErrorCode"]

    @property
    def state(self) -> str:
        return str(self.group.state)


def subscription(*topics: str) -> bytes:
    return Subscription(3, list(topics)).encode()


def stable(count: int, **settings: Any) -> tuple[Bench, list[str]]:
    """Makes a stable group of dynamic members. The first one leads."""
    bench = Bench(**settings)
    ids = [bench.enter()[0] for _ in range(count)]
    bench.tick(2 * DELAY)
    bench.sync(ids[0], 1, {each: each.encode() for each in ids})
    for each in ids[1:]:
        bench.sync(each, 1)
    assert bench.state == "Stable"
    return bench, ids


def stable_static(count: int, **settings: Any) -> tuple[Bench, list[str]]:
    bench = Bench(**settings)
    tokens = [bench.join(instance=f"i{number}") for number in range(count)]
    bench.tick(2 * DELAY)
    ids = [bench.answers[each]["MemberId"] for each in tokens]
    bench.sync(ids[0], 1, {each: each.encode() for each in ids}, instance="i0")
    for number, each in enumerate(ids[1:], 1):
        bench.sync(each, 1, instance=f"i{number}")
    assert bench.state == "Stable"
    return bench, ids


# ---------------------------------------------------------------------- joining


def test_a_member_without_an_id_is_given_one_and_asked_to_join_with_it():
    bench = Bench()
    token = bench.join()
    assert bench.answers[token]["ErrorCode"] == ID_REQUIRED
    assert bench.answers[token]["MemberId"] == "client-u1"
    assert bench.state == "Empty"


def test_versions_before_4_join_at_once():
    bench = Bench()
    token = bench.join(version=3)
    bench.tick(DELAY)
    assert bench.answers[token]["MemberId"] == "client-u1"
    assert bench.code(token) == 0


def test_a_static_member_joins_at_once_and_its_id_tells_its_instance():
    bench = Bench()
    token = bench.join(instance="i1")
    bench.tick(DELAY)
    assert bench.answers[token]["MemberId"] == "i1-u1"


@pytest.mark.parametrize("instance", [None, LONG_ID])
def test_a_long_client_or_instance_id_is_cut_so_that_the_member_id_fits_into_answers(instance):
    bench = Bench()
    bench.client_id = LONG_ID
    token = bench.join(instance=instance)
    bench.tick(DELAY)
    chosen, _, unique = bench.answers[token]["MemberId"].rpartition("-")
    assert LONG_ID.startswith(chosen)
    assert unique == "u1"
    assert 30_000 < len(chosen.encode()) < STRING_BYTES_MAX - len(f"-{uuid.uuid4()}")


def test_a_pending_id_ends_with_its_session():
    bench = Bench()
    member_id = bench.answers[bench.join()]["MemberId"]
    bench.tick(SESSION)
    assert bench.code(bench.join(member_id)) == UNKNOWN


def test_an_unknown_member_id_is_refused():
    bench = Bench()
    assert bench.code(bench.join("who")) == UNKNOWN


def test_an_empty_group_waits_for_the_initial_delay():
    bench = Bench()
    _, token = bench.enter()
    bench.tick(DELAY - 1)
    assert token not in bench.answers
    bench.tick(1)
    assert bench.code(token) == 0


def test_each_newcomer_makes_the_initial_wait_longer_up_to_the_rebalance_timeout():
    bench = Bench()
    _, token = bench.enter(RebalanceTimeoutMs=7_000)
    for _ in range(3):
        bench.tick(2_000)
        bench.enter(RebalanceTimeoutMs=7_000)
    assert token not in bench.answers
    bench.tick(999)
    assert token not in bench.answers
    bench.tick(1)
    assert bench.code(token) == 0


def test_only_the_leader_hears_who_the_members_are():
    bench = Bench()
    (first, first_token), (second, second_token) = bench.enter(), bench.enter()
    bench.tick(2 * DELAY)
    leader, follower = bench.answers[first_token], bench.answers[second_token]
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
    assert {bench.answers[each]["ProtocolName"] for each in tokens} == {"b"}
    rows = bench.answers[tokens[0]]["Members"]
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


# ---------------------------------------------------------------------- a rebalance


def test_a_newcomer_waits_until_all_known_members_have_joined_again():
    bench, ids = stable(2)
    _, newcomer = bench.enter()
    assert bench.state == "PreparingRebalance"
    bench.join(ids[0])
    assert newcomer not in bench.answers
    bench.join(ids[1])
    assert bench.answers[newcomer]["GenerationId"] == 2


def test_who_does_not_join_within_the_rebalance_timeout_is_removed():
    bench, ids = stable(2)
    _, newcomer = bench.enter()
    again = bench.join(ids[0])
    bench.tick(REBALANCE - 1)
    assert again not in bench.answers
    bench.tick(1)
    assert bench.code(again) == bench.code(newcomer) == 0
    assert ids[1] not in bench.view["members"]
    assert bench.code(bench.join(ids[1])) == UNKNOWN


def test_an_id_given_out_is_waited_for_too():
    bench, ids = stable(1)
    member_id = bench.answers[bench.join()]["MemberId"]
    token = bench.join(ids[0])
    assert token not in bench.answers
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
    assert bench.answers[second]["Leader"] == ids[1]
    assert len(bench.answers[second]["Members"]) == 2
    assert bench.answers[third]["Members"] == []


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
    assert bench.answers[token]["GenerationId"] == 1
    assert bench.answers[token]["Members"] == []
    assert bench.state == "Stable"


def test_a_follower_that_rejoins_with_other_metadata_starts_a_rebalance():
    bench, ids = stable(2)
    bench.join(ids[1], protocols={"range": subscription("u")})
    assert bench.state == "PreparingRebalance"


def test_a_leader_that_rejoins_starts_a_rebalance():
    bench, ids = stable(2)
    bench.join(ids[0])
    assert bench.state == "PreparingRebalance"


def completing() -> tuple[Bench, list[str]]:
    bench, ids = stable(2)
    bench.join(ids[0])
    bench.join(ids[1])
    assert bench.state == "CompletingRebalance"
    return bench, ids


def test_who_missed_the_answer_while_completing_gets_it_again():
    bench, ids = completing()
    leader, follower = bench.join(ids[0]), bench.join(ids[1])
    assert len(bench.answers[leader]["Members"]) == 2
    assert bench.answers[follower]["Members"] == []
    assert bench.state == "CompletingRebalance"


def test_a_change_while_completing_sends_who_waits_back_to_join():
    bench, ids = completing()
    waits = bench.sync(ids[1], 2)
    bench.join(ids[0], protocols={"range": subscription("u")})
    assert bench.code(waits) == REBALANCING
    assert bench.state == "PreparingRebalance"


def test_a_client_that_reconnects_is_answered_on_its_new_connection_only():
    bench, ids = stable(2)
    old = bench.join(ids[0])
    new = bench.join(ids[0])
    bench.join(ids[1])
    assert old not in bench.answers
    assert bench.code(new) == 0
    old, new = bench.sync(ids[1], 2), bench.sync(ids[1], 2)
    bench.sync(ids[0], 2, {ids[1]: b"mine"})
    assert old not in bench.answers
    assert bench.answers[new]["Assignment"] == b"mine"


def test_a_new_member_that_never_gets_its_answer_is_given_up_after_five_minutes():
    bench, _ids = stable(1)
    bench.group.roster.members[_ids[0]].rebalance_timeout_ms = 400_000
    _, token = bench.enter()
    bench.tick(300_000)
    assert bench.code(token) == UNKNOWN


# ---------------------------------------------------------------------- SyncGroup


def test_everyone_waits_for_the_leaders_assignment():
    bench, ids = completing()
    follower = bench.sync(ids[1], 2)
    assert follower not in bench.answers
    leader = bench.sync(ids[0], 2, {ids[0]: b"one", ids[1]: b"two"})
    assert bench.answers[leader]["Assignment"] == b"one"
    assert bench.answers[follower]["Assignment"] == b"two"
    assert bench.answers[follower]["ProtocolName"] == "range"
    assert bench.view["state"] == "Stable"


def test_who_syncs_late_gets_its_assignment_at_once():
    bench, ids = completing()
    bench.sync(ids[0], 2, {ids[1]: b"two"})
    assert bench.answers[bench.sync(ids[1], 2)]["Assignment"] == b"two"


def test_a_member_without_a_row_gets_an_empty_assignment():
    bench, ids = completing()
    bench.sync(ids[0], 2, {})
    assert bench.answers[bench.sync(ids[1], 2)]["Assignment"] == b""


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
    assert bench.answers.get(token, {}).get("ErrorCode") == code


def test_a_sync_while_preparing_is_sent_back_to_join():
    bench, ids = stable(2)
    bench.join(ids[0])
    assert bench.code(bench.sync(ids[1], 1)) == REBALANCING


def test_members_that_do_not_sync_are_removed_and_the_group_prepares_again():
    bench, ids = completing()
    waits = bench.sync(ids[1], 2)
    bench.tick(REBALANCE - 1)
    assert waits not in bench.answers
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


# ---------------------------------------------------------------------- leaving


def test_a_leaver_starts_a_rebalance_of_those_who_stay():
    bench, ids = stable(2)
    token = bench.leave((ids[1], None))
    assert bench.answers[token]["Members"] == [
        {"MemberId": ids[1], "GroupInstanceId": None, "ErrorCode": 0}
    ]
    assert bench.state == "PreparingRebalance"


def test_the_last_leaver_leaves_an_empty_group_of_the_next_generation():
    bench, ids = stable(1)
    bench.leave((ids[0], None))
    assert bench.state == "Empty"
    assert bench.group.generation == 2
    assert bench.view["members"] == {}


def test_one_request_may_name_several_leavers_each_with_its_own_error():
    bench, ids = stable(3)
    token = bench.leave((ids[0], None), ("who", None), ("", "nobody"), (ids[2], None))
    codes = [row["ErrorCode"] for row in bench.answers[token]["Members"]]
    assert codes == [0, UNKNOWN, UNKNOWN, 0]
    assert list(bench.view["members"]) == [ids[1]]


def test_versions_before_3_name_one_leaver_and_get_its_error():
    bench, ids = stable(2)
    for member_id, code in ((ids[1], 0), ("who", UNKNOWN)):
        token = bench.ask("LeaveGroup", 2, {"GroupId": "g", "MemberId": member_id})
        assert bench.answers[token] == {"ErrorCode": code}


def test_an_administrator_removes_a_static_member_by_its_instance_id():
    bench, ids = stable_static(2)
    token = bench.leave(("", "i1"))
    assert bench.answers[token]["Members"][0]["ErrorCode"] == 0
    assert list(bench.view["members"]) == [ids[0]]


def test_an_id_given_out_may_leave_without_a_rebalance():
    bench, _ids = stable(1)
    member_id = bench.answers[bench.join()]["MemberId"]
    token = bench.leave((member_id, None))
    assert bench.answers[token]["Members"][0]["ErrorCode"] == 0
    assert bench.state == "Stable"


def test_who_leaves_while_its_join_waits_is_answered():
    bench, ids = stable(2)
    token = bench.join(ids[1], protocols={"range": subscription("u")})
    bench.leave((ids[1], None))
    assert bench.code(token) == UNKNOWN


def test_a_leaver_that_was_waited_for_lets_the_rebalance_go_on():
    bench, ids = stable(2)
    token = bench.join(ids[0])
    bench.leave((ids[1], None))
    assert bench.code(token) == 0


def test_an_expired_session_starts_a_rebalance():
    bench, ids = stable(2)
    bench.step(SessionExpired(ids[0]))
    assert bench.state == "PreparingRebalance"
    assert list(bench.view["members"]) == [ids[1]]


def test_news_of_an_expired_session_that_come_too_late_are_ignored():
    bench, ids = stable(2)
    bench.join(ids[0])
    bench.step(SessionExpired(ids[0]))
    bench.step(SessionExpired("who"))
    assert list(bench.view["members"]) == ids


def test_everyone_gone_before_the_first_rebalance_ends_leaves_an_empty_group():
    bench = Bench()
    member_id, _ = bench.enter()
    bench.leave((member_id, None))
    bench.tick(DELAY)
    assert bench.state == "Empty"


# ---------------------------------------------------------------------- static members


def test_a_static_member_comes_back_without_a_rebalance_and_finds_its_assignment():
    bench, ids = stable_static(2)
    token = bench.join(instance="i1")
    answer = bench.answers[token]
    assert answer["GenerationId"] == 1
    assert answer["MemberId"] not in ids
    assert answer["Leader"] == ids[0]
    synced = bench.sync(answer["MemberId"], 1, instance="i1")
    assert bench.answers[synced]["Assignment"] == ids[1].encode()
    assert bench.state == "Stable"


def test_a_static_leader_that_comes_back_is_told_to_leave_the_assignment_alone():
    bench, ids = stable_static(2)
    answer = bench.answers[bench.join(instance="i0")]
    assert answer["Leader"] == answer["MemberId"] != ids[0]
    assert answer["SkipAssignment"]
    assert len(answer["Members"]) == 2


def test_an_old_static_leader_that_comes_back_takes_itself_for_a_follower():
    bench, ids = stable_static(2)
    answer = bench.answers[bench.join(instance="i0", version=8)]
    assert answer["Leader"] == ids[0] != answer["MemberId"]
    assert answer["Members"] == []


def test_the_older_of_two_with_the_same_instance_id_is_fenced():
    bench, ids = stable_static(2)
    bench.join(instance="i1")
    assert bench.code(bench.sync(ids[1], 1, instance="i1")) == FENCED
    assert bench.code(bench.join(ids[1], instance="i1")) == FENCED
    token = bench.leave((ids[1], "i1"))
    assert bench.answers[token]["Members"][0]["ErrorCode"] == FENCED


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
    assert bench.answers[token]["GenerationId"] == 2
    assert bench.answers[token]["ProtocolName"] == "other"


def test_a_static_member_that_comes_back_while_completing_makes_all_join_again():
    bench, ids = stable_static(2)
    bench.join(ids[0], instance="i0")
    bench.join(ids[1], instance="i1")
    waits = bench.sync(ids[1], 2, instance="i1")
    back = bench.join(instance="i0")
    assert bench.code(waits) == REBALANCING
    again = bench.join(ids[1], instance="i1")
    assert bench.answers[back]["GenerationId"] == bench.answers[again]["GenerationId"] == 3


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
    assert bench.answers[token]["Leader"] == ids[1]


def test_a_group_of_absent_static_members_does_not_spin_if_their_rebalance_timeout_is_0():
    bench = Bench()
    rows = [("i0", REBALANCE), ("i1", 0)]
    tokens = [bench.join(instance=each, RebalanceTimeoutMs=ms) for each, ms in rows]
    bench.tick(2 * DELAY)
    ids = [bench.answers[each]["MemberId"] for each in tokens]
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
    back = bench.answers[bench.join(instance="i1")]["MemberId"]
    bench.sync(back, 2, instance="i1")
    bench.tick(2 * REBALANCE)
    assert bench.state == "Stable"


def test_an_instance_id_must_be_that_of_the_member():
    bench, ids = stable(1)
    assert bench.code(bench.join(ids[0], instance="i1")) == UNKNOWN


# ---------------------------------------------------------------------- deletion, descriptions


def test_an_empty_group_stays_until_it_is_deleted():
    """While it is empty its offsets expire, so the broker must still see the empty group."""
    bench, ids = stable(1)
    bench.leave((ids[0], None))
    bench.tick(86_400_000)
    assert bench.group.state is GroupState.EMPTY
    assert bench.group.next_deadline() is None


def test_ids_that_were_given_out_end_with_their_session():
    bench = Bench()
    used, unused = (bench.answers[bench.join()]["MemberId"] for _ in range(2))
    bench.tick(SESSION - 1)
    bench.join(used)
    bench.tick(1)
    token = bench.join(unused)
    assert bench.answers[token]["ErrorCode"] == UNKNOWN
    bench.tick(20_000)
    assert bench.state == "CompletingRebalance"


def test_a_deleted_group_is_dead():
    bench, ids = stable(1)
    bench.leave((ids[0], None))
    bench.step(Deleted())
    assert bench.actions == [Forget()]


def test_describe_shows_metadata_of_a_stable_group_only_and_the_last_assignment_always():
    bench, ids = stable(2)
    row = bench.group.describe()
    assert (row["GroupState"], row["ProtocolType"], row["ProtocolData"]) == (
        "Stable",
        "consumer",
        "range",
    )
    assert row["Members"][1] == {
        "MemberId": ids[1],
        "GroupInstanceId": None,
        "ClientId": "client",
        "ClientHost": "/127.0.0.1",
        "MemberMetadata": subscription("t"),
        "MemberAssignment": ids[1].encode(),
    }
    bench.join(ids[0])
    row = bench.group.describe()
    assert (row["GroupState"], row["ProtocolData"]) == ("PreparingRebalance", "")
    assert row["Members"][1]["MemberMetadata"] == b""
    assert row["Members"][1]["MemberAssignment"] == ids[1].encode()


def test_a_rebalance_that_is_broken_off_takes_the_last_assignments_away():
    bench, ids = completing()
    bench.join(ids[0], protocols={"range": subscription("u")})
    assert {each["MemberAssignment"] for each in bench.group.describe()["Members"]} == {b""}
