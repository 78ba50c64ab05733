"""Rules of a classic group: which requests are refused, with which error code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from thalweg.coordinator.classic.responses import protocols
from thalweg.coordinator.classic.roster import Roster
from thalweg.coordinator.states import GroupState
from thalweg.errors import (
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

if TYPE_CHECKING:
    from thalweg.coordinator.classic.group import ClassicGroup

__all__ = ["GroupSettings", "join_error", "leaving", "sync_error"]


# A limit, because each vote reads the lists of all members. Clients have only a few assignors.
PROTOCOLS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's options, under Kafka's names (group.*), with Kafka's defaults.

    Attributes:
        initial_rebalance_delay_ms: How long an empty group waits for more members.
        min_session_timeout_ms: The lowest session timeout of a member.
        max_session_timeout_ms: The highest session timeout of a member.
        max_size: The maximum number of members.
        new_member_join_timeout_ms: The limit of a new member's wait for its first response.
    """

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000


def join_error(group: "ClassicGroup", settings: GroupSettings, body: Mapping[str, Any]) -> int:
    """Returns the error code if a member may not join, else 0."""
    member_id, instance_id = body["MemberId"], body.get("GroupInstanceId")
    least, most = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not least <= body["SessionTimeoutMs"] <= most:
        return InvalidSessionTimeoutError.errno
    if not _has_room(group, settings.max_size, member_id, instance_id):
        return GroupMaxSizeReachedError.errno
    if len(body["Protocols"]) > PROTOCOLS_MAX:
        return InconsistentGroupProtocolError.errno
    if not group.roster.supports(body["ProtocolType"], dict(protocols(body))):
        return InconsistentGroupProtocolError.errno
    if not member_id or (member_id in group.roster.pending_ids and instance_id is None):
        return NoError.errno
    return group.roster.check(member_id, instance_id)


def _has_room(
    group: "ClassicGroup", size_max: int, member_id: str, instance_id: str | None
) -> bool:
    """Whether group.max.size allows this member. Known members may always stay.

    During PreparingRebalance, only waiting members count. So if the limit was lowered, a group that
    is too large loses the members that rejoin last.
    """
    roster = group.roster
    member = roster.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        waits = member is not None and member.join_token is not None
        return waits or roster.joining() < size_max
    returns = roster.static_id(instance_id) is not None
    return member is not None or returns or len(roster) < size_max


def sync_error(group: "ClassicGroup", body: Mapping[str, Any]) -> int:
    """Returns the error code if a SyncGroup is refused, else 0."""
    error = group.roster.check(body["MemberId"], body.get("GroupInstanceId"))
    if error != NoError.errno:
        return error
    if body["GenerationId"] != group.generation:
        return IllegalGenerationError.errno
    said = body.get("ProtocolType"), body.get("ProtocolName")
    ours = group.roster.protocol_type, group.protocol
    if any(one is not None and one != other for one, other in zip(said, ours, strict=True)):
        return InconsistentGroupProtocolError.errno
    if group.state is GroupState.PREPARING_REBALANCE:
        return RebalanceInProgressError.errno
    return NoError.errno


def leaving(roster: Roster, row: Mapping[str, Any]) -> tuple[str, int]:
    """Returns the member id of a leaving member, and an error code or 0.

    An administrator names a static member only by its instance id.
    """
    member_id, instance_id = row["MemberId"], row.get("GroupInstanceId")
    if not member_id:
        current = roster.static_id(instance_id)
        return (current, NoError.errno) if current else ("", UnknownMemberIdError.errno)
    if member_id in roster.pending_ids:
        return member_id, NoError.errno
    return member_id, roster.check(member_id, instance_id)
