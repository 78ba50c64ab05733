"""Committed offsets: the bodies of requests and the meaning of responses. No I/O, no clock.

    commit_body(...) ──> OffsetCommit ──> commit_errors(response) ──> {partition: error class}
    fetch_bodies(.)  ──> OffsetFetch  ──> fetched(response, ...)  ──> {partition: offset or None}

Bodies name topics, so OffsetCommit and OffsetFetch use at most version 9 (10 needs topic ids). A
consumer outside a group commits with generation -1 and an empty member id, as in Java.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from thalweg.errors import BrokerResponseError, NoError, for_code
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = [
    "COMMIT_VERSION_MAX",
    "FETCH_VERSION_MAX",
    "Fetched",
    "commit_body",
    "commit_errors",
    "fetch_bodies",
    "fetched",
]

COMMIT_VERSION_MAX: Final = 9
FETCH_VERSION_MAX: Final = 9
Fetched = tuple[
    dict[TopicPartition, OffsetAndMetadata | None],
    dict[TopicPartition, type[BrokerResponseError]],
]

_BATCHED_FETCH: Final = 8  # since this version, OffsetFetch asks for several groups
_FETCH_FORMS: Final = (9, _BATCHED_FETCH, 7, 0)  # the versions that changed its fields


def _by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def commit_body(
    group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[str, Any]:
    """Returns the body of an OffsetCommit request."""
    return {
        "GroupId": group.group_id,
        "GenerationIdOrMemberEpoch": group.generation_id,
        "MemberId": group.member_id,
        "GroupInstanceId": group.group_instance_id,
        "Topics": [
            {
                "Name": topic,
                "Partitions": [
                    {
                        "PartitionIndex": partition,
                        "CommittedOffset": at.offset,
                        "CommittedLeaderEpoch": at.leader_epoch,
                        "CommittedMetadata": at.metadata or "",
                    }
                    for partition in partitions
                    for at in (offsets[TopicPartition(topic, partition)],)
                ],
            }
            for topic, partitions in _by_topic(offsets).items()
        ],
    }


def commit_errors(response: Mapping[str, Any]) -> dict[TopicPartition, type[BrokerResponseError]]:
    """Returns the partitions whose offsets were not committed, with their error classes."""
    return {
        TopicPartition(topic["Name"], partition["PartitionIndex"]): for_code(partition["ErrorCode"])
        for topic in response["Topics"]
        for partition in topic["Partitions"]
        if partition["ErrorCode"] != NoError.errno
    }


def _fetch_body(
    group: ConsumerGroupMetadata,
    topics: list[dict[str, Any]] | None,
    version: int,
    require_stable: bool,
) -> dict[str, Any]:
    """Returns the body of an OffsetFetch request. Topics None: all topics of the group.

    With `require_stable`, the broker returns UNSTABLE_OFFSET_COMMIT for partitions with offsets in
    an open transaction (KIP-447, since version 7).
    """
    body: dict[str, Any] = {"RequireStable": require_stable} if version >= 7 else {}
    if version < _BATCHED_FETCH:
        return body | {"GroupId": group.group_id, "Topics": topics}
    asked: dict[str, Any] = {"GroupId": group.group_id, "Topics": topics}
    if group.member_id and version >= 9:
        asked |= {"MemberId": group.member_id, "MemberEpoch": group.generation_id}
    return body | {"Groups": [asked]}


def fetch_bodies(
    group: ConsumerGroupMetadata,
    partitions: Iterable[tuple[str, int]] | None,
    *,
    require_stable: bool = True,
) -> list[tuple[int, dict[str, Any]]]:
    """Returns the bodies of an OffsetFetch request for all versions: (min version, body)."""
    topics = None
    if partitions is not None:
        topics = [
            {"Name": topic, "PartitionIndexes": indexes}
            for topic, indexes in _by_topic(partitions).items()
        ]
    return [
        (version, _fetch_body(group, topics, version, require_stable)) for version in _FETCH_FORMS
    ]


def fetched(response: Mapping[str, Any], partitions: Iterable[tuple[str, int]] = ()) -> Fetched:
    """Reads an OffsetFetch response.

    Args:
        response: The response, of any version.
        partitions: The requested partitions. If the response lacks one, its offset is None.

    Returns:
        The committed offsets (None: nothing committed), and the errors by partition.

    Raises:
        BrokerResponseError: If the request failed as a unit.
    """
    part = response["Groups"][0] if response.get("Groups") else response
    if part.get("ErrorCode", 0) != NoError.errno:
        kind = for_code(part["ErrorCode"])
        group = f" of group {part['GroupId']!r}" if "GroupId" in part else ""
        raise kind(f"fetching the committed offsets{group}: {kind.description}")
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {
        TopicPartition(*each): None for each in partitions
    }
    errors: dict[TopicPartition, type[BrokerResponseError]] = {}
    for topic in part["Topics"]:
        for row in topic["Partitions"]:
            where = TopicPartition(topic["Name"], row["PartitionIndex"])
            if row["ErrorCode"] != NoError.errno:
                errors[where] = for_code(row["ErrorCode"])
            elif row["CommittedOffset"] >= 0:
                offsets[where] = OffsetAndMetadata(
                    row["CommittedOffset"],
                    row.get("Metadata") or "",
                    row.get("CommittedLeaderEpoch", -1),
                )
            else:
                offsets[where] = None
    return offsets, errors
