"""A classic group: members that leave or expire, and the end of the group."""

from __future__ import annotations

from tests.coordinator.classic.group_bench import (
    DELAY,
    SESSION,
    UNKNOWN,
    Bench,
    completing,
    stable,
    stable_static,
    subscription,
)
from thalweg.coordinator.states import GroupState
from thalweg.coordinator.steps import Deleted, Forget, SessionExpired

# ---------------------------------------------------------------------- leaving


def test_a_leaver_starts_a_rebalance_of_those_who_stay():
    bench, ids = stable(2)
    token = bench.leave((ids[1], None))
    assert bench.responses[token]["Members"] == [
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
    codes = [row["ErrorCode"] for row in bench.responses[token]["Members"]]
    assert codes == [0, UNKNOWN, UNKNOWN, 0]
    assert list(bench.view["members"]) == [ids[1]]


def test_versions_before_3_name_one_leaver_and_get_its_error():
    bench, ids = stable(2)
    for member_id, code in ((ids[1], 0), ("who", UNKNOWN)):
        token = bench.ask("LeaveGroup", 2, {"GroupId": "g", "MemberId": member_id})
        assert bench.responses[token] == {"ErrorCode": code}


def test_an_administrator_removes_a_static_member_by_its_instance_id():
    bench, ids = stable_static(2)
    token = bench.leave(("", "i1"))
    assert bench.responses[token]["Members"][0]["ErrorCode"] == 0
    assert list(bench.view["members"]) == [ids[0]]


def test_an_id_given_out_may_leave_without_a_rebalance():
    bench, _ids = stable(1)
    member_id = bench.responses[bench.join()]["MemberId"]
    token = bench.leave((member_id, None))
    assert bench.responses[token]["Members"][0]["ErrorCode"] == 0
    assert bench.state == "Stable"


def test_who_leaves_while_its_join_waits_gets_a_response():
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
    used, unused = (bench.responses[bench.join()]["MemberId"] for _ in range(2))
    bench.tick(SESSION - 1)
    bench.join(used)
    bench.tick(1)
    token = bench.join(unused)
    assert bench.responses[token]["ErrorCode"] == UNKNOWN
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
