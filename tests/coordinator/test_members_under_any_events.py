"""Members under events in any order, also in orders that a sane coordinator never causes.

Two things hold: no event is without a row in the table of states, and the application always hears
of its partitions in a sensible order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinator.assignors import Broken, Spread, Sticky
from tests.support.scale import scaled
from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.kip848.member import ConsumerMember, ConsumerMemberSettings
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.coordinator.states import ConsumerMemberState, MemberState
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitRefused,
    HeartbeatResponded,
    Lose,
    MemberEvent,
    OldHeartbeatsDone,
    Polled,
    PollExpired,
    Responded,
    Revoke,
    Send,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
)
from thalweg.errors import KafkaConnectionError, KafkaError
from thalweg.structs import TopicPartition

TOPICS = ("t", "u")
# Errors that are retriable, end a membership, or are for the application. The others are fatal.
CODES = (14, 15, 16, 22, 25, 27, 29, 79, 110)
FATAL_CODES = (30, 81, 82, 111, 113)


class App:
    """The application and its driver: owns partitions, runs callbacks, responds to requests."""

    def __init__(self, member: Any, response: Callable[[random.Random, Send], Any], seed: int):
        self.member = member
        self.random = random.Random(seed)
        self.owned: set[TopicPartition] = set()
        self.requests: list[Send] = []
        self.has_callbacks = False
        self.now = 0.0
        self._response = response

    def tell(self, event: MemberEvent) -> None:
        self.now += self.random.choice((0.0, 1.0, 50.0, 2_000.0))
        for action in self.member.step(event, self.now):
            match action:
                case Send():
                    self.requests.append(action)
                case Revoke(partitions) | Lose(partitions):
                    assert set(partitions) <= self.owned, f"{action} after {event}"
                    self.owned -= set(partitions)
                case Assign(assigned, added):
                    assert set(assigned) == self.owned | set(added), f"{action} after {event}"
                    assert not self.owned & set(added), f"{action} after {event}"
                    self.owned = set(assigned)
            self.has_callbacks |= isinstance(action, AutoCommit | Revoke | Lose | Assign)

    def event(self) -> MemberEvent:
        some = self.random
        names = frozenset(some.sample(TOPICS, some.randint(1, 2)))
        counts = dict.fromkeys(some.sample(TOPICS, some.randint(0, 2)), 2)
        code, epoch = self._code(), self.member.generation
        events: list[Callable[[], MemberEvent]] = [
            lambda: Subscribed(names),
            lambda: TopicsChanged(counts, {}, {name: name.upper() for name in counts}),
            Ticked,
            PollExpired,
            OldHeartbeatsDone,
            lambda: CommitRefused(code, some.choice((epoch, epoch - 1))),
            lambda: HeartbeatResponded(None, KafkaConnectionError("lost"), some.random() < 0.5),
            lambda: HeartbeatResponded(self._beaten(code), None, some.random() < 0.8),
        ]
        events += [OldHeartbeatsDone] * 4
        if some.random() < 0.05:
            events = [Unsubscribed]
        elif self.has_callbacks:
            events += [self._done] * 8
        else:
            events += [Polled] * 8
        if self.requests:
            events += [self._responded] * 12
        return some.choice(events)()

    def _done(self) -> MemberEvent:
        self.has_callbacks = False
        return CallbacksDone()

    def _responded(self) -> MemberEvent:
        request = self.requests.pop(self.random.randrange(len(self.requests)))
        if self.random.random() < 0.1:
            return Responded(request.token, None, KafkaConnectionError("lost"))
        if code := self._code():
            body = {"ErrorCode": code, "ErrorMessage": None, "MemberId": "m"}
            return Responded(request.token, body)
        return Responded(request.token, self._response(self.random, request))

    def _code(self) -> int:
        codes = (0,) * 70 + CODES * 2 + FATAL_CODES * (self.random.random() < 0.15)
        return self.random.choice(codes)

    def _beaten(self, code: int) -> dict[str, Any]:
        if isinstance(self.member, ClassicMember) or code:
            return {"ErrorCode": code, "ErrorMessage": None}
        return self._response(self.random, Send(0, "", {"MemberEpoch": self.member.generation}, 0))

    def finish(self) -> None:
        """Closes the consumer: the callbacks run, and all partitions are given up."""
        self.tell(Closed(leave=self.random.random() < 0.8))
        for _ in range(4):
            if self.has_callbacks:
                self.tell(self._done())
        assert not self.has_callbacks
        assert self.owned == set()


def classic_response(some: random.Random, request: Send) -> dict[str, Any]:
    """Returns a good response of the classic protocol, sometimes with nonsense in it."""
    if request.api == "SyncGroup":
        topics = some.sample(TOPICS, some.randint(0, 2))
        given = [TopicPartition(each, some.randrange(2)) for each in topics]
        data = some.choice((Assignment(1, given).encode(), b"", b"\xff"))
        return {"ErrorCode": 0, "ProtocolName": None, "Assignment": data}
    rows = [{"MemberId": "m", "Metadata": Subscription(1, list(TOPICS)).encode()}]
    return {
        "ErrorCode": 0,
        "GenerationId": some.randint(1, 9),
        "ProtocolType": "consumer",
        "ProtocolName": some.choice(("spread", "sticky", "none")),
        "Leader": some.choice(("m", "other")),
        "MemberId": "m",
        "Members": some.choice((rows, [{"MemberId": "m", "Metadata": b"\x00"}])),
    }


def consumer_response(some: random.Random, request: Send) -> dict[str, Any]:
    """Returns a good response to a ConsumerGroupHeartbeat."""
    assert isinstance(request.body, dict)
    epoch = max(1, request.body["MemberEpoch"] + some.choice((0, 0, 0, 1, -1)))
    names = some.sample(TOPICS, some.randint(0, 2))
    rows = [{"TopicId": each.upper(), "Partitions": [some.randrange(2)]} for each in names]
    return {
        "ErrorCode": 0,
        "ErrorMessage": None,
        "MemberId": "m",
        "MemberEpoch": epoch,
        "HeartbeatIntervalMs": 5_000,
        "Assignment": some.choice((None, {"TopicPartitions": rows})),
    }


def classic(seed: int) -> App:
    assignors: Any = ((Spread(),), (Sticky(),), (Sticky(), Spread()), (Broken(),))[seed % 4]
    instance = (None, "i")[seed // 4 % 2]
    options = MemberSettings("g", group_instance_id=instance)
    return App(ClassicMember(options, assignors, lambda: 1.0), classic_response, seed)


def kip848(seed: int) -> App:
    options = ConsumerMemberSettings("g", "m", instance_id=(None, "i")[seed % 2])
    return App(ConsumerMember(options, lambda: 1.0), consumer_response, seed)


@pytest.mark.parametrize("make", [classic, kip848])
@settings(max_examples=scaled(20_000, 100), deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 150))
def test_no_order_of_events_is_without_a_row_or_confuses_the_application(make, seed, count):
    app = make(seed)
    app.tell(Subscribed(frozenset(TOPICS)))
    app.tell(TopicsChanged(dict.fromkeys(TOPICS, 2), {}, {name: name.upper() for name in TOPICS}))
    for _ in range(count):
        app.tell(app.event())
        assert app.member.commit_refusal() is None or isinstance(
            app.member.commit_refusal(), KafkaError
        )
        assert app.member.group_metadata().group_id == "g"
    app.finish()
    ends = (MemberState.CLOSED, ConsumerMemberState.LEAVING, ConsumerMemberState.UNSUBSCRIBED)
    assert app.member.state in (*ends, ConsumerMemberState.FATAL)
