"""Responses for a member on a fake core, and what it has sent."""

from __future__ import annotations

from typing import Any

from thalweg.coordinator.protocol import Assignment
from thalweg.errors import RebalanceInProgressError
from thalweg.structs import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def beaten(body: Any) -> dict[str, Any]:
    """Makes a ConsumerGroupHeartbeat response of a broker that assigns both partitions."""
    leaves = body["MemberEpoch"] < 0
    both = {"TopicPartitions": [{"TopicId": "T", "Partitions": [0, 1]}]}
    return {
        "ErrorCode": 0,
        "ErrorMessage": None,
        "MemberId": body["MemberId"],
        "MemberEpoch": body["MemberEpoch"] if leaves else 1,
        "HeartbeatIntervalMs": 5000,
        "Assignment": None if leaves else both,
    }


def joined(code: int = 0, generation: int = 1) -> dict[str, Any]:
    """Makes a JoinGroup response for a follower."""
    return {
        "ErrorCode": code,
        "GenerationId": generation,
        "ProtocolName": "range",
        "ProtocolType": "consumer",
        "Leader": "other",
        "MemberId": "m",
        "Members": [],
    }


def synced(*partitions: TopicPartition) -> dict[str, Any]:
    return {"ErrorCode": 0, "Assignment": Assignment(3, list(partitions)).encode()}


def polled(consumer: Any, times: int = 6) -> None:
    """Runs the core's hook several times, as poll does."""
    for _ in range(times):
        consumer.hooks.before_poll(1000)


def apis(consumer: Any) -> list[str]:
    return [api for api, _, _ in consumer.client.requests]


def leaves(consumer: Any) -> int:
    """Returns how often it has sent a request to leave the group."""
    return sum(
        api == "LeaveGroup" or (api == "ConsumerGroupHeartbeat" and body["MemberEpoch"] < 0)
        for api, body, _ in consumer.client.requests
    )


def is_held(consumer: Any) -> bool:
    *_, (_, held) = [each for each in consumer.calls if each[0] == "hold"]
    return bool(held)


def joins(consumer: Any) -> int:
    """Returns how often it has joined, after some more polls."""
    polled(consumer)
    return apis(consumer).count("JoinGroup")


def rebalanced(consumer: Any) -> None:
    consumer.heard = [({"ErrorCode": RebalanceInProgressError.errno}, None)]
    polled(consumer)


def going(protocol: str) -> dict[str, Any]:
    """Makes a response to a heartbeat after which the member gives up its partitions."""
    rebalance = beaten({"MemberId": "m", "MemberEpoch": 0})
    rebalance["Assignment"] = {"TopicPartitions": []}
    rebalance["ErrorCode"] = RebalanceInProgressError.errno if protocol == "classic" else 0
    return rebalance


def not_committed(code: int) -> dict[str, Any]:
    rows = [{"PartitionIndex": 0, "ErrorCode": code}]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}
