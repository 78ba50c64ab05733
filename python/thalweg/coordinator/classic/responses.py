"""The bodies of a classic group's responses, its row in DescribeGroups, and its view."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.coordinator.classic.roster import GroupMember
from thalweg.coordinator.states import GroupState
from thalweg.coordinator.steps import Arrived, View
from thalweg.errors import NoError, RebalanceInProgressError

if TYPE_CHECKING:
    from thalweg.coordinator.classic.group import ClassicGroup

__all__ = [
    "described",
    "join_error",
    "joined",
    "leaving",
    "left",
    "member_of",
    "protocols",
    "sync_error",
    "synced",
    "view",
]

_BATCHED_LEAVE = 3  # since this version, LeaveGroup names several members


# ---------------------------------------------------------------------- JoinGroup, SyncGroup


def protocols(body: Mapping[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """Returns the assignors of a JoinGroup request and their metadata, preferred first."""
    return tuple((each["Name"], bytes(each["Metadata"])) for each in body["Protocols"])


def member_of(event: Arrived, member_id: str) -> GroupMember:
    """Creates a member from its JoinGroup request."""
    body = event.body
    session_ms = body["SessionTimeoutMs"]
    rebalance_ms = body.get("RebalanceTimeoutMs", -1)
    return GroupMember(
        member_id=member_id,
        instance_id=body.get("GroupInstanceId"),
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=rebalance_ms if rebalance_ms >= 0 else session_ms,  # version 0
        session_timeout_ms=session_ms,
        protocols=protocols(body),
    )


def join_error(code: int, member_id: str) -> dict[str, Any]:
    """Returns the response to a refused JoinGroup."""
    return {
        "ErrorCode": code,
        "GenerationId": -1,
        "ProtocolName": "",
        "Leader": "",
        "MemberId": member_id,
        "Members": [],
    }


def joined(group: "ClassicGroup", member: GroupMember, members: bool) -> dict[str, Any]:
    """Returns the response to a successful JoinGroup. `members`: lists them, for the leader."""
    rows = [
        {
            "MemberId": each.member_id,
            "GroupInstanceId": each.instance_id,
            "Metadata": each.metadata(group.protocol),
        }
        for each in (group.roster if members else ())
    ]
    return {
        "ErrorCode": NoError.errno,
        "GenerationId": group.generation,
        "ProtocolType": group.roster.protocol_type,
        "ProtocolName": group.protocol or "",
        "Leader": group.roster.leader_id or "",
        "MemberId": member.member_id,
        "Members": rows,
    }


def sync_error(code: int) -> dict[str, Any]:
    """Returns the response to a refused SyncGroup."""
    return {"ErrorCode": code, "Assignment": b""}


def synced(group: "ClassicGroup", member: GroupMember) -> dict[str, Any]:
    """Returns the response to SyncGroup, with the member's assignment."""
    return {
        "ErrorCode": NoError.errno,
        "ProtocolType": group.roster.protocol_type,
        "ProtocolName": group.protocol,
        "Assignment": member.assignment,
    }


# ---------------------------------------------------------------------- LeaveGroup


def leaving(version: int, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the members that a LeaveGroup request names."""
    if version < _BATCHED_LEAVE:
        return [{"MemberId": body["MemberId"]}]
    return list(body["Members"])


def left(version: int, rows: Sequence[Mapping[str, Any]], codes: Sequence[int]) -> dict[str, Any]:
    """Returns the response to LeaveGroup, with an error code for each member."""
    if version < _BATCHED_LEAVE:
        return {"ErrorCode": codes[0]}
    members = [
        {
            "MemberId": row["MemberId"],
            "GroupInstanceId": row.get("GroupInstanceId"),
            "ErrorCode": code,
        }
        for row, code in zip(rows, codes, strict=True)
    ]
    return {"ErrorCode": NoError.errno, "Members": members}


# ---------------------------------------------------------------------- description, view


def described(group: "ClassicGroup") -> dict[str, Any]:
    """Returns the group's row in DescribeGroups.

    As in Kafka 4, it has metadata only of a stable group, but always the assignments: during a
    rebalance, those before it.
    """
    stable = group.state is GroupState.STABLE
    return {
        "ErrorCode": NoError.errno,
        "GroupId": group.group_id,
        "GroupState": str(group.state),
        "ProtocolType": group.roster.protocol_type or "",
        "ProtocolData": (group.protocol or "") if stable else "",
        "Members": [
            {
                "MemberId": member.member_id,
                "GroupInstanceId": member.instance_id,
                "ClientId": member.client_id,
                "ClientHost": member.client_host,
                "MemberMetadata": member.metadata(group.protocol) if stable else b"",
                "MemberAssignment": member.assignment,
            }
            for member in group.roster
        ],
    }


def view(group: "ClassicGroup") -> View:
    """Returns the view from which the broker responds to heartbeats and commits."""
    preparing = group.state is GroupState.PREPARING_REBALANCE
    heartbeat = RebalanceInProgressError.errno if preparing else NoError.errno
    return {
        "group_id": group.group_id,
        "kind": "classic",
        "protocol_type": group.roster.protocol_type or "",
        "state": str(group.state),
        "epoch": group.generation,
        "topics": group.topics,
        "members": {
            member.member_id: {
                "instance_id": member.instance_id,
                "session_timeout_ms": member.session_timeout_ms,
                "epoch": group.generation,
                "heartbeat": heartbeat,
                "watched": member.watched,
            }
            for member in group.roster
        },
    }
