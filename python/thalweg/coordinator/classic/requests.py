"""The bodies of the requests of a classic member."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from thalweg.coordinator.steps import Body, Heartbeats

__all__ = ["MemberSettings", "heartbeats", "join", "leave", "sync"]

PROTOCOL_TYPE: Final = "consumer"
_BATCHED_LEAVE: Final = 3  # since this version, LeaveGroup names several members
_REASON_MAX: Final = 255  # length of a reason (KIP-800); brokers refuse longer ones
# Additional time for the response, after the longest wait of the group.
_JOIN_LAPSE_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The consumer's options that the membership depends on, under their own names."""

    group_id: str
    group_instance_id: str | None = None
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    @property
    def join_timeout_ms(self) -> int:
        """The timeout of JoinGroup, which waits for all members: longer than other requests."""
        return max(
            self.request_timeout_ms,
            max(self.max_poll_interval_ms, self.patience_ms) + _JOIN_LAPSE_MS,
        )

    @property
    def patience_ms(self) -> int:
        """How long the group waits for this member in a rebalance."""
        return self.rebalance_timeout_ms or self.max_poll_interval_ms

    def identity(self, member_id: str) -> dict[str, Any]:
        """Returns group id, member id and, for a static member, its instance id.

        Older versions of requests have no instance id.
        """
        body: dict[str, Any] = {"GroupId": self.group_id, "MemberId": member_id}
        if self.group_instance_id is not None:
            body["GroupInstanceId"] = self.group_instance_id
        return body


def join(
    settings: MemberSettings, member_id: str, protocols: Sequence[dict[str, Any]], reason: str
) -> dict[str, Any]:
    """Returns the body of JoinGroup."""
    return settings.identity(member_id) | {
        "SessionTimeoutMs": settings.session_timeout_ms,
        "RebalanceTimeoutMs": settings.patience_ms,
        "ProtocolType": PROTOCOL_TYPE,
        "Protocols": list(protocols),
        "Reason": reason[:_REASON_MAX],
    }


def sync(
    settings: MemberSettings,
    member_id: str,
    generation: int,
    protocol: str,
    assignments: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Returns the body of SyncGroup. Only the leader has assignments."""
    return settings.identity(member_id) | {
        "GenerationId": generation,
        "ProtocolType": PROTOCOL_TYPE,
        "ProtocolName": protocol,
        "Assignments": list(assignments),
    }


def heartbeats(settings: MemberSettings, member_id: str, generation: int) -> Heartbeats:
    """Returns the heartbeats, with the leave request for when the application does not poll.

    A static member has no leave request: its session times out (KIP-345).
    """
    why = "the consumer did not poll for max_poll_interval_ms"
    static = settings.group_instance_id is not None
    return Heartbeats(
        "Heartbeat",
        settings.identity(member_id) | {"GenerationId": generation},
        settings.heartbeat_interval_ms,
        None if static else ("LeaveGroup", leave(settings, member_id, why)),
        settings.max_poll_interval_ms,
        settings.session_timeout_ms,
    )


def leave(settings: MemberSettings, member_id: str, reason: str) -> Body:
    """Returns the bodies of LeaveGroup, in both forms."""
    row = {"MemberId": member_id, "Reason": reason[:_REASON_MAX]}
    return [
        (_BATCHED_LEAVE, {"GroupId": settings.group_id, "Members": [row]}),
        (0, {"GroupId": settings.group_id, "MemberId": member_id}),
    ]
