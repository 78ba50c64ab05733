"""The bodies of responses of a group of KIP-848's protocol, and its view."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from thalweg.coordinator.kip848.reconciliation import Current
from thalweg.coordinator.kip848.topic_ids import IdPartition, id_rows
from thalweg.coordinator.steps import View
from thalweg.errors import NoError, RebalanceInProgressError

if TYPE_CHECKING:
    from thalweg.coordinator.kip848.group import ConsumerGroup
    from thalweg.coordinator.kip848.roster import ConsumerGroupMember

__all__ = ["description", "heartbeat", "refused", "view"]

_CONSUMER_MEMBER: Final = 1  # the MemberType of this protocol (KIP-1099)


def heartbeat(
    member_id: str, epoch: int, interval_ms: int, assigned: Iterable[IdPartition] | None
) -> dict[str, Any]:
    """Returns the response to a heartbeat. `assigned` None: the assignment has not changed."""
    return {
        "ErrorCode": NoError.errno,
        "ErrorMessage": None,
        "MemberId": member_id,
        "MemberEpoch": epoch,
        "HeartbeatIntervalMs": interval_ms,
        "Assignment": None if assigned is None else {"TopicPartitions": id_rows(assigned)},
    }


def refused(code: int | None, message: str) -> dict[str, Any]:
    """Returns the response to a refused heartbeat."""
    return {
        "ErrorCode": code,
        "ErrorMessage": message,
        "MemberId": None,
        "MemberEpoch": 0,
        "HeartbeatIntervalMs": 0,
        "Assignment": None,
    }


def description(group: "ConsumerGroup") -> dict[str, Any]:
    """Returns the group's row in ConsumerGroupDescribe, version 1."""
    names = {each.topic_id: name for name, each in group.roster.topics.items()}

    def assignment(partitions: Iterable[IdPartition]) -> dict[str, Any]:
        rows = id_rows(each for each in partitions if each.topic_id in names)
        return {"TopicPartitions": [row | {"TopicName": names[row["TopicId"]]} for row in rows]}

    return {
        "ErrorCode": NoError.errno,
        "ErrorMessage": None,
        "GroupId": group.group_id,
        "GroupState": str(group.state),
        "GroupEpoch": group.epoch,
        "AssignmentEpoch": group.assignment_epoch,
        "AssignorName": group.preferred_assignor(),
        "Members": [
            {
                "MemberId": member.member_id,
                "InstanceId": member.instance_id,
                "RackId": member.rack_id,
                "MemberEpoch": member.current.epoch,
                "ClientId": member.client_id,
                "ClientHost": member.client_host,
                "SubscribedTopicNames": sorted(member.topics),
                "SubscribedTopicRegex": member.regex,
                "Assignment": assignment(member.current.held),
                "TargetAssignment": assignment(group.roster.targets.get(member.member_id, ())),
                "MemberType": _CONSUMER_MEMBER,
            }
            for member in group.roster.members.values()
        ],
    }


def view(group: "ConsumerGroup") -> View:
    """Returns the view for responses to minimal heartbeats and commits. See `steps.Publish`."""
    return {
        "group_id": group.group_id,
        "kind": "consumer",
        "protocol_type": "consumer",
        "state": str(group.state),
        "epoch": group.epoch,
        "topics": sorted({each for m in group.roster.members.values() for each in m.subscription}),
        "members": {
            member.member_id: {
                "instance_id": member.instance_id,
                "session_timeout_ms": group.settings.session_timeout_ms,
                "epoch": member.current.epoch,
                "assignment_epochs": group.roster.assignment_epochs(member),
                "heartbeat": _heartbeat_code(group, member),
                # Also for a static member that is away: it is kept for one session timeout.
                "watched": True,
            }
            for member in group.roster.members.values()
        },
    }


def _heartbeat_code(group: "ConsumerGroup", member: "ConsumerGroupMember") -> int | None:
    """Returns a code other than 0 if a minimal heartbeat would change the member or the group.

    It does not change a member that must first give up partitions, nor a reconciled one.
    """
    if group.epoch > group.assignment_epoch or _moves(group, member):
        return RebalanceInProgressError.errno
    return NoError.errno


def _moves(group: "ConsumerGroup", member: "ConsumerGroupMember") -> bool:
    if group.is_reconciled(member):
        return False
    following: Current = group.next_position(member)
    return following != member.current
