"""Texts for refused joins: a broker answers JoinGroup only with an error code."""

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
        "the broker takes no session_timeout_ms of {session_timeout_ms}: it has to lie between the"
        " broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    InconsistentGroupProtocolError.errno: (
        "no assignor of this member ({assignors}) is one that all members of the group have: make"
        " their partition_assignment_strategy share one, or use another group_id. A group of"
        " another kind than consumers', or of group_protocol='consumer', says so too"
    ),
    GroupMaxSizeReachedError.errno: (
        "the group has as many members as the broker's group.max.size allows"
    ),
    GroupAuthorizationFailedError.errno: (
        "this client's principal needs the right READ on the group"
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
    return for_code(code)(text)
