"""Members that their group does not accept, or not yet: fenced, duplicated, or outdated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.integration.support.groups import PARTITIONS, Group, Heard
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, OffsetAndMetadata, TopicPartition
from thalweg.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    StaleMemberEpochError,
    UnreleasedInstanceIdError,
)

ALL = list(range(PARTITIONS))
# A member that the coordinator does not know joins as another one, and the group waits for the
# session of the first.
SESSION_MS = 6000
QUICK = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
}
CLASSIC = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 100}


class Committing(Heard):
    """Tries to commit the partitions it has lost, which a listener must not do."""

    def __init__(self) -> None:
        super().__init__()
        self.member: Any = None
        self.refusals: list[KafkaError] = []

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        super().on_partitions_lost(lost)
        try:
            self.member.commit()
        except KafkaError as error:
            self.refusals.append(error)


@pytest.mark.parametrize(
    "protocol, api, error",
    [
        ("consumer", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
        ("consumer", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("classic", "Heartbeat", "ILLEGAL_GENERATION"),
        ("classic", "Heartbeat", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_who_is_fenced_loses_all_commits_nothing_and_joins_anew(
    start_embedded: Any, clients: Clients, protocol: str, api: str, error: str
) -> None:
    """Others may have the partitions: nothing is committed under the old epoch.

    Scenario 37.
    """
    broker: EmbeddedBroker = start_embedded(configs=QUICK)
    group = Group(Broker("embedded", broker.bootstrap_servers), clients, protocol)
    heard = Committing()
    options = {"enable_auto_commit": False, **(CLASSIC if protocol == "classic" else {})}
    member = heard.member = group.join(heard, **options)
    group.settle()
    group.send(range(8))
    group.poll_until(lambda: len(group.records) == 8)
    first = {each: OffsetAndMetadata(2) for each in member.assignment()}
    member.commit(first)
    group.send(range(8, 16))
    group.poll_until(lambda: len(group.records) == 16)
    with broker.faults.on(api).then_fail(error) as fault:
        wait_until(lambda: fault.hits == 1, 20)
        # The broker itself would accept these commits. Only the fault says that it has moved on.
        wait_until(lambda: _is_refused(member, first), 20)
    asked = broker.requests("OffsetCommit")
    group.poll_until(lambda: ("lost", ALL) in heard.events)
    assert broker.requests("OffsetCommit") == asked
    assert [type(each) for each in heard.refusals] == [CommitFailedError]
    assert ("revoked", ALL) not in heard.events
    group.settle()
    group.poll_until(lambda: len(group.records) == 24)  # starts at the committed offsets
    assert group.values() == sorted([*range(8), *range(8, 16), *range(8, 16)])
    member.commit()


def _is_refused(member: Any, offsets: dict[TopicPartition, OffsetAndMetadata]) -> bool:
    try:
        member.commit(offsets)
    except CommitFailedError:
        return True
    return False


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_who_hears_from_a_commit_that_it_is_out_joins_anew(
    start_embedded: Any, clients: Clients, error: str
) -> None:
    """No heartbeat reports it, before or after, so the next poll must know it from the commit."""
    broker: EmbeddedBroker = start_embedded(configs=QUICK)
    group = Group(Broker("embedded", broker.bootstrap_servers), clients)
    heard = Heard()
    member = group.join(heard, enable_auto_commit=False, **CLASSIC)
    group.settle()
    group.send(range(8))
    group.poll_until(lambda: len(group.records) == 8)
    with broker.faults.on("OffsetCommit").then_fail(error), pytest.raises(CommitFailedError):
        member.commit()
    group.poll_until(lambda: ("lost", ALL) in heard.events)
    group.settle()
    group.poll_until(lambda: len(group.records) == 16)
    member.commit()


def test_the_older_of_two_static_members_is_fenced_for_good(
    broker: Broker, clients: Clients
) -> None:
    """The classic protocol: the last member that joins with an instance ID gets it (KIP-345).

    Scenario 36.
    """
    group = Group(broker, clients)
    older = group.join(group_instance_id="one", heartbeat_interval_ms=300)
    group.settle()
    group.members.remove(older)
    newer = group.join(group_instance_id="one", heartbeat_interval_ms=300)
    assert group.settle() == [set(ALL)]

    def is_fenced() -> bool:
        try:
            older.poll(50)
        except FencedInstanceIdError:
            return True
        return False

    wait_until(is_fenced, 30)
    with pytest.raises(FencedInstanceIdError):
        older.poll(50)  # it does not try to rejoin
    # Give offsets, because the member may not have found its positions before.
    with pytest.raises((FencedInstanceIdError, CommitFailedError)):
        older.commit({TopicPartition(group.topic, 0): OffsetAndMetadata(1)})
    with within(20):
        older.close()
    group.send(range(20))
    group.poll_until(lambda: len(group.records) == 20)
    assert newer.assignment() == {TopicPartition(group.topic, each) for each in ALL}


def test_a_second_static_member_is_refused_while_the_first_one_lives(
    modern_broker: Broker, clients: Clients
) -> None:
    """KIP-848: the first member with an instance ID keeps it. Scenario 36."""
    group = Group(modern_broker, clients, "consumer")
    heard = Heard()
    first = group.join(heard, group_instance_id="one")
    group.settle()
    second = group.consumer(group_instance_id="one")
    second.subscribe([group.topic])

    def is_refused() -> bool:
        group.poll()
        try:
            second.poll(50)
        except UnreleasedInstanceIdError:
            return True
        return False

    wait_until(is_refused, 30)
    group.send(range(20))
    group.poll_until(lambda: len(group.records) == 20)
    assert heard.events == [("assigned", ALL)]
    second.close()
    group.leave(first)  # releases the ID
    group.join(group_instance_id="one")
    assert group.settle() == [set(ALL)]


class CommittingLast(Heard):
    """Commits what was read when its partitions are revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.member: Any = None

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        super().on_partitions_revoked(revoked)
        self.member.commit()


