"""Error messages for refused joins: a broker refuses a JoinGroup with only an error code."""

from collections.abc import Iterable, Mapping
from typing import Final

from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.errors import (
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    for_code,
)

__all__ = ["refusal"]

_WHY: Final[Mapping[int, str]] = {
    InvalidSessionTimeoutError.errno: (
        "the broker does not accept session_timeout_ms={session_timeout_ms}. Set it to a value from"
        " group.min.session.timeout.ms to group.max.session.timeout.ms of the broker"
    ),
    InconsistentGroupProtocolError.errno: (
        "no assignor of this member ({assignors}) is supported by all members of the group. Set"
        " partition_assignment_strategy so that all members have an assignor in common, or use"
        " another group_id. You also get this error if the group uses another protocol type, or"
        " group_protocol='consumer'"
    ),
    GroupMaxSizeReachedError.errno: (
        "the group already has the maximum number of members. Raise group.max.size of the broker,"
        " or start fewer consumers"
    ),
}


def refusal(code: int, settings: MemberSettings, assignors: Iterable[str]) -> KafkaError:
    """Returns the error of a code, with its cause and what to do, if known."""
    text = f"joining group {settings.group_id!r}"
    if (why := _WHY.get(code)) is not None:
        known = why.format(
            session_timeout_ms=settings.session_timeout_ms, assignors=", ".join(assignors)
        )
        text += f": {known}"
    elif code == GroupAuthorizationFailedError.errno:
        text += f": {GroupAuthorizationFailedError.description}"  # the driver adds what to grant
    return for_code(code)(text)
