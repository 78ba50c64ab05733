"""The driver's clock: ms of a monotonic one, as the state machines are given."""

import time
from collections.abc import Iterable

__all__ = ["now_ms", "soonest"]


def now_ms() -> float:
    """Milliseconds; never steps back."""
    return time.monotonic() * 1000


def soonest(times: Iterable[float | None]) -> float | None:
    """The earliest of the times that there are."""
    return min((each for each in times if each is not None), default=None)
