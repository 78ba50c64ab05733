"""Exponential backoff: how long to wait before Python sends a request again.

The requests that Rust sends again have their own: `crates/cluster/src/backoff.rs`.
"""

from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """Waits that double with each failure, up to a limit (KIP-580)."""

    def __init__(self, first_ms: float, max_ms: float, jitter: Callable[[], float]) -> None:
        """Takes the first wait, the maximum, and a function for the factor of each (0.8 to 1.2)."""
        self.failures = 0
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._jitter = jitter

    def reset(self) -> None:
        """Starts again with the first wait, after a success."""
        self.failures = 0

    def failed(self) -> float:
        """Counts a failure, and returns the wait in ms."""
        doublings = min(self.failures, 32)
        self.failures += 1
        if self._first_ms >= self._max_ms:
            # As in cluster/backoff.rs: who sets one value for both asks for exactly that wait.
            return self._max_ms
        return min(self._first_ms * 2.0**doublings * self._jitter(), self._max_ms)
