"""The bodies of a member's heartbeats in KIP-848's protocol, and the meaning of errors.

A full heartbeat has all fields, so its response has the complete assignment. A member sends it to
join, and after lost responses. A minimal heartbeat only keeps the session alive.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from thalweg.coordinator.kip848.topic_ids import IdPartition, id_rows
from thalweg.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    IllegalSaslStateError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    RetriableError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    for_code,
)

__all__ = [
    "API",
    "ConsumerMemberSettings",
    "Verdict",
    "full",
    "leave",
    "minimal",
    "reason",
    "verdict",
]

API: Final = "ConsumerGroupHeartbeat"

_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2


@dataclass(frozen=True, slots=True)
class ConsumerMemberSettings:
    """The consumer's options that the membership needs.

    Attributes:
        member_id: A UUID that the consumer keeps for its lifetime (KIP-1082).
        server_assignor: The broker's assignor to ask for (group_remote_assignor).
        heartbeat_interval_ms: The interval until the broker sends its own.
    """

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    heartbeat_interval_ms: int = 5_000


class Verdict(Enum):
    """The meaning of an error."""

    NONE = auto()
    RETRY = auto()
    LOOK_UP = auto()  # look up the coordinator and retry
    REJOIN = auto()  # the membership and all partitions are lost
    RAISE = auto()  # the application can cure it: report it and retry
    FATAL = auto()


_VERDICTS: Final[tuple[tuple[type[KafkaError], Verdict], ...]] = (
    (NoError, Verdict.NONE),
    (CoordinatorLoadInProgressError, Verdict.RETRY),
    (NotCoordinatorError, Verdict.LOOK_UP),
    (CoordinatorNotAvailableError, Verdict.LOOK_UP),
    (UnknownMemberIdError, Verdict.REJOIN),
    (FencedMemberEpochError, Verdict.REJOIN),
    (GroupIdNotFoundError, Verdict.REJOIN),
    (TopicAuthorizationFailedError, Verdict.RAISE),
    # Lost connections and timeouts. Also `NoCredentialsError`, a subclass of this class and of
    # `SaslAuthenticationFailedError`.
    (RetriableError, Verdict.LOOK_UP),
    # The application can correct the password. Until the session ends, the group keeps the member.
    (SaslAuthenticationFailedError, Verdict.RAISE),
    (UnsupportedSaslMechanismError, Verdict.RAISE),
    (IllegalSaslStateError, Verdict.RAISE),
)


def reason(body: Mapping[str, Any] | None, error: KafkaError | None) -> KafkaError:
    """Returns the error of a response, or NoError. `error` is a transport error."""
    if error is None and body is not None:
        error = for_code(body["ErrorCode"])(*filter(None, [body.get("ErrorMessage")]))
    if isinstance(error, UnsupportedVersionError):
        return UnsupportedVersionError(
            "the broker does not support the consumer group protocol (KIP-848), or the version of"
            " it that this subscription needs. Use a newer broker, or group_protocol='classic'"
            f" ({error})"
        )
    if isinstance(error, UnreleasedInstanceIdError):
        return UnreleasedInstanceIdError(
            "another consumer with this group_instance_id is in the group, or it ended without"
            " leaving and its session has not timed out yet. Stop the other consumer, or use"
            f" another group_instance_id ({error.args[0] if error.args else error})"
        )
    return error or NoError()


def verdict(error: KafkaError) -> Verdict:
    """Returns the meaning of an error. Errors without a rule are fatal, as in Java."""
    return next((each for kind, each in _VERDICTS if isinstance(error, kind)), Verdict.FATAL)


def full(
    settings: ConsumerMemberSettings,
    member_id: str,
    epoch: int,
    subscription: tuple[frozenset[str], str | None],
    owned: Iterable[IdPartition],
) -> dict[str, Any]:
    """Returns a full heartbeat. The epoch 0 joins."""
    topics, regex = subscription
    body = minimal(settings, member_id, epoch) | {
        "RackId": settings.rack_id,
        "RebalanceTimeoutMs": settings.rebalance_timeout_ms or settings.max_poll_interval_ms,
        "SubscribedTopicNames": sorted(topics),
        "ServerAssignor": settings.server_assignor,
        "TopicPartitions": id_rows(owned),
    }
    # Version 0 has no patterns.
    return body if regex is None else body | {"SubscribedTopicRegex": regex}


def minimal(settings: ConsumerMemberSettings, member_id: str, epoch: int) -> dict[str, Any]:
    """Returns a minimal heartbeat, which says that nothing has changed."""
    return {
        "GroupId": settings.group_id,
        "MemberId": member_id,
        "MemberEpoch": epoch,
        "InstanceId": settings.instance_id,
    }


def leave(settings: ConsumerMemberSettings, member_id: str) -> dict[str, Any]:
    """Returns the last heartbeat. The group keeps a static member for one session timeout."""
    epoch = _LEAVE if settings.instance_id is None else _LEAVE_FOR_A_WHILE
    return minimal(settings, member_id, epoch)
