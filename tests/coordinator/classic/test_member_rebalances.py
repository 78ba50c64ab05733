"""How a member of the classic protocol goes through rebalances."""

from __future__ import annotations

from tests.coordinator.assignors import Spread, Sticky
from tests.coordinator.classic.client import wants_poll
from tests.coordinator.classic.member_bench import (
    REBALANCING,
    Bench,
    members,
    parts,
    sent,
    without_requests,
)
from thalweg.coordinator.protocol import Subscription
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Polled,
    Revoke,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.structs import TopicPartition


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
