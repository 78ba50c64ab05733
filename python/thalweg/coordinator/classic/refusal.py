"""Why a group does not take a member, in words: to JoinGroup a broker answers with a code alone."""

from collections.abc import Callable, Iterable, Mapping
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


def _session_timeout(settings: MemberSettings, _: Iterable[str]) -> str:
    return (
        f"the broker takes no session_timeout_ms of {settings.session_timeout_ms}: it has to lie"
        " between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    )


def _inconsistent(_: MemberSettings, assignors: Iterable[str]) -> str:
    return (
        f"no assignor of this member ({', '.join(assignors)}) is one that all members of the group"
        " have: make their partition_assignment_strategy share one, or use another group_id. A"
        " group of another kind than consumers', or of group_protocol='consumer', says so too"
    )


def _full(_: MemberSettings, __: Iterable[str]) -> str:
    return "the group has as many members as the broker's group.max.size allows"


def _forbidden(_: MemberSettings, __: Iterable[str]) -> str:
    return "this client's principal needs the right READ on the group"


_WHY: Final[Mapping[int, Callable[[MemberSettings, Iterable[str]], str]]] = {
    InvalidSessionTimeoutError.errno: _session_timeout,
    InconsistentGroupProtocolError.errno: _inconsistent,
    GroupMaxSizeReachedError.errno: _full,
    GroupAuthorizationFailedError.errno: _forbidden,
}


def refusal(code: int, settings: MemberSettings, assignors: Iterable[str]) -> KafkaError:
    """The error of this code, with what is known of its cause and of what to do."""
    why = _WHY.get(code)
    text = f"joining group {settings.group_id!r}"
    if why is not None:
        text += f": {why(settings, assignors)}"
    return for_code(code)(text)
