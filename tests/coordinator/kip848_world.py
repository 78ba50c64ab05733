"""Consumers of KIP-848's protocol and their broker in virtual time, with faults from a seed.

    App ── polls, callbacks ──> ConsumerMember ──> Heartbeater (as the I/O thread does it)
                                      │                  │
                                      └── Connection ────┘──> Broker ──> ConsumerGroup

A connection keeps the order of one client's requests, as TCP does. Kafka's protocol needs that: a
late report would give away partitions that the member has got since. A connection delays, stalls,
duplicates, and breaks with everything in flight. Requests of different clients have no order.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.codes import COORDINATOR_AWAY
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
from thalweg.coordinator.kip848.heartbeats import ConsumerMemberSettings
from thalweg.coordinator.kip848.member import ConsumerMember
from thalweg.coordinator.kip848.roster import ConsumerGroupMember
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.coordinator.steps import (
    Answered,
    Arrived,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    Fail,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
    MemberAction,
    OldHeartbeatsAnswered,
    Polled,
    PollExpired,
    Publish,
    Reply,
    Revoke,
    Send,
    SessionExpired,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    WatchTopics,
)
from thalweg.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from thalweg.structs import TopicPartition

SESSION_MS = 10_000
HEARTBEAT_MS = 1_000
REQUEST_TIMEOUT_MS = 3_000
MAX_POLL_MS = 15_000
JOIN = 0  # the epoch of a member that joins
AWAY = -2  # the epoch of a static member that leaves for a while

# The fields of a heartbeat that is answered without the group.
_PLAIN = {"GroupId", "MemberId", "MemberEpoch", "InstanceId"}
# The schema's defaults, which the codec would set.
_DEFAULTS: dict[str, Any] = {
    "InstanceId": None,
    "RackId": None,
    "RebalanceTimeoutMs": -1,
    "SubscribedTopicNames": None,
    "SubscribedTopicRegex": None,
    "ServerAssignor": None,
    "TopicPartitions": None,
}
Done = Callable[[dict[str, Any] | None, KafkaError | None], None]


def filled(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a heartbeat as the codec decodes it."""
    return _DEFAULTS | dict(body)


