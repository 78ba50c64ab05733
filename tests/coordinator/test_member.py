"""The consumer's side of the classic protocol: a member's reaction to each event."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.coordinator.assignors import Broken, Named, Spread, Sticky
from tests.coordinator.world import wants_poll
from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Answered,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitAnswered,
    Fail,
    ForgetCoordinator,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
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
from thalweg.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnsupportedVersionError,
)
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

UNKNOWN, ILLEGAL, REBALANCING, FENCED, ID_REQUIRED = 25, 22, 27, 82, 79
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


def parts(*numbers: int, topic: str = "t") -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, each) for each in numbers)


class Bench:
    """A member whose coordinator is the test."""

    def __init__(self, *assignors: Any, topics: tuple[str, ...] = ("t",), **options: Any) -> None:
        settings = MemberSettings("g", **options)
        self.member = ClassicMember(settings, assignors or (Spread(),), lambda: 1.0)
        self.now = 0.0
        self.tell(Subscribed(frozenset(topics)))
        self.tell(TopicsChanged(dict.fromkeys(topics, 4), {}))

    def tell(self, event: Any) -> list[Any]:
        return self.member.step(event, self.now)

    def poll(self) -> list[Any]:
        """Runs a complete poll, with callbacks that are done at once."""
        done: list[Any] = []
        events: list[Any] = [Polled()]
        while events:
            actions = self.tell(events.pop())
            done += actions
            if any(isinstance(each, AutoCommit | Revoke | Lose | Assign) for each in actions):
                events.append(CallbacksDone())
        return done

    def answer(self, send: Send, **body: Any) -> list[Any]:
        return self.tell(Answered(send.token, {"ErrorCode": 0, **body}))

    def error(self, send: Send, code: int) -> list[Any]:
        return self.answer(send, ErrorCode=code, MemberId="", Assignment=b"")

    def join(self) -> Any:
        return sent(self.poll(), "JoinGroup")

    def joined(self, send: Send, generation: int = 1, **body: Any) -> list[Any]:
        answer = {
            "GenerationId": generation,
            "ProtocolType": "consumer",
            "ProtocolName": self.member._assignors.said(frozenset(), [], -1, None)[0]["Name"],
            "Leader": "other",
            "MemberId": "m",
            "Members": [],
        }
        return self.answer(send, **answer | body)

    def synced(self, send: Send, *partitions: TopicPartition) -> list[Any]:
        data = Assignment(3, list(partitions)).encode()
        return self.answer(send, Assignment=data)

    def stable(self, *partitions: TopicPartition, generation: int = 1) -> list[Any]:
        """Joins and syncs as a follower, and returns the actions of the next poll."""
        sync = sent(self.joined(self.join(), generation), "SyncGroup")
        self.synced(sync, *partitions)
        return self.poll()

    def beat(self, code: int) -> list[Any]:
        return self.tell(HeartbeatAnswered({"ErrorCode": code}))


def sent(actions: list[Any], api: str) -> Any:
    """Returns the one request among the actions."""
    [found] = [each for each in actions if isinstance(each, Send)]
    assert found.api == api
    return found


def without_requests(actions: list[Any]) -> list[Any]:
    return [each for each in actions if not isinstance(each, Send | StopHeartbeats)]


def members(*rows: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"MemberId": member_id, "Metadata": Subscription(3, topics.split()).encode()}
        for member_id, topics in rows
    ]


# ---------------------------------------------------------------------- joining


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
    again = sent(bench.answer(bench.join(), ErrorCode=ID_REQUIRED, MemberId="m"), "JoinGroup")
    assert again.body["MemberId"] == "m"
    assert bench.member.state is MemberState.PREPARING_REBALANCE


def test_heartbeats_go_with_a_join_and_begin_as_it_is_answered():
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


def test_late_answers_are_ignored():
    bench = Bench()
    send = bench.join()
    bench.tell(Answered(send.token, None, KafkaTimeoutError("late")))
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


# ---------------------------------------------------------------------- rebalances


def test_an_eager_member_gives_all_up_before_it_joins_again():
    bench = Bench()
    bench.stable(*parts(0, 1))
    assert bench.beat(REBALANCING) == []
    assert wants_poll(bench.member)
    commit, revoke, send = bench.poll()
    assert (commit, revoke) == (AutoCommit(), Revoke(parts(0, 1)))
    said = Subscription.decode(send.body["Protocols"][0]["Metadata"])
    assert (said.owned_partitions, said.generation_id) == ([], 1)


def test_a_cooperative_member_keeps_all_while_it_joins_again():
    """KIP-429: the member continues to read the partitions that do not move."""
    bench = Bench(Sticky())
    bench.stable(*parts(0, 1))
    bench.beat(REBALANCING)
    actions = bench.poll()
    assert without_requests(actions) == []
    body = sent(actions, "JoinGroup").body
    said = Subscription.decode(body["Protocols"][0]["Metadata"])
    assert (said.owned_partitions, said.generation_id) == (list(parts(0, 1)), 1)
    assert bench.member.assignment == parts(0, 1)


def test_a_cooperative_member_revokes_what_moves_and_joins_once_more():
    bench = Bench(Sticky())
    bench.stable(*parts(0, 1, 2))
    bench.beat(REBALANCING)
    sync = sent(bench.joined(bench.join(), 2), "SyncGroup")
    bench.synced(sync, *parts(0, 3))
    actions = bench.poll()
    assert without_requests(actions) == [
        AutoCommit(),
        Revoke(parts(1, 2)),
        Assign(parts(0, 3), parts(3)),
    ]
    assert sent(actions, "JoinGroup")


def test_one_eager_assignor_makes_the_member_an_eager_one():
    bench = Bench(Sticky(), Spread())
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    assert Revoke(parts(0)) in bench.poll()


def test_a_join_group_waits_for_the_callbacks():
    bench = Bench()
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    assert bench.tell(Polled()) == [AutoCommit(), Revoke(parts(0))]
    assert bench.tell(Polled()) == []
    assert bench.tell(Ticked()) == []
    assert sent(bench.tell(CallbacksDone()), "JoinGroup")


def test_the_leader_joins_again_once_its_topics_have_changed():
    bench = Bench()
    actions = bench.joined(bench.join(), Leader="m", Members=members(("m", "t")))
    bench.synced(sent(actions, "SyncGroup"), *parts(0))
    bench.poll()
    assert bench.tell(TopicsChanged({"t": 4, "other": 9}, {})) == []
    assert bench.poll() == []
    bench.tell(TopicsChanged({"t": 5}, {}))
    body = sent(bench.poll(), "JoinGroup").body
    assert body["Reason"] == "topics of the group have changed"


def test_the_leader_joins_again_once_replicas_have_moved_to_other_racks():
    bench = Bench()
    actions = bench.joined(bench.join(), Leader="m", Members=members(("m", "t")))
    bench.synced(sent(actions, "SyncGroup"), *parts(0))
    bench.poll()
    bench.tell(TopicsChanged({"t": 4}, {TopicPartition("t", 0): frozenset({"r1"})}))
    assert sent(bench.poll(), "JoinGroup")


def test_a_follower_leaves_changed_topics_to_the_leader():
    bench = Bench()
    bench.stable(*parts(0))
    bench.tell(TopicsChanged({"t": 9}, {}))
    assert bench.poll() == []


def test_a_leader_that_has_become_a_follower_leaves_changed_topics_to_the_next_leader():
    bench = Bench()
    rows = members(("m", "t"), ("n", "u"))
    actions = bench.joined(bench.join(), Leader="m", Members=rows)
    assert actions[-1] == WatchTopics(frozenset("tu"))
    sync = sent(bench.tell(TopicsChanged({"t": 4}, {})), "SyncGroup")
    bench.synced(sync, *parts(0))
    bench.poll()
    bench.beat(REBALANCING)
    _, no_more, sync = bench.joined(bench.join(), 2)
    assert no_more == WatchTopics(frozenset())
    bench.synced(sync, *parts(0))
    bench.poll()
    bench.tell(TopicsChanged({"t": 9, "u": 1}, {}))
    assert bench.poll() == []


def test_a_leader_that_subscribes_again_has_the_topics_of_others_looked_at_again():
    """The driver forgets the topics of others with the subscription."""
    bench = Bench()
    rows = members(("m", "t"), ("n", "u"))
    watch = WatchTopics(frozenset("tu"))
    assert bench.joined(bench.join(), Leader="m", Members=rows)[-1] == watch
    sync = sent(bench.tell(TopicsChanged({"t": 4, "u": 1}, {})), "SyncGroup")
    bench.synced(sync, *parts(0))
    bench.poll()
    bench.tell(Unsubscribed())
    bench.tell(CallbacksDone())
    bench.tell(Subscribed(frozenset({"t"})))
    bench.tell(TopicsChanged({"t": 4}, {}))
    assert bench.joined(bench.join(), 2, Leader="m", Members=rows)[-1] == watch


def test_a_changed_subscription_makes_any_member_join_again():
    bench = Bench(Sticky())
    bench.stable(*parts(0))
    bench.tell(Subscribed(frozenset({"t", "u"})))
    assert sent(bench.poll(), "JoinGroup")


def test_a_cooperative_member_revokes_topics_that_it_no_longer_wants_before_it_joins():
    bench = Bench(Sticky(), topics=("t", "u"))
    bench.stable(*parts(0), *parts(0, topic="u"))
    bench.tell(Subscribed(frozenset({"t"})))
    actions = bench.poll()
    assert without_requests(actions) == [AutoCommit(), Revoke(parts(0, topic="u"))]
    assert bench.member.assignment == parts(0)


def test_an_assignment_of_an_older_subscription_is_not_taken():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    bench.tell(Subscribed(frozenset({"u"})))
    bench.synced(sync, *parts(0))
    # With one poll: nothing would request another.
    assert bench.tell(Polled()) == [AutoCommit(), Revoke(())]
    assert sent(bench.tell(CallbacksDone()), "JoinGroup")
    assert bench.member.assignment == ()


def test_what_is_owned_goes_at_once_after_an_assignment_of_an_older_subscription():
    bench = Bench(Sticky())
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    sync = sent(bench.joined(bench.join(), 2), "SyncGroup")
    bench.tell(Subscribed(frozenset({"u"})))
    bench.synced(sync, *parts(0, 1))
    assert bench.tell(Polled()) == [AutoCommit(), Revoke(parts(0))]
    assert sent(bench.tell(CallbacksDone()), "JoinGroup")


# ---------------------------------------------------------------------- errors of requests


@pytest.mark.parametrize("code", [NOT_COORDINATOR, NOT_AVAILABLE])
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_a_coordinator_that_moved_is_looked_for_and_the_membership_stays(api, code):
    bench = Bench(Sticky())
    bench.stable(*parts(0, 1))
    bench.beat(REBALANCING)
    send = bench.join()
    if api == "SyncGroup":
        send = sent(bench.joined(send, 2), "SyncGroup")
    assert bench.error(send, code) == [ForgetCoordinator()]
    assert (bench.member.member_id, bench.member.assignment) == ("m", parts(0, 1))
    assert bench.poll() == []
    assert bench.member.next_deadline() == 100
    bench.now = 100
    assert sent(bench.tell(Ticked()), "JoinGroup")


def test_waits_grow_up_to_their_limit_and_start_anew_after_a_success():
    bench = Bench()
    send, waits = bench.join(), []
    for _ in range(6):
        bench.error(send, NOT_COORDINATOR)
        due = bench.member.next_deadline()
        assert due is not None
        waits.append(due - bench.now)
        bench.now = due
        send = sent(bench.tell(Ticked()), "JoinGroup")
    assert waits == [100, 200, 400, 800, 1000, 1000]
    bench.synced(sent(bench.joined(send), "SyncGroup"))
    bench.poll()
    bench.beat(REBALANCING)
    bench.error(bench.join(), NOT_COORDINATOR)
    assert bench.member.next_deadline() == bench.now + 100


@pytest.mark.parametrize("error", [KafkaTimeoutError("late"), KafkaConnectionError("gone")])
def test_no_answer_means_another_coordinator_may_be_there(error):
    bench = Bench()
    assert bench.tell(Answered(bench.join().token, None, error)) == [ForgetCoordinator()]
    bench.now = 100
    assert sent(bench.tell(Ticked()), "JoinGroup")


@pytest.mark.parametrize("code", [LOADING])
def test_a_coordinator_that_loads_is_asked_again_later(code):
    bench = Bench()
    assert bench.error(bench.join(), code) == []
    assert bench.member.next_deadline() == 100


def test_an_unknown_member_joins_anew_at_once():
    bench = Bench()
    again = sent(bench.error(bench.join(), UNKNOWN), "JoinGroup")
    assert again.body["MemberId"] == ""


def test_a_sync_of_an_old_generation_keeps_the_member_id():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    again = sent(bench.error(sync, ILLEGAL), "JoinGroup")
    assert again.body["MemberId"] == "m"
    assert bench.member.generation == -1


def test_a_sync_during_a_rebalance_joins_at_once_without_callbacks():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    actions = bench.error(sync, REBALANCING)
    assert sent(actions, "JoinGroup")
    assert without_requests(actions) == []


def test_a_sync_that_asks_for_a_member_id_is_raised_and_the_next_poll_joins_again():
    """No broker may respond like this: only JoinGroup assigns IDs."""
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    (raised,) = [each for each in bench.error(sync, 79) if isinstance(each, Raise)]
    assert raised.error.errno == 79
    assert sent(bench.poll(), "JoinGroup")


def test_even_errors_that_are_retried_at_once_do_not_make_a_busy_loop():
    bench = Bench()
    send, count = bench.join(), 0
    while bench.member.next_deadline() is None:
        send = sent(bench.error(send, UNKNOWN), "JoinGroup") if count < 3 else send
        count += 1
        if count == 4:
            assert not any(isinstance(each, Send) for each in bench.error(send, UNKNOWN))
    assert bench.member.next_deadline() == 800


@pytest.mark.parametrize(
    "code, kind",
    [
        (81, GroupMaxSizeReachedError),
        (23, InconsistentGroupProtocolError),
        (30, GroupAuthorizationFailedError),
        (35, UnsupportedVersionError),
    ],
)
def test_what_no_retry_cures_is_raised_once_and_tried_again_by_the_next_poll(code, kind):
    bench = Bench()
    [raised] = bench.error(bench.join(), code)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, kind)
    bench.now = 60_000
    assert bench.tell(Ticked()) == []
    assert sent(bench.poll(), "JoinGroup")


@pytest.mark.parametrize(
    "code, text",
    [
        (
            26,
            r"joining group 'g': .* session_timeout_ms=45000\. .*group\.min\.session",
        ),
        (
            23,
            r"joining group 'g': no assignor of this member \(spread\) .*partition_assignment",
        ),
        (81, r"joining group 'g': .* group\.max\.size"),
        (30, r"joining group 'g': .* no READ permission for the group"),
        (24, r"joining group 'g'$"),
    ],
)
def test_a_refusal_names_its_cause_and_the_option(code, text):
    bench = Bench()
    [raised] = bench.error(bench.join(), code)
    assert re.search(text, str(raised.error)), raised.error


def test_a_request_that_cannot_be_sent_is_raised():
    bench = Bench(group_instance_id="i")
    error = UnsupportedVersionError("GroupInstanceId")
    assert bench.tell(Answered(bench.join().token, None, error)) == [Raise(error)]


@pytest.mark.parametrize(
    "fields", [{"ProtocolType": "connect"}, {"ProtocolName": "other"}, {"ProtocolName": None}]
)
def test_a_group_of_another_protocol_is_raised(fields):
    bench = Bench()
    stop, raised = bench.joined(bench.join(), **fields)
    assert stop == StopHeartbeats()
    assert isinstance(raised.error, InconsistentGroupProtocolError)


def test_an_assignor_that_raises_is_the_cause_of_what_poll_raises():
    bench = Bench(Broken())
    *_, raised = bench.joined(bench.join(), Leader="m", Members=members(("m", "t")))
    assert isinstance(raised.error.__cause__, ZeroDivisionError)
    assert sent(bench.poll(), "JoinGroup")


def test_assignors_that_raise_elsewhere_are_told_of_too():
    class Moody(Spread):
        def metadata(self, topics: set[str]) -> Subscription:
            raise ZeroDivisionError

        def on_assignment(self, assignment: Assignment, generation: int) -> None:
            raise ZeroDivisionError

    assignor = Moody()
    bench = Bench(assignor)
    [raised] = bench.poll()
    assert isinstance(raised.error.__cause__, ZeroDivisionError)
    assert bench.member.state is MemberState.UNJOINED
    assignor.metadata = Spread().metadata  # type: ignore[method-assign]
    raised, assign = bench.stable(*parts(0))
    assert isinstance(raised.error.__cause__, ZeroDivisionError)
    assert assign == Assign(parts(0), parts(0))


def test_bytes_that_are_no_subscription_or_assignment_are_raised():
    bench = Bench()
    rows = [{"MemberId": "m", "Metadata": b"\0"}]
    *_, raised = bench.joined(bench.join(), Leader="m", Members=rows)
    assert isinstance(raised, Raise)
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    [raised] = bench.answer(sync, Assignment=b"\0")
    assert isinstance(raised, Raise)
    assert bench.member.state is MemberState.UNJOINED


def test_an_assignment_with_a_topic_that_is_no_text_is_raised():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    data = Assignment(3, list(parts(0, topic="abc"))).encode().replace(b"abc", b"a\xffc")
    [raised] = bench.answer(sync, Assignment=data)
    assert isinstance(raised.error, KafkaProtocolError)
    assert bench.member.state is MemberState.UNJOINED


def test_an_assignment_for_another_protocol_is_raised():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    [raised] = bench.answer(sync, ProtocolName="other", Assignment=b"")
    assert isinstance(raised.error, InconsistentGroupProtocolError)
    assert bench.member.state is MemberState.UNJOINED


def test_a_broker_that_does_not_name_the_type_of_the_group_is_believed():
    """JoinGroup responses below version 7 have no ProtocolType (KIP-559)."""
    bench = Bench()
    assert sent(bench.joined(bench.join(), ProtocolType=None), "SyncGroup")


def test_a_member_that_the_leader_left_out_has_nothing():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    assert bench.answer(sync, Assignment=b"") == []
    assert bench.member.state is MemberState.STABLE
    assert bench.poll() == [Assign((), ())]


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"])
def test_a_fenced_member_is_done_for(api):
    bench = Bench(Sticky(), group_instance_id="i")
    bench.stable(*parts(0))
    if api == "Heartbeat":
        actions = bench.beat(FENCED)
    elif api == "OffsetCommit":
        actions = bench.tell(CommitAnswered(FENCED, 1))
    else:
        bench.beat(REBALANCING)
        send = bench.join()
        if api == "SyncGroup":
            send = sent(bench.joined(send, 2), "SyncGroup")
        actions = bench.error(send, FENCED)
    assert isinstance(actions[-1], Fail)
    assert isinstance(actions[-1].error, FencedInstanceIdError)
    assert bench.poll() == []
    assert bench.tell(Closed(True)) == [Lose(parts(0))]
    assert bench.tell(CallbacksDone()) == []


# ---------------------------------------------------------------------- lost memberships


@pytest.mark.parametrize("code, member_id", [(UNKNOWN, ""), (ILLEGAL, "m")])
def test_a_membership_that_ended_loses_its_partitions_and_joins_again(code, member_id):
    bench = Bench()
    bench.stable(*parts(0, 1))
    assert bench.beat(code) == [StopHeartbeats()]
    assert isinstance(bench.member.commit_refusal(), CommitFailedError)
    actions = bench.poll()
    assert without_requests(actions) == [Lose(parts(0, 1))]
    body = sent(actions, "JoinGroup").body
    assert body["MemberId"] == member_id
    said = Subscription.decode(body["Protocols"][0]["Metadata"])
    assert (said.owned_partitions, said.generation_id) == ([], -1)


def test_a_reset_in_the_middle_of_a_join_neither_loops_nor_repeats_callbacks():
    """As in aiokafka #747: a generation reset during a join caused endless rebalances.

    Or, as in librdkafka #4059 and #4908, a late commit cost the assignment. Bug 12.
    """
    bench = Bench()
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    send = bench.join()
    # Responses to heartbeats and commits of the old generation arrive while the join waits.
    assert bench.beat(ILLEGAL) == bench.beat(UNKNOWN) == []
    assert bench.tell(CommitAnswered(ILLEGAL, 1)) == bench.tell(CommitAnswered(UNKNOWN, 1)) == []
    sync = sent(bench.joined(send, 2), "SyncGroup")
    assert bench.tell(CommitAnswered(ILLEGAL, 1)) == []
    bench.synced(sync, *parts(0))
    assert bench.poll() == [Assign(parts(0), parts(0))]
    assert bench.poll() == []


def test_a_cooperative_member_reset_in_the_middle_of_a_join_loses_what_it_kept():
    bench = Bench(Sticky())
    bench.stable(*parts(0))
    bench.beat(REBALANCING)
    assert bench.error(bench.join(), UNKNOWN) == [StopHeartbeats()]
    actions = bench.poll()
    assert without_requests(actions) == [Lose(parts(0))]
    assert sent(actions, "JoinGroup")


def test_a_reset_before_the_assignment_was_told_forgets_it():
    bench = Bench()
    bench.synced(sent(bench.joined(bench.join()), "SyncGroup"), *parts(0))
    assert sent(bench.beat(UNKNOWN), "JoinGroup")
    assert bench.member.assignment == ()


def test_a_reset_while_callbacks_run_makes_the_rest_lost():
    bench = Bench(Sticky(), topics=("t", "u"))
    bench.stable(*parts(0), *parts(0, topic="u"))
    bench.tell(Subscribed(frozenset({"t"})))
    assert bench.tell(Polled()) == [AutoCommit(), Revoke(parts(0, topic="u"))]
    bench.beat(UNKNOWN)
    assert bench.tell(CallbacksDone()) == [Lose(parts(0))]
    assert sent(bench.tell(CallbacksDone()), "JoinGroup")


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_that_did_not_poll_loses_its_partitions_with_its_next_poll(instance):
    bench = Bench(group_instance_id=instance)
    bench.stable(*parts(0))
    assert bench.tell(PollExpired()) == []
    assert isinstance(bench.member.commit_refusal(), CommitFailedError)
    actions = bench.poll()
    assert without_requests(actions) == [Lose(parts(0))]
    body = sent(actions, "JoinGroup").body
    assert body["MemberId"] == ""


def test_a_static_member_does_not_leave_when_it_does_not_poll():
    bench = Bench(group_instance_id="i")
    beats, _ = bench.joined(bench.join())
    assert beats.leave is None
    assert beats.body["GroupInstanceId"] == "i"


@pytest.mark.parametrize("code", [NOT_COORDINATOR, NOT_AVAILABLE])
def test_a_heartbeat_to_a_coordinator_that_moved_changes_nothing_else(code):
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.beat(code) == [ForgetCoordinator()]
    assert bench.tell(HeartbeatAnswered(None, KafkaConnectionError("gone"))) == [
        ForgetCoordinator()
    ]
    assert bench.beat(LOADING) == []
    assert bench.poll() == []
    assert bench.member.state is MemberState.STABLE


def test_a_heartbeat_that_is_not_allowed_is_raised():
    bench = Bench()
    bench.stable(*parts(0))
    [raised] = bench.beat(30)
    assert isinstance(raised.error, GroupAuthorizationFailedError)
    error = KafkaError("no")
    assert bench.tell(HeartbeatAnswered(None, error)) == [Raise(error)]


def test_a_refused_commit_tells_of_a_rebalance_or_a_lost_membership():
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.tell(CommitAnswered(UNKNOWN, 0)) == []
    assert bench.tell(CommitAnswered(REBALANCING, 1)) == []
    assert wants_poll(bench.member)
    bench.tell(CommitAnswered(UNKNOWN, 1))
    assert bench.member.generation == -1


# ---------------------------------------------------------------------- commits, metadata


def test_commits_are_refused_while_a_rebalance_runs_and_once_lost():
    bench = Bench(Sticky())
    assert isinstance(bench.member.commit_refusal(), CommitFailedError)
    bench.stable(*parts(0))
    assert bench.member.commit_refusal() is None
    bench.beat(REBALANCING)
    assert bench.member.commit_refusal() is None
    send = bench.join()
    assert isinstance(bench.member.commit_refusal(), RebalanceInProgressError)
    bench.error(send, NOT_COORDINATOR)
    assert isinstance(bench.member.commit_refusal(), RebalanceInProgressError)


def test_group_metadata_is_what_fences_a_commit():
    bench = Bench(group_instance_id="i")
    assert bench.member.group_metadata() == ConsumerGroupMetadata("g", -1, "", "i", "<unjoined>")
    bench.join()
    assert bench.member.group_metadata().state == "<rebalancing>"
    bench = Bench()
    bench.stable()
    assert bench.member.group_metadata() == ConsumerGroupMetadata("g", 1, "m", None, "<stable>")


# ---------------------------------------------------------------------- leaving


def test_unsubscribing_revokes_and_then_leaves():
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.tell(Unsubscribed()) == [AutoCommit(), Revoke(parts(0))]
    stop, leave = bench.tell(CallbacksDone())
    assert stop == StopHeartbeats()
    assert leave.api == "LeaveGroup"
    assert leave.body[0][1]["Members"][0]["MemberId"] == "m"
    assert bench.poll() == []
    assert bench.answer(leave) == []
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
