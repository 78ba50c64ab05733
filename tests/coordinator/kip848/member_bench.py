"""A member of KIP-848's protocol whose group is the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.coordinator.kip848.member import ConsumerMember, ConsumerMemberSettings
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    CallbacksDone,
    HeartbeatResponded,
    Heartbeats,
    MemberAction,
    MemberEvent,
    OldHeartbeatsDone,
    Polled,
    Responded,
    Send,
    StopHeartbeats,
    Subscribed,
    TopicsChanged,
)
from thalweg.structs import TopicPartition

IDS = {"t": "T", "u": "U"}


def partitions(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each[0], int(each[1:])) for each in text.split())


def rows(text: str) -> list[dict[str, Any]]:
    """Parses partitions: `rows("T0 T1")` in the form of a request."""
    topics: dict[str, list[int]] = {}
    for each in text.split():
        topics.setdefault(each[0], []).append(int(each[1:]))
    return [{"TopicId": topic, "Partitions": each} for topic, each in topics.items()]


def response(epoch: int = 0, assigned: str | None = None, code: int = 0) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "ErrorMessage": None,
        "MemberId": "m",
        "MemberEpoch": epoch,
        "HeartbeatIntervalMs": 5_000,
        "Assignment": None if assigned is None else {"TopicPartitions": rows(assigned)},
    }


class Talk:
    """A member, the time, and the last report that it sent.

    A repeated heartbeat that the report replaces gets its response at once, unless `lingers`.
    """

    def __init__(self, *, known: bool = True, **options: Any) -> None:
        settings = ConsumerMemberSettings(group_id="g", member_id="m", **options)
        self.member = ConsumerMember(settings, lambda: 1.0)
        self.now = 1_000.0
        self.sent: Send | None = None
        self.repeated: Heartbeats | None = None
        self.lingers = False
        if known:
            self.step(TopicsChanged({"t": 9, "u": 9}, {}, IDS))

    def step(self, event: MemberEvent) -> list[MemberAction]:
        actions = self.member.step(event, self.now)
        if not self.lingers and any(isinstance(each, Heartbeats) for each in actions):
            actions += self.member.step(OldHeartbeatsDone(), self.now)
        for action in actions:
            if isinstance(action, Send):
                self.sent = action
            if isinstance(action, Heartbeats):
                self.repeated = action
            if isinstance(action, StopHeartbeats):
                self.repeated = None
        return actions

    def responds(self, *args: Any, **kwargs: Any) -> list[MemberAction]:
        assert self.sent is not None
        return self.step(Responded(self.sent.token, response(*args, **kwargs)))

    def hears(self, *args: Any, is_current: bool = True, **kwargs: Any) -> list[MemberAction]:
        """Handles a response to a repeated heartbeat, current or not."""
        return self.step(HeartbeatResponded(response(*args, **kwargs), is_current=is_current))

    def polls(self) -> list[MemberAction]:
        return self.step(Polled())

    @property
    def body(self) -> Mapping[str, Any]:
        assert self.sent is not None
        assert isinstance(self.sent.body, Mapping)
        return self.sent.body

    def is_in(self, state: ConsumerMemberState) -> bool:
        return self.member.state is state


def joined(assigned: str = "T0 T1 T2 T3", **options: Any) -> Talk:
    """Makes a stable member at epoch 2."""
    talk = Talk(**options)
    talk.step(Subscribed(frozenset("tu")))
    talk.responds(2, assigned)
    talk.polls()
    talk.step(CallbacksDone())
    if assigned:
        talk.responds(2, assigned)
    assert talk.is_in(ConsumerMemberState.STABLE)
    return talk


def kinds(actions: list[MemberAction]) -> list[type]:
    return [type(each) for each in actions]
