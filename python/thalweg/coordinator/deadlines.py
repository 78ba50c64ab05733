"""Deadlines by name: the earliest one is found without a look at the others."""

import heapq
from typing import Final

__all__ = ["Deadlines"]

_STALE_MAX: Final = 64  # stale entries that are kept whatever the number of deadlines


class Deadlines:
    """One deadline for each name that has one.

    A heap with lazy deletion: a changed deadline leaves its old entry in the heap, which is dropped
    when it gets to the top, or when most of the heap is stale.
    """

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, time: float | None) -> None:
        """Sets the deadline of a name; None removes it."""
        if time == self._times.get(name):
            return
        if time is None:
            del self._times[name]
        else:
            self._times[name] = time
            heapq.heappush(self._heap, (time, name))
        if len(self._heap) > 2 * len(self._times) + _STALE_MAX:
            self._heap = [(time, name) for name, time in self._times.items()]
            heapq.heapify(self._heap)

    def first(self) -> float | None:
        """The earliest deadline."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[str]:
        """The names whose deadlines have come, the earliest first; they keep them."""
        found: dict[str, float] = {}
        while (time := self.first()) is not None and time <= now:
            _, name = heapq.heappop(self._heap)
            found[name] = time
        for name, time in found.items():
            heapq.heappush(self._heap, (time, name))
        return list(found)

    def _drop_stale(self) -> None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
