"""Members of consumer groups share partitions, on every kind of broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.groups import ALL_GROUPS, CLASSIC_GROUPS, PARTITIONS, Group, Heard
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import CommitFailedError, UnsupportedOperationError, WakeupError
from thalweg.structs import SubscriptionPattern

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(params=CLASSIC_GROUPS, ids="-".join)
def classic(request: pytest.FixtureRequest, group_of: Callable[[str, str], Group]) -> Group:
    """A group of the classic protocol, on every kind of broker."""
    return group_of(*request.param)


@pytest.fixture(params=ALL_GROUPS, ids="-".join)
def group(request: pytest.FixtureRequest, group_of: Callable[[str, str], Group]) -> Group:
    """A group of either protocol, on every kind of broker that supports it."""
    return group_of(*request.param)


@pytest.fixture
def embedded_group(embedded: Broker, clients: Clients) -> Group:
    return Group(embedded, clients)


def test_a_member_reads_all_and_the_next_one_reads_on(group: Group) -> None:
    group.send(range(100))
    first = group.join()
    group.poll_until(lambda: len(group.records) == 100)
    assert group.values() == list(range(100))
    group.leave(first)
    group.send(range(100, 200))
    group.join()
    group.poll_until(lambda: len(group.records) == 200)
    assert group.values() == list(range(200))


class FirstTakesAll(AbstractPartitionAssignor):
    """An assignor written by the application."""

    name = "first-takes-all"

    def metadata(self, topics: Any) -> Subscription:
        return Subscription(3, sorted(topics), b"mine")

    def assign(self, cluster: Any, members: Any) -> dict[str, Assignment]:
        assert {each.metadata.user_data for each in members} == {b"mine"}
        first, *others = sorted(each.member_id for each in members)
        topics = {topic for each in members for topic in each.metadata.topics}
        everything = [
            TopicPartition(topic, partition)
            for topic in sorted(topics)
            for partition in sorted(cluster.partitions_for_topic(topic))
        ]
        return {first: Assignment(3, everything), **{each: Assignment(3, []) for each in others}}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        pass


def test_an_assignor_of_the_applications_own_decides(classic: Group) -> None:
    for _ in range(3):
        classic.join(partition_assignment_strategy=[FirstTakesAll])
    classic.poll_until(
        lambda: (
            sorted(len(each.assignment()) for each in classic.members) == [0, 0, PARTITIONS]
            and len({each.group_metadata().generation_id for each in classic.members}) == 1
        )
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_are_shared_and_taken_over(classic: Group, strategy: str) -> None:
    first = classic.join(partition_assignment_strategy=strategy)
    assert classic.settle() == [{0, 1, 2, 3}]
    second = classic.join(partition_assignment_strategy=strategy)
    shares = classic.settle()
    assert [len(each) for each in shares] == [2, 2]
    # The first one may hear last of the generation in which the other has its partitions.
    classic.poll_until(lambda: _epoch(first) == _epoch(second))
    classic.send(range(100))
    classic.poll_until(lambda: len(classic.records) == 100)
    classic.leave(first)
    assert classic.settle() == [{0, 1, 2, 3}]
    classic.send(range(100, 200))
    classic.poll_until(lambda: len(classic.records) == 200)
    assert classic.values() == list(range(200))


def test_an_eager_member_gives_all_up_and_hears_of_it(classic: Group) -> None:
    heard = Heard()
    classic.join(heard, partition_assignment_strategy="range")
    classic.settle()
    assert heard.events == [("assigned", [0, 1, 2, 3])]
    second = classic.join(partition_assignment_strategy="range")
    [mine, _] = classic.settle()
    assert heard.events[1:] == [("revoked", [0, 1, 2, 3]), ("assigned", sorted(mine))]
    classic.leave(second)
    classic.settle()
    assert heard.events[3:] == [("revoked", sorted(mine)), ("assigned", [0, 1, 2, 3])]


def test_a_cooperative_member_keeps_what_does_not_move(classic: Group) -> None:
    heard = Heard()
    classic.join(heard, partition_assignment_strategy="cooperative-sticky")
    classic.settle()
    second = classic.join(partition_assignment_strategy="cooperative-sticky")
    [mine, theirs] = classic.settle()
    assert ("revoked", sorted(theirs)) in heard.events
    assert ("revoked", [0, 1, 2, 3]) not in heard.events
    assert {each for kind, gone in heard.events if kind == "revoked" for each in gone} == theirs
    before = len(heard.events)
    classic.leave(second)
    classic.settle()
    assert not [each for each in heard.events[before:] if each[0] == "revoked"]
    assert [each for each in heard.events[before:] if each[1]] == [("assigned", sorted(theirs))]
    assert mine | theirs == {0, 1, 2, 3}


def test_nothing_is_read_twice_when_members_come_and_go(group: Group) -> None:
    """Auto-commit commits what was handed out before partitions move."""
    group.join(max_poll_records=7)
    group.settle()
    group.send(range(2000))
    group.poll_until(lambda: len(group.records) > 300)
    second = group.join(max_poll_records=7)
    group.settle()
    group.poll_until(lambda: len(group.records) > 1000)
    group.leave(second)
    group.settle()
    group.poll_until(lambda: len(group.records) >= 2000)
    assert group.values() == list(range(2000))


def test_a_listener_may_commit_seek_and_ask_for_positions(group: Group) -> None:
    group.send(range(40))
    seen: list[Any] = []

    class Busy(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            offsets = {
                each: OffsetAndMetadata(member.position(each), "mine", -1) for each in revoked
            }
            member.commit(offsets)
            seen.append(len(offsets))

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            for each in assigned:
                member.seek(each, 5)

    member = group.join(Busy(), enable_auto_commit=False)
    group.poll_until(lambda: len(group.records) == 20)
    assert min(each.offset for each in group.records) == 5
    group.leave(member)
    assert seen == [PARTITIONS]
    again = group.join()
    assert again.committed(TopicPartition(group.topic, 0), metadata=True) == OffsetAndMetadata(
        10, "mine", -1
    )


def test_a_listener_that_raises_does_not_stop_the_rebalance(embedded_group: Group) -> None:
    class Broken(Heard):
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            raise ValueError("on purpose")

    embedded_group.join(Broken())
    embedded_group.settle()
    embedded_group.send(range(10))
    embedded_group.poll_until(lambda: len(embedded_group.records) == 10)


def test_leaving_is_at_once(group: Group) -> None:
    """By close and by unsubscribe: the other members do not wait for the session timeout."""
    first, second = group.join(), group.join()
    group.settle()
    first.unsubscribe()
    assert first.assignment() == set()
    assert first.subscription() is None
    start = time.monotonic()
    group.members.remove(first)
    assert group.settle() == [{0, 1, 2, 3}]
    group.leave(second)
    group.join()
    assert group.settle() == [{0, 1, 2, 3}]
    assert time.monotonic() - start < 30


def test_unsubscribing_writes_down_what_was_read(group: Group) -> None:
    group.send(range(40))
    member = group.join()
    group.poll_until(lambda: len(group.records) == 40)
    member.unsubscribe()
    where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]
    assert [member.committed(each) for each in where] == [10] * PARTITIONS
    group.send(range(40, 80))
    member.subscribe([group.topic])
    group.poll_until(lambda: len(group.records) == 80)
    assert group.values() == list(range(80))


def test_a_static_member_returns_without_a_rebalance(group: Group) -> None:
    heard = Heard()
    group.join(heard, group_instance_id="a")
    static = group.join(group_instance_id="b")
    shares = group.settle()
    generation = static.group_metadata().generation_id
    before = list(heard.events)
    group.leave(static)
    group.join(group_instance_id="b")
    assert group.settle() == shares
    assert group.members[1].group_metadata().generation_id == generation
    assert heard.events == before


def test_a_pattern_takes_new_topics_in(group: Group) -> None:
    member = group.consumer(group_id=f"pattern-{group.topic}", metadata_max_age_ms=300)
    member.subscribe(pattern=f"^{group.topic}.*")
    group.members.append(member)
    group.settle()
    wire = group.broker.wire
    wire.create_topic(f"{group.topic}-more", 1)
    group.poll_until(lambda: TopicPartition(f"{group.topic}-more", 0) in member.assignment())
    assert member.subscription() == {group.topic, f"{group.topic}-more"}


def _epoch(member: Any) -> int:
    epoch: int = member.group_metadata().generation_id
    return epoch


def test_members_of_the_new_protocol_share_and_take_over(
    modern_broker: Broker, clients: Clients
) -> None:
    """KIP-848: partitions that do not move are never revoked."""
    group = Group(modern_broker, clients, "consumer")
    heard = Heard()
    first = group.join(heard)
    assert group.settle() == [{0, 1, 2, 3}]
    second = group.join(group_remote_assignor="uniform")
    [mine, theirs] = group.settle()
    assert len(mine) == len(theirs) == 2
    assert heard.events == [("assigned", [0, 1, 2, 3]), ("revoked", sorted(theirs))]
    # A member that gave partitions up learns the group's epoch from the response to that.
    group.poll_until(lambda: _epoch(first) == _epoch(second))
    group.send(range(100))
    group.poll_until(lambda: len(group.records) == 100)
    first.commit()
    group.leave(second)
    group.settle()
    assert heard.events[2:] == [("assigned", sorted(theirs))]


def test_the_brokers_own_pattern_takes_topics_in(modern_broker: Broker, clients: Clients) -> None:
    group = Group(modern_broker, clients, "consumer")
    member = group.consumer()
    member.subscribe(pattern=SubscriptionPattern(f"{group.topic}.*"))
    group.members.append(member)
    group.settle()
    assert member.subscription() == {group.topic}


def test_the_brokers_own_pattern_needs_the_new_protocol(embedded_group: Group) -> None:
    member = embedded_group.consumer()
    with pytest.raises(UnsupportedOperationError, match="group_protocol='consumer'"):
        member.subscribe(pattern=SubscriptionPattern("t.*"))


def test_who_does_not_poll_for_too_long_is_out_and_joins_again(group: Group) -> None:
    """The application is slower than max_poll_interval_ms: its partitions are lost, not revoked.

    Scenario 35.
    """
    heard = Heard()
    sessions = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    slow = group.join(
        heard,
        max_poll_interval_ms=1500,
        enable_auto_commit=False,
        **(sessions if group.protocol == "classic" else {}),
    )
    group.settle()
    group.send(range(8))
    # If the machine pauses, the member is out sooner, and reads some records again.
    group.poll_until(lambda: set(group.values()) == set(range(8)))
    before = slow.group_metadata()
    group.records.clear()
    time.sleep(2.5)
    start = {TopicPartition(group.topic, 0): OffsetAndMetadata(0)}
    with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
        wait_until(lambda: slow.commit(start))
    group.poll_until(lambda: ("lost", [0, 1, 2, 3]) in heard.events)
    group.settle()
    assert not [each for each in heard.events if each[0] == "revoked"]
    after = slow.group_metadata()
    if group.protocol == "classic":  # the broker may forget an empty group and its generations
        assert after.member_id != before.member_id
    else:  # a member chooses its ID itself, and keeps it
        assert after.generation_id > before.generation_id
    group.poll_until(lambda: set(group.values()) == set(range(8)))  # nothing was committed
    group.poll_until(lambda: _commits(slow))


def _commits(member: Any) -> bool:
    try:
        member.commit()
    except CommitFailedError:
        return False
    return True


def test_a_member_that_is_silent_loses_its_partitions(classic: Group) -> None:
    """Its process dies, and no request says that it has left."""
    options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    classic.join(**options)
    silent = classic.join(**options)
    classic.settle()
    classic.members.remove(silent)
    silent._shutdown(0)  # closes only the sockets, as the death of its process would
    assert classic.settle() == [{0, 1, 2, 3}]


def test_a_subscription_that_changes_changes_what_is_read(group: Group) -> None:
    other = group.broker.create_topic("other", 1)
    member = group.join()
    group.settle()
    member.subscribe([other])
    group.poll_until(lambda: member.assignment() == {TopicPartition(other, 0)})
    member.subscribe([group.topic, other])
    group.poll_until(lambda: len(member.assignment()) == PARTITIONS + 1)


def test_a_topic_that_comes_later_is_read(group: Group) -> None:
    member = group.consumer(allow_auto_create_topics=False)
    missing = f"{group.topic}-later"
    member.subscribe([missing])
    group.members.append(member)
    for _ in range(10):
        group.poll()
    assert member.assignment() == set()
    group.broker.wire.create_topic(missing, 2)
    wait_until(lambda: member.poll(50) or len(member.assignment()) == 2, 30)


def test_interrupted_members_leave_their_group_when_they_close(embedded_group: Group) -> None:
    group = embedded_group
    member = group.join()
    member.wakeup()
    with pytest.raises(WakeupError, match="wakeup"):
        member.poll(1000)
    assert group.settle() == [{0, 1, 2, 3}]
