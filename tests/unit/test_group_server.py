"""The thread of an embedded broker's groups: a fault in one request ends none of the others."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from thalweg._group_server import GroupServer
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.steps import Arrived


class Native:
    """Hands events over in turn, and keeps the answers."""

    def __init__(self, *events: Any) -> None:
        self.events = [[each] for each in events]
        self.answers: dict[int, Any] = {}

    def _serve_groups(self) -> None:
        pass

    def _group_options(self) -> dict[str, str]:
        return defaultdict(lambda: "1000")

    def _broker_now_ms(self) -> float:
        return 0.0

    def _next_group_events(self, timeout_ms: float | None) -> list[Any] | None:
        return self.events.pop(0) if self.events else None

    def _answer_group_request(self, token: int, body: Any) -> bool:
        self.answers[token] = body
        if body is None:
            raise TypeError("a body is a dict")
        return True

    def _publish_group(self, view: Any, at_ms: float) -> None:
        pass

    def _forget_group(self, group_id: str) -> None:
        pass


def leave(token: int) -> tuple[Any, ...]:
    body = {"GroupId": "g", "Members": [{"MemberId": "m"}]}
    return ("request", token, "LeaveGroup", 5, "c", "/127.0.0.1", 1.0, "g", body, None)


def test_a_fault_in_one_request_is_answered_and_the_next_one_served(monkeypatch):
    served = Groups.step

    def step(self: Groups, event: Any, now: float) -> Any:
        if isinstance(event, Arrived) and event.token == 1:
            raise ZeroDivisionError
        return served(self, event, now)

    monkeypatch.setattr(Groups, "step", step)
    native = Native(leave(1), leave(2))
    server = GroupServer(native)
    server.start()
    server.join()
    assert native.answers[1] is None, "the broker makes an error of it"
    assert native.answers[2]["Members"][0]["ErrorCode"] == 25
