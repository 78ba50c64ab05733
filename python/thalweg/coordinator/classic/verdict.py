"""What an error code of the group's coordinator means for a classic member: one table."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from thalweg.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    NoError,
    NotCoordinatorError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
    for_code,
)

__all__ = ["Verdict", "verdict"]


class Verdict(Enum):
    """What it means.

    Attributes:
        FINE: No error.
        UNKNOWN: Not a member any more, or of no known id.
        STALE: A member, of an older generation.
        REBALANCE: A rebalance is under way.
        MOVED: Another broker coordinates the group; the membership stays.
        WAIT: Ask the same again later; COORDINATOR_LOAD_IN_PROGRESS, for one.
        FENCED: Another consumer has this instance id.
        TELL: Nothing that a member can cure: the application must know.
    """

    FINE = auto()
    UNKNOWN = auto()
    STALE = auto()
    REBALANCE = auto()
    MOVED = auto()
    WAIT = auto()
    FENCED = auto()
    TELL = auto()


_VERDICTS: Final[Mapping[int, Verdict]] = {
    NoError.errno: Verdict.FINE,
    UnknownMemberIdError.errno: Verdict.UNKNOWN,
    IllegalGenerationError.errno: Verdict.STALE,
    RebalanceInProgressError.errno: Verdict.REBALANCE,
    NotCoordinatorError.errno: Verdict.MOVED,
    CoordinatorNotAvailableError.errno: Verdict.MOVED,
    FencedInstanceIdError.errno: Verdict.FENCED,
}


def verdict(code: int) -> Verdict:
    """The table's row, or by whether a retry may cure the error."""
    retriable = issubclass(for_code(code), RetriableError)
    return _VERDICTS.get(code, Verdict.WAIT if retriable else Verdict.TELL)
