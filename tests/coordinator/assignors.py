"""The simplest possible assignors, so that tests of groups show what groups do."""

from __future__ import annotations

from typing import Any

from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.structs import TopicPartition


class Spread:
    """Eager: assigns partitions in turn to the members that subscribe to their topic."""

    name = "spread"

    def supported_protocols(self):
        return [0]

    def metadata(self, topics: set[str]) -> Subscription:
        return Subscription(3, sorted(topics))

    def assign(self, cluster: Any, members: Any) -> dict[str, Assignment]:
        given: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        for turn, partition in enumerate(all_partitions(cluster, members)):
            takers = sorted(
                each.member_id for each in members if partition.topic in each.metadata.topics
            )
            given[takers[turn % len(takers)]].append(partition)
        return {each: Assignment(3, sorted(mine)) for each, mine in given.items()}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        pass


class Sticky(Spread):
    """Cooperative: an owner keeps a partition, up to its share, and nothing moves at once."""

    name = "sticky"

    def supported_protocols(self):
        return [0, 1]

    def assign(self, cluster: Any, members: Any) -> dict[str, Assignment]:
        everything = all_partitions(cluster, members)
        share = -(-len(everything) // len(members))
        owners: dict[TopicPartition, tuple[int, str]] = {}
        for each in members:
            for partition in each.metadata.owned_partitions:
                claim = each.metadata.generation_id, each.member_id
                owners[partition] = max(claim, owners.get(partition, (-2, "")))
        given: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
        topics = {each.member_id: each.metadata.topics for each in members}
        moving = []
        for partition in everything:
            _, owner = owners.get(partition, (-1, ""))
            keeps = owner in given and partition.topic in topics[owner]
            if keeps and len(given[owner]) < share:
                given[owner].append(partition)
            else:
                moving.append(partition)
        for partition in moving:
            takers = [each for each in given if partition.topic in topics[each]]
            taker = min(takers, key=lambda each: (len(given[each]), each))
            claimed = {
                each.member_id for each in members if partition in each.metadata.owned_partitions
            }
            if claimed <= {taker}:
                given[taker].append(partition)
        return {each: Assignment(3, sorted(mine)) for each, mine in given.items()}


class Named(Spread):
    """The same assignor with another name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Broken(Spread):
    """An assignor that raises."""

    name = "broken"

    def assign(self, cluster: Any, members: Any) -> dict[str, Assignment]:
        raise ZeroDivisionError("no members")


def all_partitions(cluster: Any, members: Any) -> list[TopicPartition]:
    topics = sorted({topic for each in members for topic in each.metadata.topics})
    return [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(cluster.partitions_for_topic(topic) or ())
    ]
