"""How a member of the classic protocol joins a group and gets its assignment."""

from __future__ import annotations

from typing import Any

from tests.coordinator.assignors import Broken, Named, Spread
from tests.coordinator.classic.client import wants_poll
from tests.coordinator.classic.member_bench import (
    ID_REQUIRED,
    REBALANCING,
    UNKNOWN,
    Bench,
    members,
    parts,
    sent,
)
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Assign,
    Closed,
    Heartbeats,
    Responded,
    StopHeartbeats,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.errors import KafkaTimeoutError


def test_nothing_happens_before_the_first_poll():
    bench = Bench()
    assert bench.tell(Ticked()) == []
    assert wants_poll(bench.member)
    assert bench.member.next_deadline() is None


def test_a_member_joins_with_what_it_is_told_and_an_empty_id():
    bench = Bench(Named("a"), Named("b"), client_rack="r1", max_poll_interval_ms=60_000)
    send = bench.join()
    rows = send.body.pop("Protocols")
    assert send.body.pop("Reason") == "the consumer joins"
    assert send.body == {
        "GroupId": "g",
        "MemberId": "",
        "SessionTimeoutMs": 45_000,
        "RebalanceTimeoutMs": 60_000,
        "ProtocolType": "consumer",
    }
    assert send.timeout_ms == 65_000
    assert [each["Name"] for each in rows] == ["a", "b"]
    assert Subscription.decode(rows[0]["Metadata"]) == Subscription(3, ["t"], None, [], -1, "r1")


def test_a_member_that_is_given_an_id_joins_with_it_at_once():
    bench = Bench()
    again = sent(bench.respond(bench.join(), ErrorCode=ID_REQUIRED, MemberId="m"), "JoinGroup")
    assert again.body["MemberId"] == "m"
    assert bench.member.state is MemberState.PREPARING_REBALANCE


def test_heartbeats_go_with_a_join_and_begin_at_its_response():
    bench = Bench(heartbeat_interval_ms=700)
    bench.stable(generation=7)
    bench.beat(REBALANCING)
    beats = bench.join().heartbeats
    assert (beats.api, beats.interval_ms) == ("Heartbeat", 700)
    # The response's own fields replace these two.
    assert beats.body == {"GroupId": "g", "MemberId": "m", "GenerationId": 7}
    assert bench.beat(UNKNOWN) == []  # of the previous generation


def test_what_a_join_would_begin_is_stopped_by_who_goes():
    for event in (Unsubscribed(), Closed(True), Closed(False)):
        bench = Bench()
        bench.join()
        assert bench.tell(event)[0] == StopHeartbeats()


def test_a_follower_syncs_without_assignments_and_beats_from_then_on():
    bench = Bench()
    beats, sync = bench.joined(bench.join(), 7)
    assert isinstance(beats, Heartbeats)
    assert beats.body == {"GroupId": "g", "MemberId": "m", "GenerationId": 7}
    assert beats.leave is not None
    api, forms = beats.leave
    assert api == "LeaveGroup"
    assert forms == [
        (3, {"GroupId": "g", "Members": [{"MemberId": "m", "Reason": forms_reason(forms)}]}),
        (0, {"GroupId": "g", "MemberId": "m"}),
    ]
    assert sync.body == {
        "GroupId": "g",
        "MemberId": "m",
        "GenerationId": 7,
        "ProtocolType": "consumer",
        "ProtocolName": "spread",
        "Assignments": [],
    }


def forms_reason(forms: Any) -> str:
    reason = forms[0][1]["Members"][0]["Reason"]
    assert "max_poll_interval_ms" in reason
    return str(reason)


def test_the_leader_assigns_everyone():
    bench = Bench()
    actions = bench.joined(bench.join(), Leader="m", Members=members(("m", "t"), ("n", "t")))
    body = sent(actions, "SyncGroup").body
    assert {
        each["MemberId"]: Assignment.decode(each["Assignment"]).assigned_partitions
        for each in body["Assignments"]
    } == {"m": list(parts(0, 2)), "n": list(parts(1, 3))}


def test_the_leader_waits_for_topics_that_only_others_subscribe_to():
    bench = Bench()
    actions = bench.joined(bench.join(), Leader="m", Members=members(("m", "t"), ("n", "u v")))
    assert actions[-1] == WatchTopics(frozenset("tuv"))
    assert bench.poll() == []
    actions = bench.tell(TopicsChanged({"t": 4, "u": 1}, {}))
    body = sent(actions, "SyncGroup").body
    given = {row["MemberId"]: row["Assignment"] for row in body["Assignments"]}
    assert Assignment.decode(given["n"]).assigned_partitions == list(parts(0, topic="u"))


def test_a_static_leader_that_is_back_leaves_the_assignment_alone():
    bench = Bench(Broken(), group_instance_id="i")
    rows = members(("m", "t"))
    actions = bench.joined(bench.join(), Leader="m", Members=rows, SkipAssignment=True)
    body = sent(actions, "SyncGroup").body
    assert body["Assignments"] == []


def test_the_assignment_is_told_in_the_next_poll():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    assert bench.synced(sync, *parts(2, 1)) == []
    assert bench.member.state is MemberState.STABLE
    assert bench.member.assignment == ()
    assert wants_poll(bench.member)
    assert bench.poll() == [Assign(parts(1, 2), parts(1, 2))]
    assert bench.member.assignment == parts(1, 2)
    assert not wants_poll(bench.member)


def test_an_empty_assignment_is_told_too():
    assert Bench().stable() == [Assign((), ())]


def test_late_responses_are_ignored():
    bench = Bench()
    send = bench.join()
    bench.tell(Responded(send.token, None, KafkaTimeoutError("late")))
    bench.now = 1_000
    again = bench.join()
    assert bench.joined(send) == []
    assert sent(bench.joined(again), "SyncGroup")


def test_a_member_hears_its_assignment_through_its_assignor_with_the_generation():
    heard: list[Any] = []

    class Listening(Spread):
        def on_assignment(self, assignment: Assignment, generation: int) -> None:
            heard.append((assignment.assigned_partitions, generation))

    Bench(Listening()).stable(*parts(1), generation=5)
    assert heard == [(list(parts(1)), 5)]
