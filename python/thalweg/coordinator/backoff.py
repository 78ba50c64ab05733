"""How long to wait before a request is tried again."""

from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """Waits that double with each failure, up to a limit (KIP-580)."""

    def __init__(self, first_ms: float, max_ms: float, jitter: Callable[[], float]) -> None:
        """Takes the first and the greatest wait, and what each is multiplied with (0.8 to 1.2)."""
        self.failures = 0
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._jitter = jitter

    def reset(self) -> None:
        """After a success."""
        self.failures = 0

    def failed(self) -> float:
        """Counts a failure; the wait in ms."""
        doublings = min(self.failures, 32)
        self.failures += 1
        return min(self._first_ms * 2.0**doublings, self._max_ms) * self._jitter()
