"""A member that loses its membership, and its commits around a rebalance."""

from __future__ import annotations

import pytest

from tests.coordinator.assignors import Sticky
from tests.coordinator.classic.client import wants_poll
from tests.coordinator.classic.member_bench import (
    ILLEGAL,
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    REBALANCING,
    UNKNOWN,
    Bench,
    parts,
    sent,
    without_requests,
)
from thalweg.coordinator.protocol import Subscription
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    CommitRefused,
    ForgetCoordinator,
    HeartbeatResponded,
    Lose,
    Polled,
    PollExpired,
    Raise,
    Revoke,
    StopHeartbeats,
    Subscribed,
)
from thalweg.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    RebalanceInProgressError,
)
from thalweg.structs import ConsumerGroupMetadata

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
    assert bench.tell(CommitRefused(ILLEGAL, 1)) == bench.tell(CommitRefused(UNKNOWN, 1)) == []
    sync = sent(bench.joined(send, 2), "SyncGroup")
    assert bench.tell(CommitRefused(ILLEGAL, 1)) == []
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
    assert bench.tell(HeartbeatResponded(None, KafkaConnectionError("gone"))) == [
        ForgetCoordinator()
    ]
    assert bench.tell(HeartbeatResponded(None, KafkaConnectionError("gone"), False)) == []
    assert bench.beat(LOADING) == []
    assert bench.poll() == []
    assert bench.member.state is MemberState.STABLE


def test_a_heartbeat_that_is_not_allowed_is_raised():
    bench = Bench()
    bench.stable(*parts(0))
    [raised] = bench.beat(30)
    assert isinstance(raised.error, GroupAuthorizationFailedError)
    error = KafkaError("no")
    assert bench.tell(HeartbeatResponded(None, error)) == [Raise(error)]


def test_a_refused_commit_tells_of_a_rebalance_or_a_lost_membership():
    bench = Bench()
    bench.stable(*parts(0))
    assert bench.tell(CommitRefused(UNKNOWN, 0)) == []
    assert bench.tell(CommitRefused(REBALANCING, 1)) == []
    assert wants_poll(bench.member)
    bench.tell(CommitRefused(UNKNOWN, 1))
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
