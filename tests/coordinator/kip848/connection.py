"""The time of a world, and the connections of its clients, with faults.

A connection keeps the order of one client's requests, as TCP does. Kafka's protocol needs that: a
late report would give away partitions that the member has got since. A connection delays, stalls,
duplicates, and breaks with everything in flight. Requests of different clients have no order.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thalweg.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

REQUEST_TIMEOUT_MS = 3_000
Done = Callable[[dict[str, Any] | None, KafkaError | None], None]


class Clock:
    """Virtual time: runs what is due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (max(when, self.now), self._count, what))

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, what = heapq.heappop(self._due)
            what()
        self.now = until


@dataclass
class Faults:
    """The rates of faults per request. With all at 0 there are none."""

    breaks: float = 0.0
    stalls: float = 0.0
    doubles: float = 0.0
    delay_ms: float = 5.0


class Connection:
    """Carries requests of one client in order, see the module."""

    def __init__(self, clock: Clock, chance: random.Random, faults: Faults) -> None:
        self.clock, self.chance, self.faults = clock, chance, faults
        self._number = 0
        self._last_there = 0.0
        self._last_back = 0.0
        self._open: dict[int, Done] = {}
        self._calls = 0

    def call(self, serve: Callable[[], dict[str, Any]], done: Done, timeout_ms: float) -> None:
        self._calls += 1
        call, number = self._calls, self._number
        self._open[call] = done
        if self.chance.random() < self.faults.stalls:
            self._last_there = self.clock.now + self.chance.uniform(0, 2 * REQUEST_TIMEOUT_MS)
        self._last_there = max(self._last_there, self.clock.now + self._delay())
        doubled = self.chance.random() < self.faults.doubles
        breaks = self.chance.random() < self.faults.breaks

        def arrive() -> None:
            if number != self._number:
                return
            response = serve()
            if doubled:
                serve()  # nothing waits for its response
            if breaks:
                self.drop()
                return
            self._last_back = max(self._last_back, self.clock.now + self._delay())
            self.clock.at(self._last_back, lambda: self._back(number, call, response))

        self.clock.at(self._last_there, arrive)
        self.clock.at(self.clock.now + timeout_ms, lambda: self._time_out(call))

    def _delay(self) -> float:
        return self.chance.uniform(0.1, self.faults.delay_ms)

    def _back(self, number: int, call: int, response: dict[str, Any]) -> None:
        if number == self._number and call in self._open:
            self._open.pop(call)(response, None)

    def _time_out(self, call: int) -> None:
        if call in self._open:
            self._open.pop(call)(None, KafkaTimeoutError("no response"))
            self.drop()

    def drop(self) -> None:
        """Breaks the connection: everything in flight is lost, in both directions."""
        self._number += 1
        self._last_there = self._last_back = 0.0
        calls, self._open = self._open, {}
        for done in calls.values():
            done(None, KafkaConnectionError("broken"))

    def forget(self) -> None:
        """The process died: nothing waits for responses any more."""
        self._number += 1
        self._open = {}
