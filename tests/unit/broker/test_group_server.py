"""The thread that serves an embedded broker's groups: its order, and what a fault stops."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from thalweg.broker._group_server import GroupServer
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.steps import Arrived, Publish, Reply

UNFIT = {"MemberId": "x" * 40_000}


class Native:
    """Returns events, one list at a time, and keeps the responses."""

    def __init__(self, *events: list[Any], now_ms: float = 0.0) -> None:
        self.events = list(events)
        self._now_ms = now_ms
        self.responses: dict[int, Any] = {}
        self.views: list[Any] = []

    def serve(self) -> None:
        pass

    def options(self) -> dict[str, str]:
        return defaultdict(lambda: "1000")

    def now_ms(self) -> float:
        return self._now_ms

    def next_events(self, timeout_ms: float | None) -> list[Any] | None:
        return self.events.pop(0) if self.events else None

    def respond(self, token: int, body: Any) -> bool:
        self.responses[token] = body
        if body is None:
            raise TypeError("a body is a dict")
        if body == UNFIT:
            raise ValueError("the body does not fit")
        return True

    def publish(self, view: Any, at_ms: float) -> None:
        self.views.append(view)

    def forget(self, group_id: str) -> None:
        pass


def leave(token: int, at_ms: float = 1.0) -> tuple[Any, ...]:
    body = {"GroupId": "g", "Members": [{"MemberId": "m"}]}
    return ("request", token, "LeaveGroup", 5, "c", "/127.0.0.1", "User:u", at_ms, "g", body, None)


def serve(native: Native) -> None:
    """Runs the thread until it has handled all events."""
    server = GroupServer(native)
    server.start()
    server.join()


def test_a_fault_in_one_request_gets_a_response_and_the_next_one_is_served(monkeypatch):
    served = Groups.step

    def step(self: Groups, event: Any, now: float) -> Any:
        if isinstance(event, Arrived) and event.token == 1:
            raise ZeroDivisionError
        return served(self, event, now)

    monkeypatch.setattr(Groups, "step", step)
    native = Native([leave(1)], [leave(2)])
    serve(native)
    assert native.responses[1] is None, "the broker makes an error of it"
    assert native.responses[2]["Members"][0]["ErrorCode"] == 25


def test_a_response_that_fits_no_schema_holds_up_no_other_of_its_step(monkeypatch):
    actions = [Reply(1, UNFIT), Publish({"group_id": "g"}), Reply(2, {"MemberId": "m"})]
    monkeypatch.setattr(Groups, "step", lambda *_: actions)
    native = Native([leave(1)])
    serve(native)
    assert native.views == [{"group_id": "g"}]
    assert native.responses[2] == {"MemberId": "m"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, float]]:
    """The steps as requests' tokens and "tick", each with its time. A timer is due at 5.0."""
    done: list[tuple[Any, float]] = []

    def step(self: Groups, event: Any, now: float) -> list[Any]:
        done.append((event.token if isinstance(event, Arrived) else "tick", now))
        return []

    def next_deadline(self: Groups) -> float | None:
        return None if "tick" in dict(done) else 5.0

    monkeypatch.setattr(Groups, "step", step)
    monkeypatch.setattr(Groups, "next_deadline", next_deadline)
    return done


def test_requests_that_came_before_a_timer_was_due_are_served_before_it(steps):
    """It does not matter how late the thread gets the GIL, or in how many lists they arrive."""
    serve(Native([leave(1, 1.0)], [leave(2, 2.0), leave(3, 3.0)], [], now_ms=10.0))
    assert steps == [(1, 1.0), (2, 2.0), (3, 3.0), ("tick", 10.0)]


def test_requests_that_come_without_end_hold_up_no_timer(steps):
    serve(Native([leave(1, 4.0)], [leave(2, 6.0)], [leave(3, 7.0)], now_ms=10.0))
    assert steps == [(1, 4.0), (2, 6.0), ("tick", 6.0), (3, 7.0)]