class Clock:
    """Virtual time: runs what is due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (max(when, self.now), self._count, what))

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, what = heapq.heappop(self._due)
            what()
        self.now = until


@dataclass
class Faults:
    """The rates of faults per request. With all at 0 there are none."""

    breaks: float = 0.0
    stalls: float = 0.0
    doubles: float = 0.0
    delay_ms: float = 5.0


class Broker:
    """One group, and what Rust does for it: sessions, plain heartbeats, commits."""

    def __init__(self, clock: Clock, topics: dict[str, int], settings: ConsumerGroupSettings):
        self.clock = clock
        self.topics = dict(topics)
        self.ids = {name: f"id-{name}" for name in topics}
        self.group = self._new_group(settings)
        self.settings = settings
        self.view: dict[str, Any] = {"members": {}}
        self.deadlines: dict[str, float] = {}
        self.away_until = 0.0
        self.away_code = NotCoordinatorError.errno
        self.asked = 0  # heartbeats that reached the group
        self.watchers: list[Callable[[], None]] = []

    def _new_group(self, settings: ConsumerGroupSettings) -> ConsumerGroup:
        return ConsumerGroup("g", settings, lambda: "made", self.topics_changed())

    def topics_changed(self) -> TopicsChanged:
        return TopicsChanged(dict(self.topics), {}, dict(self.ids))

    def heartbeat(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.clock.now < self.away_until:
            return self._said(self.away_code)
        member = self.view["members"].get(body["MemberId"])
        if member is not None and body["MemberEpoch"] >= 0:
            self._watch(body["MemberId"])
        epoch = body["MemberEpoch"]
        plain = body.keys() <= _PLAIN and member is not None and epoch == member["epoch"]
        if plain and member["heartbeat"] == 0 and body["InstanceId"] == member["instance_id"]:
            return self._said(0, body["MemberId"], epoch)
        self.asked += 1
        event = Arrived(1, "ConsumerGroupHeartbeat", 1, filled(body), "client", "/host")
        returns = Return.of(self.group, body)
        answer = self.step(event)
        assert answer is not None
        if returns is not None:
            returns.check(self.group, answer)
        if answer["ErrorCode"] == 0 and answer["MemberEpoch"] > 0:
            self._watch(answer["MemberId"])
        return answer

    def _said(self, code: int, member_id: str | None = None, epoch: int = 0) -> dict[str, Any]:
        return {
            "ErrorCode": code,
            "ErrorMessage": None,
            "MemberId": member_id,
            "MemberEpoch": epoch,
            "HeartbeatIntervalMs": self.settings.heartbeat_interval_ms,
            "Assignment": None,
        }

    def commit(self, member_id: str, epoch: int, partitions: frozenset[IdPartition]) -> int:
        """Returns the error code of a commit, decided by the view (KIP-1251)."""
        if self.clock.now < self.away_until:
            return self.away_code
        member = self.view["members"].get(member_id)
        if member is None:
            return UnknownMemberIdError.errno
        names = {topic_id: name for name, topic_id in self.ids.items()}
        epochs = member["assignment_epochs"]

        def is_good(topic_id: str, partition: int) -> bool:
            assigned_at = epochs.get(names.get(topic_id), {}).get(partition)
            return assigned_at is not None and assigned_at <= epoch <= member["epoch"]

        good = epoch == member["epoch"] or all(is_good(*each) for each in partitions)
        return 0 if good else StaleMemberEpochError.errno

    def go_away(self, ms: float, code: int) -> None:
        """Moves the coordinator: the new one loads the group's state, and sessions restart."""
        self.away_until, self.away_code = self.clock.now + ms, code
        for member_id in self.deadlines:
            self._watch(member_id, ms)

    def change_topics(self, topics: dict[str, int], ids: dict[str, str] | None = None) -> None:
        self.topics = dict(topics)
        self.ids = ids or {name: self.ids.get(name, f"id-{name}") for name in topics}
        self.step(self.topics_changed())

    def step(self, event: Any) -> dict[str, Any] | None:
        reply = None
        for action in self.group.step(event, self.clock.now):
            match action:
                case Publish(view=view):
                    assert view != self.view
                    self.view = view
                    gone = self.deadlines.keys() - view["members"].keys()
                    self.deadlines = {k: v for k, v in self.deadlines.items() if k not in gone}
                case Reply(body=body):
                    reply = body
        deadline = self.group.next_deadline()
        if deadline is not None:
            self.clock.at(deadline, self._tick)
        for watcher in self.watchers:
            watcher()
        return reply

    def _tick(self) -> None:
        deadline = self.group.next_deadline()
        if deadline is not None and deadline <= self.clock.now:
            self.step(Ticked())

    def _watch(self, member_id: str, longer_ms: float = 0.0) -> None:
        deadline = self.clock.now + self.settings.session_timeout_ms + longer_ms
        self.deadlines[member_id] = deadline

        def expire() -> None:
            if self.deadlines.get(member_id) == deadline:
                del self.deadlines[member_id]
                self.step(SessionExpired(member_id))

        self.clock.at(deadline, expire)


@dataclass
class Return:
    """A static member returns within its session, and no other member may notice (KIP-345).

    Attributes:
        old_id: The ID of the member that left for a while.
        epoch: The group's epoch.
        target: Its partitions in the target assignment.
        others: The other members, with their partitions.
    """

    old_id: str
    epoch: int
    target: frozenset[IdPartition]
    others: dict[str, ConsumerGroupMember]

    @classmethod
    def of(cls, group: ConsumerGroup, body: Mapping[str, Any]) -> Return | None:
        """Returns a Return if the heartbeat is one and no assignment is due anyway."""
        instance_id = body.get("InstanceId")
        if instance_id is None or body["MemberEpoch"] != JOIN:
            return None
        left, due = group.roster.static(instance_id), group.epoch > group.assignment_epoch
        if left is None or left.current.epoch != AWAY or due:
            return None
        if set(body["SubscribedTopicNames"]) != left.topics:
            return None
        target = group.roster.targets.get(left.member_id, frozenset())
        return cls(left.member_id, group.epoch, target, cls._but(group, left.member_id))

    @staticmethod
    def _but(group: ConsumerGroup, member_id: str) -> dict[str, ConsumerGroupMember]:
        return {key: each for key, each in group.roster.members.items() if key != member_id}

    def check(self, group: ConsumerGroup, answer: Mapping[str, Any]) -> None:
        """Checks the group after the heartbeat."""
        assert answer["ErrorCode"] == 0, answer
        assert group.epoch == group.assignment_epoch == self.epoch
        assert group.roster.targets.get(answer["MemberId"], frozenset()) == self.target
        assert self._but(group, answer["MemberId"]) == self.others


