"""The broker of a world: groups, and what the Rust side does for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.steps import Arrived, Forget, Publish, Reply, SessionExpired, Ticked
from thalweg.errors import NotCoordinatorError

if TYPE_CHECKING:
    from tests.coordinator.classic.world import World

VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "LeaveGroup": 5, "Heartbeat": 4, "OffsetCommit": 9}
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED = 25, 22, 27, 82


class Broker:
    """Groups, and what the Rust side does for them: heartbeats, sessions, commits."""

    def __init__(self, world: World, settings: GroupSettings) -> None:
        self.world = world
        ids = itertools.count(1)
        self.groups = Groups(settings, lambda: f"{next(ids):04}")
        self.view: dict[str, Any] = {"state": "Empty", "epoch": 0, "members": {}}
        self.generations: list[int] = []  # those that became stable
        self.accepted: list[tuple[str, int]] = []
        self.down = False  # responds with NOT_COORDINATOR
        self._deadlines: dict[str, float] = {}
        self._replies: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._tokens = itertools.count(1)
        self._tick_at: float | None = None

    def request(
        self,
        api: str,
        body: dict[str, Any],
        reply: Callable[[dict[str, Any]], None],
        version: int | None = None,
        client_id: str = "client",
    ) -> None:
        if self.down:
            reply({"ErrorCode": NotCoordinatorError.errno, "Assignment": b""})
        elif api == "Heartbeat":
            reply({"ErrorCode": self._heartbeat(body)})
        elif api == "OffsetCommit":
            reply({"ErrorCode": self._commit(body)})
        else:
            token = next(self._tokens)
            self._replies[token] = reply
            number = VERSIONS[api] if version is None else version
            self._step(Arrived(token, api, number, body, client_id, "/127.0.0.1"))

    def _member(self, body: dict[str, Any]) -> tuple[dict[str, Any] | None, int]:
        """Applies the rules of `ClassicGroup.validateMember` to the view."""
        members = self.view["members"]
        instance = body.get("GroupInstanceId")
        if instance is not None:
            now_id = [m for m, row in members.items() if row["instance_id"] == instance]
            if not now_id:
                return None, UNKNOWN_MEMBER_ID
            if now_id[0] != body["MemberId"]:
                return None, FENCED
        row = members.get(body["MemberId"])
        if row is None:
            return None, UNKNOWN_MEMBER_ID
        return (row, 0) if row["epoch"] == body["GenerationId"] else (None, ILLEGAL_GENERATION)

    def _heartbeat(self, body: dict[str, Any]) -> int:
        row, code = self._member(body)
        if row is None:
            return code
        self._deadlines[body["MemberId"]] = self.world.now + row["session_timeout_ms"]
        return row["heartbeat"]

    def _commit(self, body: dict[str, Any]) -> int:
        row, code = self._member(body)
        if row is None:
            return code
        if self.view["state"] == "CompletingRebalance":
            return REBALANCE_IN_PROGRESS
        self.world.laws.committed(body)
        self.accepted.append((body["MemberId"], body["GenerationId"]))
        return 0

    def _step(self, event: Any) -> None:
        for action in self.groups.step(event, self.world.now):
            match action:
                case Publish(view):
                    self._publish(view)
                case Reply(token, body):
                    self._replies.pop(token)(body)
                case Forget():
                    self._publish({"state": "Dead", "epoch": 0, "members": {}})
        self._wind_up()

    def _publish(self, view: dict[str, Any]) -> None:
        old, self.view = self.view, view
        self.world.laws.changed()
        for member_id, row in view["members"].items():
            before = old["members"].get(member_id)
            if not row["watched"]:
                self._deadlines.pop(member_id, None)
            elif before is None or not before["watched"]:
                self._deadlines[member_id] = self.world.now + row["session_timeout_ms"]
        for member_id in list(self._deadlines):
            if member_id not in view["members"]:
                del self._deadlines[member_id]
        if view["state"] == "Stable" and (
            not self.generations or self.generations[-1] != view["epoch"]
        ):
            self.generations.append(view["epoch"])

    def _wind_up(self) -> None:
        """Sets the timer for the next deadline of groups or sessions."""
        due = [self.groups.next_deadline(), *self._deadlines.values()]
        first = min((each for each in due if each is not None), default=None)
        if first is None or (self._tick_at is not None and self._tick_at <= first):
            return
        self._tick_at = first
        self.world.later(max(first - self.world.now, 0), self._tick)

    def _tick(self) -> None:
        self._tick_at = None
        for member_id, due in list(self._deadlines.items()):
            if due <= self.world.now and member_id in self._deadlines:
                del self._deadlines[member_id]
                self._step(SessionExpired(member_id, self.view["group_id"]))
        self._step(Ticked())