@pytest.mark.parametrize("commits", ["the listener", "auto-commit"])
@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
def test_who_leaves_commits_under_the_epoch_that_is_on_its_way(
    start_embedded: Any, clients: Clients, ends: str, commits: str
) -> None:
    """The broker has increased the member's epoch, and the member does not know it yet."""
    at_once = {"group.consumer.assignment.interval.ms": "0"}
    broker: EmbeddedBroker = start_embedded(configs=at_once)
    group = Group(Broker("embedded", broker.bootstrap_servers), clients, "consumer")
    other = group.broker.create_topic("other", 1)
    heard = CommittingLast() if commits == "the listener" else Heard()
    options = {"enable_auto_commit": commits == "auto-commit", "auto_commit_interval_ms": 60_000}
    member = group.join(heard, **options)
    if isinstance(heard, CommittingLast):
        heard.member = member
    group.settle()
    group.send(range(8))
    group.poll_until(lambda: len(group.records) == 8)
    with broker.faults.on("ConsumerGroupHeartbeat").then_delay(700) as fault:
        member.subscribe([group.topic, other], listener=heard)
        group.poll_until(lambda: fault.hits == 1)
        with within(20):
            member.close() if ends == "close" else member.unsubscribe()
    # After a pause the member may know its epoch before it leaves, and have the other topic, too.
    late = [("assigned", ALL), ("assigned", [0]), ("revoked", [0, *ALL])]
    assert heard.events in ([("assigned", ALL), ("revoked", ALL)], late)
    reader = group.consumer()
    wanted = {TopicPartition(group.topic, each): 2 for each in ALL}
    assert {each: reader.committed(each) for each in wanted} == wanted


def test_commits_amid_cooperative_rebalances_cost_no_partition(group: Group) -> None:
    """As in librdkafka #4059, #4908: a commit of an older generation cost the assignment.

    The broker may refuse such a commit until the rebalance is complete. Partitions that are not
    moved stay assigned. Bug 12.
    """
    heard = Heard()
    options: dict[str, Any] = {"enable_auto_commit": False}
    if group.protocol == "classic":
        options |= {"partition_assignment_strategy": "cooperative-sticky"}
        options |= {"heartbeat_interval_ms": 200}
    member = group.join(heard, **options)
    group.settle()
    responses: list[Any] = []

    def commit() -> bool:
        member.commit_async(None, lambda _, response: responses.append(response))
        try:
            member.commit()
        except RebalanceInProgressError:
            return False
        return True

    for turn in range(3):
        group.send(range(100 * turn, 100 * (turn + 1)))
        other = group.join(**options)
        group.poll_until(lambda: commit() is not None and group.is_settled())
        group.leave(other)
        group.poll_until(lambda: commit() is not None and group.is_settled())
    group.poll_until(commit)
    refusals = [each for each in responses if isinstance(each, Exception)]
    worth_another_try = (RebalanceInProgressError, RetriableError, StaleMemberEpochError)
    assert all(isinstance(each, worth_another_try) for each in refusals), refusals
    assert not [each for each in heard.events if each[0] == "lost"]
    assert ("revoked", ALL) not in heard.events


@pytest.fixture(
    params=[("classic", "embedded"), ("consumer", "embedded"), ("classic", "kafka-4.3")],
    ids="-".join,
)
def group(request: pytest.FixtureRequest, group_of: Callable[[str, str], Group]) -> Group:
    """A new group."""
    return group_of(*request.param)
