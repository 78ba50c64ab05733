"""Responses about committed offsets for a consumer on a fake core."""

from typing import Any

from thalweg.structs import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def committed(**errors: int) -> dict[str, Any]:
    """Makes an OffsetCommit response: p0=22 is an error code of partition 0."""
    rows = [{"PartitionIndex": each, "ErrorCode": errors.get(f"p{each}", 0)} for each in range(2)]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}


def offsets(code: int = 0, **found: int) -> dict[str, Any]:
    """Makes a new OffsetFetch response: p0=5 is the offset of partition 0, -1 for none."""
    rows = [
        {
            "PartitionIndex": int(name[1:]),
            "CommittedOffset": offset,
            "CommittedLeaderEpoch": 3,
            "Metadata": "m",
            "ErrorCode": 0,
        }
        for name, offset in found.items()
    ]
    topics = [{"Name": "t", "Partitions": rows}]
    return {"Groups": [{"GroupId": "g", "ErrorCode": code, "Topics": topics}]}
