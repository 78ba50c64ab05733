"""Does what the I/O thread of a consumer does with heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.support.codes import COORDINATOR_AWAY
from thalweg.coordinator.steps import HeartbeatResponded, Heartbeats
from thalweg.errors import KafkaError

if TYPE_CHECKING:
    from tests.coordinator.kip848.client import Client


class Heartbeater:
    """Does what the I/O thread does with Heartbeats, see `_core.Consumer._heartbeat`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.clock = client.clock
        self.order: Heartbeats | None = None
        self.body: dict[str, Any] = {}
        self.interval_ms = 0.0
        self._notable: list[tuple[dict[str, Any] | None, KafkaError | None, int]] = []
        self.expired = False
        self.polled_at = 0.0
        self._due: float | None = None
        self._generation = 0
        self._in_flight: int | None = None

    @property
    def has_news(self) -> bool:
        return bool(self._notable) or self.expired

    @property
    def old_is_in_flight(self) -> bool:
        return self._in_flight is not None and self._in_flight < self._generation

    def take_notable(self) -> list[HeartbeatResponded]:
        told, self._notable = self._notable, []
        return [HeartbeatResponded(a, e, order == self._generation) for a, e, order in told]

    def start(self, order: Heartbeats) -> None:
        last = None if self.order is None else self._due
        self._generation += 1
        self.order, self.interval_ms = order, order.interval_ms
        assert isinstance(order.body, Mapping)
        self.body = dict(order.body)
        due = self.clock.now + self.interval_ms
        self._arm(due if last is None else min(last, due))
        self._watch_polls()

    def stop(self) -> None:
        self._generation += 1
        self.order = self._due = None

    def _arm(self, when: float) -> None:
        self._due = when
        self.clock.at(when, self._send_if_due)

    def _send_if_due(self) -> None:
        if self.order is None or self._due is None or self.clock.now < self._due:
            return
        if self._in_flight is not None or not self.client.alive:
            return
        self._due, self._in_flight = None, self._generation
        body, generation = dict(self.body), self._generation
        self.client.call(body, lambda a, e: self._responded(body, generation, a, e))

    def _responded(
        self,
        sent: dict[str, Any],
        generation: int,
        response: dict[str, Any] | None,
        error: KafkaError | None,
    ) -> None:
        self._in_flight = None
        good = response is not None and response["ErrorCode"] == 0
        news = not good or (
            response is not None
            and (
                response["MemberEpoch"] != sent["MemberEpoch"] or response["Assignment"] is not None
            )
        )
        current = generation == self._generation
        if news and (good or current or response is None):
            self._notable = [*self._notable[-15:], (response, error, generation)]
        if self.order is None:
            return
        if not current:
            self._arm(self._due or self.clock.now)
        elif good and response is not None:
            self.interval_ms = response["HeartbeatIntervalMs"] or self.interval_ms
            self.body["MemberEpoch"] = max(self.body["MemberEpoch"], response["MemberEpoch"])
            self._arm(self.clock.now + self.interval_ms)
        elif response is None or response["ErrorCode"] in COORDINATOR_AWAY:
            self._arm(self.clock.now + 100)

    def _watch_polls(self) -> None:
        generation, order = self._generation, self.order
        assert order is not None

        def look() -> None:
            if generation != self._generation or not self.client.alive:
                return
            late = self.polled_at + order.max_poll_interval_ms
            if self.client.busy or self.clock.now < late:
                self.clock.at(max(late, self.clock.now + 1), look)
                return
            self.stop()
            self.expired = True
            assert order.leave is not None
            body = order.leave[1]
            assert isinstance(body, Mapping)
            self.client.call(dict(body), lambda _response, _error: None)

        self.clock.at(self.polled_at + order.max_poll_interval_ms, look)
