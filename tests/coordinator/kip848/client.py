"""A process with one consumer in a world: polls, callbacks that take time, commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.coordinator.kip848.connection import REQUEST_TIMEOUT_MS, Connection, Done
from tests.coordinator.kip848.heartbeater import Heartbeater
from thalweg.coordinator.kip848.heartbeats import ConsumerMemberSettings
from thalweg.coordinator.kip848.member import ConsumerMember
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.steps import (
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    Fail,
    Heartbeats,
    Lose,
    MemberAction,
    OldHeartbeatsDone,
    Polled,
    PollExpired,
    Responded,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    WatchTopics,
)
from thalweg.errors import KafkaError
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.kip848.world import World

MAX_POLL_MS = 15_000


class Client:
    """A process with one consumer: polls, callbacks that take time, commits."""

    def __init__(self, world: World, name: str, topics: frozenset[str], **options: Any) -> None:
        self.world, self.name, self.topics = world, name, topics
        self.clock, self.chance = world.clock, world.chance
        self.polls_every_ms: float = options.pop("polls_every_ms", 100.0)
        self.waits: bool = options.pop("waits", True)
        settings = ConsumerMemberSettings(
            group_id="g",
            member_id=name,
            server_assignor=world.assignor,
            max_poll_interval_ms=MAX_POLL_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            **options,
        )
        self.member = ConsumerMember(settings, lambda: 1.0)
        self.connection = Connection(world.clock, world.chance, world.faults)
        self.heartbeater = Heartbeater(self)
        self.alive = True
        self.busy = False  # in a callback
        self.subscribed = True
        self.owned: set[TopicPartition] = set()
        self.failed: KafkaError | None = None
        self.log: list[MemberAction] = []
        self.lost: list[TopicPartition] = []
        self._responses: list[Responded] = []
        self._pause_until = 0.0
        self._is_due = True  # its next poll has something to handle
        self._awaits_old_heartbeats = False
        self._watched_ids: frozenset[str] = frozenset()
        self._named_by_id: set[str] = set()
        self.topics_changed()
        self._do(self.member.step(Subscribed(topics), self.clock.now))
        self.heartbeater.polled_at = self.clock.now
        self._poll_later()

    # ------------------------------------------------------------------ calls of the test

    def crash(self) -> None:
        self.alive = self.subscribed = False
        self.owned.clear()
        self.heartbeater.stop()
        self.connection.forget()

    def close(self, leave: bool = True) -> None:
        self.subscribed = False
        self._do(self.member.step(Closed(leave), self.clock.now))

    def pause(self, ms: float) -> None:
        """The application does other work for that time."""
        self._pause_until = self.clock.now + ms

    def resubscribe(self, topics: set[str]) -> None:
        self.topics = frozenset(topics)
        self.world.note_left_out(self)
        self._do(self.member.step(Subscribed(self.topics), self.clock.now))
        self.topics_changed()

    def topics_changed(self) -> None:
        """Passes on the topics that the driver looks for: subscribed, watched and owned ones."""
        self._is_due = True
        there = self.world.broker.topics_changed()
        self._named_by_id |= {name for name, key in there.ids.items() if key in self._watched_ids}
        wanted = self.topics | self._named_by_id | {each.topic for each in self.owned}
        partitions = {name: n for name, n in there.partitions.items() if name in wanted}
        ids = {name: key for name, key in there.ids.items() if name in wanted}
        self._do(self.member.step(TopicsChanged(partitions, {}, ids), self.clock.now))

    def call(
        self, body: dict[str, Any], done: Done, timeout_ms: float = REQUEST_TIMEOUT_MS
    ) -> None:
        self.connection.call(lambda: self.world.broker.heartbeat(body), done, timeout_ms)

    @property
    def owned_ids(self) -> frozenset[IdPartition]:
        """Returns what it owns, by topic ID: a topic created again has other partitions."""
        found = self.member._owned
        assert len(found) == len(self.owned)
        return found

    # ------------------------------------------------------------------ the application

    def _poll_later(self) -> None:
        self.clock.at(
            self.clock.now + self.chance.uniform(0.5, 1.5) * self.polls_every_ms, self._poll
        )

    def _poll(self) -> None:
        if not self.alive:
            return
        if self.clock.now < self._pause_until:
            self.clock.at(self._pause_until, self._poll)
            return
        if not self.busy:
            self._drive()
            self._commit()
        self._poll_later()

    def _drive(self) -> None:
        """Runs the driver's part of a poll, which returns at once if nothing has happened."""
        self.heartbeater.polled_at = self.clock.now
        deadline = self.member.next_deadline()
        is_late = deadline is not None and deadline <= self.clock.now
        told = self.heartbeater.has_news or self._responses or self._awaits_old_heartbeats
        if not (told or is_late or self._is_due):
            return
        self._is_due = False
        notable = self.heartbeater.take_notable()
        for old in (each for each in notable if not each.is_current):
            self._step(old)
        if self.heartbeater.expired:
            self.heartbeater.expired = False
            self._step(PollExpired())
        responses, self._responses = self._responses, []
        for response in responses:
            self._step(response)
        for current in (each for each in notable if each.is_current):
            self._step(current)
        if self._awaits_old_heartbeats and not self.heartbeater.old_is_in_flight:
            self._awaits_old_heartbeats = False
            self._step(OldHeartbeatsDone())
        deadline = self.member.next_deadline()
        if deadline is not None and deadline <= self.clock.now:
            self._step(Ticked())
        self._step(Polled())

    def _step(self, event: Any) -> None:
        self._do(self.member.step(event, self.clock.now))

    def _do(self, actions: list[MemberAction]) -> None:
        self.log += actions
        callbacks = []
        for action in actions:
            match action:
                case Send(token=token, body=body, timeout_ms=timeout_ms):
                    self._send(token, body, timeout_ms)
                case Heartbeats():
                    self.heartbeater.start(action)
                    self._awaits_old_heartbeats = True
                case StopHeartbeats():
                    self.heartbeater.stop()
                case AutoCommit() | Revoke() | Lose() | Assign():
                    callbacks.append(action)
                case WatchTopics(ids=ids):
                    self._watched_ids = ids
                    self.topics_changed()
                case Fail(error=error):
                    self.failed = error
        if callbacks:
            self._run(callbacks)

    def _send(self, token: int, body: Any, timeout_ms: float) -> None:
        def done(response: dict[str, Any] | None, error: KafkaError | None) -> None:
            self._responses.append(Responded(token, response, error))
            free = not self.busy and self.clock.now >= self._pause_until and self.alive
            if self.waits and free:
                self.clock.at(self.clock.now + 1, self._woken)

        self.call(dict(body), done, timeout_ms)

    def _woken(self) -> None:
        """Ends a poll that waits, because a response arrived."""
        if self.alive and not self.busy and self.clock.now >= self._pause_until:
            self._drive()

    def _run(self, callbacks: list[Any]) -> None:
        self.busy = True
        for action in callbacks:
            match action:
                case AutoCommit():
                    self._commit()
                case Lose(partitions=partitions):
                    self.world.check_lost(self, partitions)
                case Assign(assigned=assigned, added=added):
                    self.world.assigned += len(added)
                    assert self.owned.isdisjoint(added)
                    self.owned |= set(added)
                    assert self.owned == set(assigned)
                    self.world.check_owners()
                    self.world.note_excluded()  # the target may have changed meanwhile
        took_ms = self.chance.choice([0.0, 1.0, self.chance.uniform(0, 3_000)])
        self.clock.at(self.clock.now + took_ms, lambda: self._ran(callbacks))

    def _ran(self, callbacks: list[Any]) -> None:
        if not self.alive:
            return
        for action in callbacks:
            match action:
                case Revoke(partitions=partitions):
                    if self.subscribed:
                        self.world.check_revoked(self, partitions)
                    assert self.owned >= set(partitions)
                    self.owned -= set(partitions)
                case Lose(partitions=partitions):
                    self.lost += partitions
                    assert self.owned >= set(partitions)
                    self.owned -= set(partitions)
        self.busy = False
        self._step(CallbacksDone())

    def _commit(self) -> None:
        """Commits what it owns. If the broker accepts, no other member owns it."""
        if not self.owned or self.member.commit_refusal() is not None:
            return
        member_id, epoch, owned = self.member.member_id, self.member.generation, self.owned_ids

        def serve() -> dict[str, Any]:
            code = self.world.broker.commit(member_id, epoch, owned)
            self.world.commits[code] = self.world.commits.get(code, 0) + 1
            if code == 0:
                known = self.world.broker.group.roster.members[member_id]
                assert known.current.epoch >= epoch
                for other in self.world.in_group:
                    if other is not self:
                        assert owned.isdisjoint(other.owned_ids), "a commit of an earlier owner"
            return {"ErrorCode": code}

        self.connection.call(serve, lambda _response, _error: None, REQUEST_TIMEOUT_MS)
