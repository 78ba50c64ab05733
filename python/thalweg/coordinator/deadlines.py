"""Deadlines by name. Finding the earliest one does not search the others."""

import heapq
from typing import Final

__all__ = ["Deadlines"]

_STALE_MAX: Final = 64  # stale entries that are kept whatever the number of deadlines


class Deadlines:
    """At most one deadline for each name.

    It is a heap with lazy deletion. The old entry of a changed deadline stays in the heap until it
    reaches the top, or until most of the heap is stale.
    """

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, time: float | None) -> None:
        """Sets the deadline of a name. None removes it."""
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
        """Returns the earliest deadline, or None."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[str]:
        """Returns the names whose deadlines have passed, earliest first. It removes none."""
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
