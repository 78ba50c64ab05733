"""A member of the classic protocol whose coordinator is the test."""

from __future__ import annotations

from typing import Any

from tests.coordinator.assignors import Spread
from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    HeartbeatResponded,
    Lose,
    Polled,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    TopicsChanged,
)
from thalweg.structs import TopicPartition

UNKNOWN, ILLEGAL, REBALANCING, FENCED, ID_REQUIRED = 25, 22, 27, 82, 79
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


def parts(*numbers: int, topic: str = "t") -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, each) for each in numbers)


class Bench:
    """A member whose coordinator is the test."""

    def __init__(self, *assignors: Any, topics: tuple[str, ...] = ("t",), **options: Any) -> None:
        settings = MemberSettings("g", **options)
        self.member = ClassicMember(settings, assignors or (Spread(),), lambda: 1.0)
        self.now = 0.0
        self.tell(Subscribed(frozenset(topics)))
        self.tell(TopicsChanged(dict.fromkeys(topics, 4), {}))

    def tell(self, event: Any) -> list[Any]:
        return self.member.step(event, self.now)

    def poll(self) -> list[Any]:
        """Runs a complete poll, with callbacks that are done at once."""
        done: list[Any] = []
        events: list[Any] = [Polled()]
        while events:
            actions = self.tell(events.pop())
            done += actions
            if any(isinstance(each, AutoCommit | Revoke | Lose | Assign) for each in actions):
                events.append(CallbacksDone())
        return done

    def respond(self, send: Send, **body: Any) -> list[Any]:
        return self.tell(Responded(send.token, {"ErrorCode": 0, **body}))

    def error(self, send: Send, code: int) -> list[Any]:
        return self.respond(send, ErrorCode=code, MemberId="", Assignment=b"")

    def join(self) -> Any:
        return sent(self.poll(), "JoinGroup")

    def joined(self, send: Send, generation: int = 1, **body: Any) -> list[Any]:
        response = {
            "GenerationId": generation,
            "ProtocolType": "consumer",
            "ProtocolName": self.member._assignors.said(frozenset(), [], -1, None)[0]["Name"],
            "Leader": "other",
            "MemberId": "m",
            "Members": [],
        }
        return self.respond(send, **response | body)

    def synced(self, send: Send, *partitions: TopicPartition) -> list[Any]:
        data = Assignment(3, list(partitions)).encode()
        return self.respond(send, Assignment=data)

    def stable(self, *partitions: TopicPartition, generation: int = 1) -> list[Any]:
        """Joins and syncs as a follower, and returns the actions of the next poll."""
        sync = sent(self.joined(self.join(), generation), "SyncGroup")
        self.synced(sync, *partitions)
        return self.poll()

    def beat(self, code: int) -> list[Any]:
        return self.tell(HeartbeatResponded({"ErrorCode": code}))


def sent(actions: list[Any], api: str) -> Any:
    """Returns the one request among the actions."""
    [found] = [each for each in actions if isinstance(each, Send)]
    assert found.api == api
    return found


def without_requests(actions: list[Any]) -> list[Any]:
    return [each for each in actions if not isinstance(each, Send | StopHeartbeats)]


def members(*rows: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"MemberId": member_id, "Metadata": Subscription(3, topics.split()).encode()}
        for member_id, topics in rows
    ]
