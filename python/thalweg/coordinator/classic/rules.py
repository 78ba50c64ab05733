"""Who may do what in a classic group: the error codes of requests that are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from thalweg.coordinator.classic.answers import protocols
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


# Each vote looks at the lists of all members; clients have a handful.
PROTOCOLS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's options, under Kafka's names (group.*), with Kafka's defaults.

    Attributes:
        initial_rebalance_delay_ms: How long an empty group waits for more members.
        min_session_timeout_ms: Less is refused.
        max_session_timeout_ms: More is refused.
        max_size: Members of one group.
        new_member_join_timeout_ms: How long a member without an id waits at most.
    """

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000


def join_error(group: "ClassicGroup", settings: GroupSettings, body: Mapping[str, Any]) -> int:
    """Why somebody may not join; 0 if they may."""
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
    """Whether group.max.size lets this one in; known members always stay in.

    While preparing, those who wait are counted: so a group that is too large, as the limit was
    lowered, loses the last ones that rejoin.
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
    """Why somebody gets no assignment; 0 if they do, or wait for it."""
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
    """Who leaves; an administrator names a static member by its instance id alone."""
    member_id, instance_id = row["MemberId"], row.get("GroupInstanceId")
    if not member_id:
        current = roster.static_id(instance_id)
        return (current, NoError.errno) if current else ("", UnknownMemberIdError.errno)
    if member_id in roster.pending_ids:
        return member_id, NoError.errno
    return member_id, roster.check(member_id, instance_id)
