"""Changed subscriptions in KIP-848's protocol: old partitions stay until the group revokes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.integration.support.groups import PARTITIONS, Group, Heard
from tests.support.brokers import Broker
from thalweg import EmbeddedBroker, KafkaConsumer, SubscriptionPattern, TopicPartition
from thalweg.structs import MemberState

ALL = list(range(PARTITIONS))
Subscribe = Callable[[KafkaConsumer[Any, Any], Any, list[str]], None]


def by_name(member: KafkaConsumer[Any, Any], listener: Any, topics: list[str]) -> None:
    member.subscribe(topics, listener=listener)


def by_pattern(member: KafkaConsumer[Any, Any], listener: Any, topics: list[str]) -> None:
    member.subscribe(pattern=f"^({'|'.join(map(re.escape, topics))})$", listener=listener)


def by_brokers_pattern(member: KafkaConsumer[Any, Any], listener: Any, topics: list[str]) -> None:
    member.subscribe(pattern=SubscriptionPattern("|".join(topics)), listener=listener)


SUBSCRIBES: list[Subscribe] = [by_name, by_pattern, by_brokers_pattern]


@pytest.fixture
def started(start_embedded: Any) -> EmbeddedBroker:
    # The group decides about a new subscription in the response to it.
    broker: EmbeddedBroker = start_embedded(configs={"group.consumer.assignment.interval.ms": "0"})
    return broker


@pytest.fixture
def group(started: EmbeddedBroker, clients: Clients) -> Group:
    return Group(Broker("embedded", started.bootstrap_servers), clients, "consumer")


def reading(
    group: Group, started: EmbeddedBroker, subscribe: Subscribe, topics: list[str]
) -> KafkaConsumer[Any, Any]:
    """Returns a member that has read two records of each partition, and committed none."""
    member = group.consumer(auto_commit_interval_ms=60_000)
    group.members.append(member)
    # It knows the topics before the group assigns them, so it need not watch their IDs.
    with started.faults.on("ConsumerGroupHeartbeat").then_delay(200):
        subscribe(member, None, topics)
        group.poll_until(lambda: {each.topic for each in member.assignment()} == set(topics))
    group.send(range(2 * PARTITIONS))
    group.poll_until(lambda: len(group.records) == 2 * PARTITIONS)
    group.poll_until(lambda: member.group_metadata().state == MemberState.STABLE)
    assert committed(group) == [None] * PARTITIONS
    return member


def committed(group: Group) -> list[Any]:
    reader = group.consumer()
    return [reader.committed(TopicPartition(group.topic, each)) for each in ALL]


@pytest.mark.parametrize("after", SUBSCRIBES)
@pytest.mark.parametrize("before", SUBSCRIBES)
@pytest.mark.parametrize("is_narrower", [False, True])
def test_partitions_of_a_topic_that_was_unsubscribed_from_are_committed_and_revoked(
    group: Group, started: EmbeddedBroker, before: Subscribe, after: Subscribe, is_narrower: bool
) -> None:
    """New metadata, without the old topic, arrives before the group's decision."""
    other = group.broker.create_topic("other", 1)
    member = reading(group, started, before, [group.topic, other] if is_narrower else [group.topic])
    heard = Heard()
    with started.faults.on("ConsumerGroupHeartbeat").then_delay(300):
        after(member, heard, [other])
        group.poll_until(lambda: member.assignment() == {TopicPartition(other, 0)})
    given_up = [each for each in heard.events if each[0] != "assigned"]
    assert given_up == [("revoked", ALL)]
    assert committed(group) == [2] * PARTITIONS


@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
def test_a_member_that_leaves_after_a_new_subscription_commits_what_it_read(
    group: Group, started: EmbeddedBroker, ends: str
) -> None:
    other = group.broker.create_topic("other", 1)
    member = reading(group, started, by_name, [group.topic])
    heard = Heard()
    with started.faults.on("ConsumerGroupHeartbeat").then_delay(700) as fault:
        by_name(member, heard, [other])
        group.poll_until(lambda: fault.hits == 1)
        for _ in range(10):
            group.poll()  # takes the new metadata
        with within(20):
            member.close() if ends == "close" else member.unsubscribe()
    assert heard.events[0] == ("revoked", ALL)
    assert all(what != "lost" for what, _ in heard.events)
    assert committed(group) == [2] * PARTITIONS
