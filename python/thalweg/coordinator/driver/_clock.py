"""The driver's clock: ms of a monotonic clock, as in the state machines."""

import time
from collections.abc import Iterable

__all__ = ["now_ms", "soonest"]


def now_ms() -> float:
    """Returns the time in ms. It never decreases."""
    return time.monotonic() * 1000


def soonest(times: Iterable[float | None]) -> float | None:
    """Returns the earliest of the times that are not None, or None."""
    return min((each for each in times if each is not None), default=None)
