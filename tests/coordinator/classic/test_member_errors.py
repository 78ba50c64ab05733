"""What a member of the classic protocol does about each error of a request."""

from __future__ import annotations

import re

import pytest

from tests.coordinator.assignors import Broken, Spread, Sticky
from tests.coordinator.classic.member_bench import (
    FENCED,
    ILLEGAL,
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    REBALANCING,
    UNKNOWN,
    Bench,
    members,
    parts,
    sent,
    without_requests,
)
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Assign,
    CallbacksDone,
    Closed,
    CommitRefused,
    Fail,
    ForgetCoordinator,
    Lose,
    Raise,
    Responded,
    Send,
    StopHeartbeats,
    Ticked,
)
from thalweg.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaConnectionError,
    KafkaProtocolError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)


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
def test_no_response_means_another_coordinator_may_be_there(error):
    bench = Bench()
    assert bench.tell(Responded(bench.join().token, None, error)) == [ForgetCoordinator()]
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
        (30, r"joining group 'g': Group authorization failed"),
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
    assert bench.tell(Responded(bench.join().token, None, error)) == [Raise(error)]


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
    [raised] = bench.respond(sync, Assignment=b"\0")
    assert isinstance(raised, Raise)
    assert bench.member.state is MemberState.UNJOINED


def test_an_assignment_with_a_topic_that_is_no_text_is_raised():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    data = Assignment(3, list(parts(0, topic="abc"))).encode().replace(b"abc", b"a\xffc")
    [raised] = bench.respond(sync, Assignment=data)
    assert isinstance(raised.error, KafkaProtocolError)
    assert bench.member.state is MemberState.UNJOINED


def test_an_assignment_for_another_protocol_is_raised():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    [raised] = bench.respond(sync, ProtocolName="other", Assignment=b"")
    assert isinstance(raised.error, InconsistentGroupProtocolError)
    assert bench.member.state is MemberState.UNJOINED


def test_a_broker_that_does_not_name_the_type_of_the_group_is_believed():
    """JoinGroup responses below version 7 have no ProtocolType (KIP-559)."""
    bench = Bench()
    assert sent(bench.joined(bench.join(), ProtocolType=None), "SyncGroup")


def test_a_member_that_the_leader_left_out_has_nothing():
    bench = Bench()
    sync = sent(bench.joined(bench.join()), "SyncGroup")
    assert bench.respond(sync, Assignment=b"") == []
    assert bench.member.state is MemberState.STABLE
    assert bench.poll() == [Assign((), ())]


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"])
def test_a_fenced_member_is_done_for(api):
    bench = Bench(Sticky(), group_instance_id="i")
    bench.stable(*parts(0))
    if api == "Heartbeat":
        actions = bench.beat(FENCED)
    elif api == "OffsetCommit":
        actions = bench.tell(CommitRefused(FENCED, 1))
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
