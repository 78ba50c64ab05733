"""Offsets that the broker has forgotten look to a consumer as if they were never committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.groups import PARTITIONS, Group
from tests.support.brokers import Broker, configured
from tests.support.waiting import wait_until
from thalweg import OffsetAndMetadata, TopicPartition
from thalweg.coordinator.offsets import commit_body, commit_errors
from thalweg.errors import NoOffsetForPartitionError
from thalweg.structs import ConsumerGroupMetadata

FORGOTTEN = 0  # the partition whose committed offset is gone
LAST_WITH_RETENTION = 4  # the version of OffsetCommit


@pytest.fixture(scope="module", params=["embedded", "kafka-4.3"])
def forgetful(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that removes old offsets twice a second."""
    configs = {
        "offsets.retention.check.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with configured(request.param, configs) as broker:
        yield broker


@pytest.fixture(params=["classic", "consumer"])
def group(request: pytest.FixtureRequest, forgetful: Broker, clients: Clients) -> Group:
    """An empty group that has read eight records. One of its committed offsets is gone."""
    group = Group(forgetful, clients, request.param)
    group.send(range(8))
    member = group.join()
    group.poll_until(lambda: len(group.records) == 8)
    group.leave(member)
    group.records.clear()
    expire(group)
    return group


def expire(group: Group) -> None:
    """Commits an offset for one millisecond, and waits until the broker has forgotten it.

    The shortest retention of brokers is a minute. Old versions of OffsetCommit may set their own.
    """
    consumer = group.consumer(enable_auto_commit=False)
    where = TopicPartition(group.topic, FORGOTTEN)
    body = commit_body(ConsumerGroupMetadata(group.topic), {where: OffsetAndMetadata(2)})
    response = consumer._core_client.request(
        "OffsetCommit",
        {**body, "RetentionTimeMs": 1},
        ("coordinator", "group", group.topic),
        version=LAST_WITH_RETENTION,
    )
    assert commit_errors(response) == {}
    wait_until(lambda: consumer.committed(where) is None, 20)
    assert consumer.committed(TopicPartition(group.topic, FORGOTTEN + 1)) == 2


def all_read(group: Group, count: int) -> list[int]:
    """Returns the values once `count` records are read."""
    group.poll_until(lambda: len(group.records) >= count)
    return group.values()


def test_a_new_member_begins_at_the_beginning_with_earliest(group: Group) -> None:
    group.join(auto_offset_reset="earliest")
    assert all_read(group, 2) == [0, 4]
    group.send(range(8, 16))
    assert all_read(group, 10) == [0, 4, *range(8, 16)]


def test_a_new_member_begins_at_the_end_with_latest(group: Group) -> None:
    member = group.join(auto_offset_reset="latest")
    group.poll_until(lambda: len(member._positions()) == PARTITIONS)
    group.send(range(8, 16))
    assert all_read(group, 8) == list(range(8, 16))


def test_without_a_policy_poll_names_the_partition_until_the_application_seeks(
    group: Group,
) -> None:
    member: Any = group.join(auto_offset_reset="none")
    where = TopicPartition(group.topic, FORGOTTEN)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError, match=rf"for {where.topic}-0,") as caught:
            group.poll_until(lambda: False)
        assert caught.value.partitions == [where]
    member.seek(where, 1)
    group.send(range(8, 16))
    assert all_read(group, 9) == [4, *range(8, 16)]
