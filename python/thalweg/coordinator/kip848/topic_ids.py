"""Partitions by topic id, as in KIP-848's protocol (`TopicIdPartition`).

A topic that is deleted and created again has another id, so these are different partitions.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["IdPartition", "id_partitions", "id_rows"]


class IdPartition(NamedTuple):
    """A topic id, in Kafka's URL-safe base64, and a partition number."""

    topic_id: str
    partition: int


def id_partitions(rows: Iterable[Mapping[str, Any]]) -> frozenset[IdPartition]:
    """Converts the TopicPartitions of a message to a set."""
    return frozenset(
        IdPartition(row["TopicId"], partition) for row in rows for partition in row["Partitions"]
    )


def id_rows(partitions: Iterable[IdPartition]) -> list[dict[str, Any]]:
    """Converts partitions to the TopicPartitions of a message, sorted."""
    topics: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [{"TopicId": topic_id, "Partitions": ids} for topic_id, ids in topics.items()]