class Connection:
    """Carries requests of one client in order, see the module."""

    def __init__(self, clock: Clock, chance: random.Random, faults: Faults) -> None:
        self.clock, self.chance, self.faults = clock, chance, faults
        self._number = 0
        self._last_there = 0.0
        self._last_back = 0.0
        self._open: dict[int, Done] = {}
        self._calls = 0

    def call(self, serve: Callable[[], dict[str, Any]], done: Done, timeout_ms: float) -> None:
        self._calls += 1
        call, number = self._calls, self._number
        self._open[call] = done
        if self.chance.random() < self.faults.stalls:
            self._last_there = self.clock.now + self.chance.uniform(0, 2 * REQUEST_TIMEOUT_MS)
        self._last_there = max(self._last_there, self.clock.now + self._delay())
        doubled = self.chance.random() < self.faults.doubles
        breaks = self.chance.random() < self.faults.breaks

        def arrive() -> None:
            if number != self._number:
                return
            answer = serve()
            if doubled:
                serve()  # nothing waits for its response
            if breaks:
                self.drop()
                return
            self._last_back = max(self._last_back, self.clock.now + self._delay())
            self.clock.at(self._last_back, lambda: self._back(number, call, answer))

        self.clock.at(self._last_there, arrive)
        self.clock.at(self.clock.now + timeout_ms, lambda: self._time_out(call))

    def _delay(self) -> float:
        return self.chance.uniform(0.1, self.faults.delay_ms)

    def _back(self, number: int, call: int, answer: dict[str, Any]) -> None:
        if number == self._number and call in self._open:
            self._open.pop(call)(answer, None)

    def _time_out(self, call: int) -> None:
        if call in self._open:
            self._open.pop(call)(None, KafkaTimeoutError("no answer"))
            self.drop()

    def drop(self) -> None:
        """Breaks the connection: everything in flight is lost, in both directions."""
        self._number += 1
        self._last_there = self._last_back = 0.0
        calls, self._open = self._open, {}
        for done in calls.values():
            done(None, KafkaConnectionError("broken"))

    def forget(self) -> None:
        """The process died: nothing waits for responses any more."""
        self._number += 1
        self._open = {}


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
    def old_is_under_way(self) -> bool:
        return self._in_flight is not None and self._in_flight < self._generation

    def take_notable(self) -> list[HeartbeatAnswered]:
        told, self._notable = self._notable, []
        return [HeartbeatAnswered(a, e, order == self._generation) for a, e, order in told]

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
        self.client.call(body, lambda a, e: self._answered(body, generation, a, e))

    def _answered(
        self,
        sent: dict[str, Any],
        generation: int,
        answer: dict[str, Any] | None,
        error: KafkaError | None,
    ) -> None:
        self._in_flight = None
        good = answer is not None and answer["ErrorCode"] == 0
        news = not good or (
            answer is not None
            and (answer["MemberEpoch"] != sent["MemberEpoch"] or answer["Assignment"] is not None)
        )
        current = generation == self._generation
        if news and (good or current):
            self._notable = [*self._notable[-15:], (answer, error, generation)]
        if self.order is None:
            return
        if not current:
            self._arm(self._due or self.clock.now)
        elif good and answer is not None:
            self.interval_ms = answer["HeartbeatIntervalMs"] or self.interval_ms
            self.body["MemberEpoch"] = max(self.body["MemberEpoch"], answer["MemberEpoch"])
            self._arm(self.clock.now + self.interval_ms)
        elif answer is None or answer["ErrorCode"] in COORDINATOR_AWAY:
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
            self.client.call(dict(body), lambda _answer, _error: None)

        self.clock.at(self.polled_at + order.max_poll_interval_ms, look)


@dataclass
class Owned:
    """The owner of a partition, as the consumer sees it, and whether the group still knows it."""

    client: Client
    member_id: str


