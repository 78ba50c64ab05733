"""Waits for a condition with a limit, in place of a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    limit: float = 30.0,
    *,
    every: float = 0.02,
    what: str | Callable[[], str] = "the condition",
) -> T:
    """Polls `condition` until it is true and returns its value.

    Args:
        condition: called repeatedly. A truthy result ends the wait.
        limit: seconds after which the wait fails. A call that begins after that is the last one.
        every: seconds between two calls.
        what: the text for the error. A function is called only when the wait has failed.

    Raises:
        TimeoutError: the limit passed first.
    """
    deadline = time.monotonic() + limit
    while True:
        # Before the call: a process that was suspended calls once more after its pause.
        is_last = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if is_last:
            name = what() if callable(what) else what
            raise TimeoutError(f"{name} did not come true within {limit} s (last value: {value!r})")
        time.sleep(every)
