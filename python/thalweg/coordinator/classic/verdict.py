"""The meaning of the coordinator's error codes for a classic member, as one table."""

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
    """The meaning of an error code.

    Attributes:
        FINE: No error.
        UNKNOWN: The group does not know the member, or no longer does.
        STALE: The generation is not the current one.
        REBALANCE: A rebalance is in progress.
        MOVED: Another broker is the coordinator. The membership stays.
        WAIT: Retry at the same broker later, for example after COORDINATOR_LOAD_IN_PROGRESS.
        FENCED: Another consumer uses this instance id.
        TELL: The member cannot cure it: the application must know.
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
    """Returns the table's row. Other codes: WAIT if the error is retriable, else TELL."""
    retriable = issubclass(for_code(code), RetriableError)
    return _VERDICTS.get(code, Verdict.WAIT if retriable else Verdict.TELL)
