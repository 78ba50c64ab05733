"""A classic group on the broker's side, and its output."""

from __future__ import annotations

import itertools
from typing import Any

from thalweg.coordinator.classic.group import ClassicGroup, GroupSettings
from thalweg.coordinator.protocol import Subscription
from thalweg.coordinator.steps import Arrived, Publish, Reply, Ticked

UNKNOWN, ILLEGAL, REBALANCING, FENCED, ID_REQUIRED = 25, 22, 27, 82, 79
INCONSISTENT, BAD_SESSION, FULL = 23, 26, 81
DELAY, REBALANCE, SESSION = 3_000, 60_000, 10_000
STRING_BYTES_MAX = 32_767  # in non-flexible versions
LONG_ID = "\N{GRINNING FACE}" * (STRING_BYTES_MAX // 4)


class Bench:
    """A group, and its output."""

    def __init__(self, **settings: Any) -> None:
        ids = itertools.count(1)
        self.now = 0.0
        self.client_id = "client"
        self.group = ClassicGroup("g", GroupSettings(**settings), lambda: f"u{next(ids)}")
        self.responses: dict[int, dict[str, Any]] = {}
        self.view: dict[str, Any] = {}
        self.actions: list[Any] = []
        self.tokens = itertools.count(1)

    def step(self, event: Any) -> None:
        self.actions = self.group.step(event, self.now)
        for action in self.actions:
            match action:
                case Reply(token, body):
                    assert token not in self.responses, "two responses"
                    self.responses[token] = body
                case Publish(view):
                    self.view = view

    def ask(self, api: str, version: int, body: dict[str, Any]) -> int:
        token = next(self.tokens)
        self.step(Arrived(token, api, version, body, self.client_id, "/127.0.0.1"))
        return token

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        version: int = 9,
        **fields: Any,
    ) -> int:
        rows = {"range": subscription("t")} if protocols is None else protocols
        body = {
            "GroupId": "g",
            "SessionTimeoutMs": SESSION,
            "RebalanceTimeoutMs": REBALANCE,
            "MemberId": member_id,
            "GroupInstanceId": instance,
            "ProtocolType": "consumer",
            "Protocols": [{"Name": n, "Metadata": m} for n, m in rows.items()],
        }
        return self.ask("JoinGroup", version, body | fields)

    def enter(self, **options: Any) -> tuple[str, int]:
        """Joins twice, as KIP-394 requires: returns the member ID and the waiting token."""
        first = self.join(**options)
        if self.responses.get(first, {}).get("ErrorCode") != ID_REQUIRED:
            return "", first
        member_id = self.responses[first]["MemberId"]
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        instance: str | None = None,
        **fields: Any,
    ) -> int:
        body = {
            "GroupId": "g",
            "GenerationId": generation,
            "MemberId": member_id,
            "GroupInstanceId": instance,
            "ProtocolType": "consumer",
            "ProtocolName": "range",
            "Assignments": [
                {"MemberId": m, "Assignment": a} for m, a in (assignments or {}).items()
            ],
        }
        return self.ask("SyncGroup", 5, body | fields)

    def leave(self, *rows: tuple[str, str | None]) -> int:
        members = [{"MemberId": m, "GroupInstanceId": i} for m, i in rows]
        return self.ask("LeaveGroup", 5, {"GroupId": "g", "Members": members})

    def tick(self, ms: float) -> None:
        """Advances the time, with a Ticked event at each deadline."""
        end = self.now + ms
        while (due := self.group.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.step(Ticked())
        self.now = end

    def code(self, token: int) -> int:
        return self.responses[token]["ErrorCode"]

    @property
    def state(self) -> str:
        return str(self.group.state)


def subscription(*topics: str) -> bytes:
    return Subscription(3, list(topics)).encode()


def stable(count: int, **settings: Any) -> tuple[Bench, list[str]]:
    """Makes a stable group of dynamic members. The first one leads."""
    bench = Bench(**settings)
    ids = [bench.enter()[0] for _ in range(count)]
    bench.tick(2 * DELAY)
    bench.sync(ids[0], 1, {each: each.encode() for each in ids})
    for each in ids[1:]:
        bench.sync(each, 1)
    assert bench.state == "Stable"
    return bench, ids


def stable_static(count: int, **settings: Any) -> tuple[Bench, list[str]]:
    bench = Bench(**settings)
    tokens = [bench.join(instance=f"i{number}") for number in range(count)]
    bench.tick(2 * DELAY)
    ids = [bench.responses[each]["MemberId"] for each in tokens]
    bench.sync(ids[0], 1, {each: each.encode() for each in ids}, instance="i0")
    for number, each in enumerate(ids[1:], 1):
        bench.sync(each, 1, instance=f"i{number}")
    assert bench.state == "Stable"
    return bench, ids


def completing() -> tuple[Bench, list[str]]:
    bench, ids = stable(2)
    bench.join(ids[0])
    bench.join(ids[1])
    assert bench.state == "CompletingRebalance"
    return bench, ids
