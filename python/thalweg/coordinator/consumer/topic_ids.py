"""Partitions by topic id, as KIP-848's protocol names them (`TopicIdPartition`).

A topic that is deleted and made again has another id, so its partitions are other ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["IdPartition", "id_partitions", "id_rows"]


class IdPartition(NamedTuple):
    """A topic's id, in Kafka's url-safe base64, and a partition's."""

    topic_id: str
    partition: int


def id_partitions(rows: Iterable[Mapping[str, Any]]) -> frozenset[IdPartition]:
    """Out of a message's TopicPartitions."""
    return frozenset(
        IdPartition(row["TopicId"], partition) for row in rows for partition in row["Partitions"]
    )


def id_rows(partitions: Iterable[IdPartition]) -> list[dict[str, Any]]:
    """A message's TopicPartitions, in order."""
    topics: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [{"TopicId": topic_id, "Partitions": ids} for topic_id, ids in topics.items()]