@dataclass
class World:
    """The clock, the broker and the clients, and the invariants."""

    seed: int
    topics: dict[str, int]
    faults: Faults = field(default_factory=Faults)
    assignor: str | None = None
    assignment_interval_ms: int = 0

    def __post_init__(self) -> None:
        self.settings = ConsumerGroupSettings(
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            assignment_interval_ms=self.assignment_interval_ms,
        )
        self.chance = random.Random(self.seed)
        self.clock = Clock()
        self.broker = Broker(self.clock, self.topics, self.settings)
        self.broker.watchers.append(self._targets_changed)
        self.clients: list[Client] = []
        self.excluded: set[tuple[str, TopicPartition]] = set()
        self.commits = {0: 0}
        self.assigned = 0
        self._seen_epoch = 0

    def client(self, topics: set[str], **options: Any) -> Client:
        client = Client(self, f"m{len(self.clients)}", frozenset(topics), **options)
        self.clients.append(client)
        return client

    def run(self, ms: float) -> None:
        self.clock.run(self.clock.now + ms)

    def change_topics(self, topics: dict[str, int], ids: dict[str, str] | None = None) -> None:
        self.broker.change_topics(topics, ids)
        self.note_excluded()
        for client in self.living:
            client.topics_changed()

    @property
    def living(self) -> list[Client]:
        return [each for each in self.clients if each.alive]

    # ------------------------------------------------------------------ the invariants

    @property
    def in_group(self) -> list[Client]:
        """Returns the clients that the group has as members. A removed one may not know it yet."""
        members = self.broker.group.roster.members
        known = {key for key, each in members.items() if each.current.epoch != AWAY}
        return [each for each in self.living if each.member.member_id in known]

    def check_owners(self) -> None:
        """Checks that no partition has two owners."""
        owners: dict[IdPartition, str] = {}
        for client in self.in_group:
            for each in client.owned_ids:
                other = owners.setdefault(each, client.member.member_id)
                assert other == client.member.member_id, f"{each}: {other} and {client.name}"

    def _targets_changed(self) -> None:
        if self.broker.group.assignment_epoch != self._seen_epoch:
            self._seen_epoch = self.broker.group.assignment_epoch
            self.note_excluded()

    def note_excluded(self) -> None:
        """Records what an assignment takes from owners: only these partitions may be revoked."""
        group = self.broker.group
        names = {topic_id: name for name, topic_id in self.broker.ids.items()}
        for client in self.living:
            if client.member.member_id not in group.roster.members:
                continue
            target = group.roster.targets.get(client.member.member_id, frozenset())
            wanted = {TopicPartition(names[i], p) for i, p in target if i in names}
            for each in client.owned - wanted:
                self.excluded.add((client.member.member_id, each))

    def check_revoked(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        for each in partitions:
            key = client.member.member_id, each
            left_out = each.topic not in client.topics
            assert left_out or key in self.excluded, f"{client.name} kept {each}, yet revoked it"
            self.excluded.discard(key)

    def check_converged(self) -> None:
        """Checks that all members are stable and own exactly their target assignment."""
        group = self.broker.group
        members = [each for each in self.living if each.subscribed and each.failed is None]
        assert set(group.roster.members) == {each.member.member_id for each in members}
        for client in members:
            member = client.member
            assert member.state is ConsumerMemberState.STABLE, (client.name, member.state)
            known = group.roster.members[member.member_id].current
            assert member.generation == known.epoch == group.assignment_epoch
            assert client.owned == set(member.assignment)
            assert known.assigned == group.roster.targets[member.member_id]
            names = {topic_id: name for name, topic_id in self.broker.ids.items()}
            assert client.owned == {TopicPartition(names[i], p) for i, p in known.assigned}
        wanted = {
            TopicPartition(topic, partition)
            for topic, count in self.broker.topics.items()
            if any(topic in each.topics for each in members)
            for partition in range(count)
        }
        assert {each for client in members for each in client.owned} == wanted
        assert group.state == ("Stable" if members else "Empty")


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
        self._answers: list[Answered] = []
        self._pause_until = 0.0
        self._is_due = True  # its next poll has something to handle
        self._awaits_old_heartbeats = False
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
        self._is_due = True
        self._do(self.member.step(Subscribed(self.topics), self.clock.now))

    def topics_changed(self) -> None:
        self._is_due = True
        self._do(self.member.step(self.world.broker.topics_changed(), self.clock.now))

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
        told = self.heartbeater.has_news or self._answers or self._awaits_old_heartbeats
        if not (told or is_late or self._is_due):
            return
        self._is_due = False
        notable = self.heartbeater.take_notable()
        for old in (each for each in notable if not each.is_current):
            self._step(old)
        if self.heartbeater.expired:
            self.heartbeater.expired = False
            self._step(PollExpired())
        answers, self._answers = self._answers, []
        for answer in answers:
            self._step(answer)
        for current in (each for each in notable if each.is_current):
            self._step(current)
        if self._awaits_old_heartbeats and not self.heartbeater.old_is_under_way:
            self._awaits_old_heartbeats = False
            self._step(OldHeartbeatsAnswered())
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
                case WatchTopics():
                    self.topics_changed()
                case Fail(error=error):
                    self.failed = error
        if callbacks:
            self._run(callbacks)

    def _send(self, token: int, body: Any, timeout_ms: float) -> None:
        def done(answer: dict[str, Any] | None, error: KafkaError | None) -> None:
            self._answers.append(Answered(token, answer, error))
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

        self.connection.call(serve, lambda _answer, _error: None, REQUEST_TIMEOUT_MS)
