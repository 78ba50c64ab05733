"""Responses for the fake core of an admin client, and the requests that it got."""

from typing import Any

from thalweg.structs import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def last(admin: Any) -> tuple[str, dict[str, Any], Any]:
    found: tuple[str, dict[str, Any], Any] = admin._client.requests[-1]
    return found


def responds(admin: Any, **given: Any) -> None:
    admin._client.responses.update(given)


def metadata(leaders: dict[TopicPartition, int], **more: Any) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), leader in leaders.items():
        topics.setdefault(topic, []).append(
            {
                "PartitionIndex": partition,
                "LeaderId": leader,
                "LeaderEpoch": 0,
                "ReplicaNodes": [1, 2],
                "IsrNodes": [1],
                "OfflineReplicas": [],
                "ErrorCode": 0,
            }
        )
    return {
        "Topics": [
            {
                "Name": name,
                "TopicId": ZERO_ID,
                "ErrorCode": 0,
                "IsInternal": False,
                "Partitions": rows,
                "TopicAuthorizedOperations": -(2**31),
            }
            for name, rows in topics.items()
        ],
        **more,
    }


def listed(**offsets: tuple[int, int]) -> dict[str, Any]:
    """Makes a ListOffsets response: p0=(offset, error code)."""
    rows = [
        {
            "PartitionIndex": int(name[1:]),
            "Offset": offset,
            "Timestamp": 100,
            "LeaderEpoch": 7,
            "ErrorCode": code,
        }
        for name, (offset, code) in offsets.items()
    ]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}
