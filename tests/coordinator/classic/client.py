"""A consumer in a world: the member, its driver, and what Rust does for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitRefused,
    Fail,
    HeartbeatResponded,
    Heartbeats,
    Lose,
    Polled,
    PollExpired,
    Raise,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    WatchTopics,
)
from thalweg.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.classic.world import World

GROUP = "group"


def wants_poll(member: ClassicMember) -> bool:
    """Whether a Polled event would lead to callbacks or a rebalance."""
    rebalance = member._rebalance
    if member._after_callbacks is not None or rebalance.topics is None:
        return False
    if rebalance.is_lost() or rebalance.synced is not None:
        return True
    return not rebalance.is_prepared and rebalance.needed(member.state) is not None


class Client:
    """A consumer: the member, its driver, and what Rust does for it."""

    def __init__(
        self,
        world: World,
        assignor: Callable[[], Any],
        instance: str | None = None,
        topics: tuple[str, ...] = ("t",),
        **options: Any,
    ) -> None:
        self.world = world
        self.options = {"assignor": assignor, "instance": instance, "topics": topics, **options}
        settings = MemberSettings(
            GROUP,
            group_instance_id=instance,
            **{
                "session_timeout_ms": 10_000,
                "heartbeat_interval_ms": 1_000,
                "max_poll_interval_ms": 20_000,
                "request_timeout_ms": 5_000,
                **options,
            },
        )
        self.settings = settings
        assignors = [assignor()]
        jitter = lambda: world.random.uniform(0.8, 1.2)  # noqa: E731
        self.member = ClassicMember(settings, assignors, jitter)
        self.cooperative = 1 in assignors[0].supported_protocols()
        self.name = f"{'static ' + instance if instance else 'dynamic'} {len(world.clients)}"
        self.topics = frozenset(topics)
        self.assignment: tuple[TopicPartition, ...] = ()
        self.assigned_in = -1  # the generation of the assignment
        self.alive = True
        self.closing = False
        self.errors: list[KafkaError] = []
        self.log: list[Any] = []  # Revoke, Lose, Assign
        self.sent: list[Any] = []
        self.forgot_coordinator = 0
        self.stalled_until = 0.0
        self._inbox: list[Any] = []
        self._watched: frozenset[str] = frozenset()
        self._beats: Heartbeats | None = None
        self._beat_number = 0
        self._sent_number = self._heard = 0
        self.polled_at = world.now
        self._tick_at: float | None = None
        self.tell(Subscribed(self.topics))
        self.hear_of_topics()
        self._poll()

    # -------------------------------------------------------------- the application

    def _poll(self) -> None:
        if not self.alive:
            return
        if self.world.now >= self.stalled_until:
            self.polled_at = self.world.now
            self._drain()
            self._step(Polled())
        self.world.later(self.world.polls_every_ms, self._poll)

    def stall(self, ms: float) -> None:
        """Processes records for that time, without a poll."""
        self.stalled_until = self.world.now + ms

    def crash(self) -> None:
        self.alive = False
        self._beats = None

    def close(self, leave: bool = True) -> None:
        self.closing = True
        self._step(Closed(leave))
        self.crash()

    def subscribe(self, *topics: str) -> None:
        self.topics = frozenset(topics)
        self.tell(Subscribed(self.topics))
        self.hear_of_topics()

    def hear_of_topics(self) -> None:
        wanted = self.topics | self._watched
        known = {each: n for each, n in self.world.topics.items() if each in wanted}
        self.tell(TopicsChanged(known, {}))

    def commit(self) -> None:
        if self.member.commit_refusal() is None and self.assignment:
            self._send_commit()

    # -------------------------------------------------------------- the driver

    def tell(self, event: Any) -> None:
        """Handles an event, but only within a poll."""
        if not self.alive:
            return
        self._inbox.append(event)
        if self.world.now >= self.stalled_until:
            self.polled_at = self.world.now
            self._drain()
            self._step(Polled())

    def _drain(self) -> None:
        while self._inbox:
            self._step(self._inbox.pop(0))

    def _step(self, event: Any) -> None:
        if not self.alive:
            return
        before, member_id = self.member.generation, self.member.member_id
        actions = self.member.step(event, self.world.now)
        if (before, member_id) != (self.member.generation, self.member.member_id):
            self.world.laws.changed()
        callbacks = [each for each in actions if isinstance(each, Revoke | Lose | Assign)]
        if callbacks:
            self.world.laws.callbacks(self, callbacks, before)
        for action in actions:
            self._do(action)
        if callbacks:
            self._step(CallbacksDone())
        due = self.member.next_deadline()
        if due is not None and due != self._tick_at:
            self._tick_at = due
            self.world.later(max(0.0, due - self.world.now), lambda: self.tell(Ticked()))

    def _do(self, action: Any) -> None:
        if isinstance(action, Revoke | Lose | Assign):
            self.world.laws.changed()
        match action:
            case Send():
                self._send(action)
            case Heartbeats():
                self._repeat(action)
            case StopHeartbeats():
                self._repeat(None)
            case AutoCommit():
                self._send_commit()
            case WatchTopics(topics):
                self._watched = topics
                self.world.later(5, self.hear_of_topics)
            case Revoke(partitions) | Lose(partitions):
                self.log.append(action)
                assert set(partitions) <= set(self.assignment)
                self.assignment = tuple(p for p in self.assignment if p not in partitions)
            case Assign(assigned, added):
                self.log.append(action)
                assert set(added) == set(assigned) - set(self.assignment)
                self.assignment, self.assigned_in = assigned, self.member.generation
                self.world.laws.assigned(self, assigned)
            case Raise(error):
                self.errors.append(error)
            case Fail(error):
                self.errors.append(error)
                self._fenced()
            case _:
                self.forgot_coordinator += 1

    def _fenced(self) -> None:
        """The application gives up."""
        assert self.settings.group_instance_id is not None
        self.crash()

    def _send(self, action: Send) -> None:
        self.sent.append(action)
        body: Any = action.body
        if isinstance(body, list):
            body = body[0][1]  # the newest version

        if action.heartbeats is not None:
            self._repeat(None)
        order = self._beat_number

        def received(got: dict[str, Any]) -> None:
            def arrive() -> None:
                if order == self._beat_number:
                    self._admit(action.heartbeats, got)
                self.tell(Responded(action.token, got))

            self.world.deliver(arrive, broken)

        def broken() -> None:
            self.tell(Responded(action.token, None, KafkaConnectionError("gone")))

        def late() -> None:
            self.tell(Responded(action.token, None, KafkaTimeoutError("late")))

        self._deliver(action.api, body, received, broken)
        self.world.later(action.timeout_ms, late)

    def _deliver(self, api: str, body: Any, received: Any, broken: Any) -> None:
        broker = self.world.broker
        self._sent_number += 1
        number = self._sent_number

        def arrive() -> None:
            if api in ("JoinGroup", "SyncGroup"):
                # If a JoinGroup or its copy arrives after a later request of its member, the group
                # takes old owned partitions for those of now. Neither Kafka's coordinator nor ours
                # can detect it. On one connection it does not happen.
                if api == "JoinGroup" and number < self._heard:
                    return
                self._heard = max(number, self._heard)
            before = broker.view
            broker.request(api, body, received)
            if api == "JoinGroup" and not body["MemberId"]:
                self.world.laws.joined_anew(body.get("GroupInstanceId"), before, broker.view)

        self.world.deliver(arrive, broken)

    def _send_commit(self) -> None:
        said = self.member.group_metadata()
        body = {
            "MemberId": said.member_id,
            "GenerationId": said.generation_id,
            "GroupInstanceId": said.group_instance_id,
            "partitions": self.assignment,
        }

        def received(got: dict[str, Any]) -> None:
            if got["ErrorCode"]:
                self.tell(CommitRefused(got["ErrorCode"], said.generation_id))

        self._deliver("OffsetCommit", body, received, lambda: None)

    # -------------------------------------------------------------- Rust: heartbeats

    def _repeat(self, beats: Heartbeats | None) -> None:
        self._beats = beats
        self._beat_number += 1
        self._beat(self._beat_number)

    def _admit(self, beats: Heartbeats | None, joined: dict[str, Any]) -> None:
        """Starts heartbeats at a JoinGroup response, even if the application has not handled it."""
        if beats is not None and self.alive and not joined["ErrorCode"]:
            body: Any = beats.body
            who = {name: joined[name] for name in ("GenerationId", "MemberId")}
            self._repeat(replace(beats, body=body | who))

    def _beat(self, number: int) -> None:
        beats = self._beats
        if beats is None or number != self._beat_number or not self.alive:
            return
        if self.world.now - self.polled_at > beats.max_poll_interval_ms:
            self._beats = None
            if beats.leave is not None:
                leave: Any = beats.leave
                api, forms = leave
                self._deliver(api, forms[0][1], lambda _: None, lambda: None)
            self.tell(PollExpired())
            return

        def received(got: dict[str, Any]) -> None:
            def arrive() -> None:
                if self._beats is beats and number == self._beat_number and got["ErrorCode"]:
                    self.tell(HeartbeatResponded(got))

            self.world.deliver(arrive, lambda: None)

        self._deliver(beats.api, beats.body, received, lambda: None)
        self.world.later(beats.interval_ms, lambda: self._beat(number))
