"""Many members and one broker in virtual time, over a network that loses, delays and duplicates.

    Client ── ClassicMember, its driver, Rust's heartbeats ──┐
    Client ──────────────────────────────────────────────────┼── Network ── Broker: Groups, and
    Client ──────────────────────────────────────────────────┘              Rust's view table

One seeded random source decides everything, so that a seed reproduces a failure. `Laws` checks the
invariants at each event.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.classic.member import ClassicMember, MemberSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.states import MemberState
from thalweg.coordinator.steps import (
    Answered,
    Arrived,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitAnswered,
    Fail,
    Forget,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
    Polled,
    PollExpired,
    Publish,
    Raise,
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
)
from thalweg.structs import TopicPartition

GROUP = "group"
VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "LeaveGroup": 5, "Heartbeat": 4, "OffsetCommit": 9}
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED = 25, 22, 27, 82


def wants_poll(member: ClassicMember) -> bool:
    """Whether a Polled event would lead to callbacks or a rebalance."""
    rebalance = member._rebalance
    if member._after_callbacks is not None or rebalance.topics is None:
        return False
    if rebalance.is_lost() or rebalance.synced is not None:
        return True
    return not rebalance.is_prepared and rebalance.needed(member.state) is not None


class World:
    """The time, the broker and the clients."""

    def __init__(
        self, seed: int, settings: GroupSettings | None = None, polls_every_ms: float = 200
    ) -> None:
        self.now = 0.0
        self.polls_every_ms = polls_every_ms
        self.random = random.Random(seed)
        self.faulty = False
        self.topics: dict[str, int] = {"t": 12}
        self.laws = Laws(self)
        self.broker = Broker(self, settings or GroupSettings())
        self.clients: list[Client] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def later(self, ms: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + ms, next(self._order), do))

    def run(self, ms: float) -> None:
        end = self.now + ms
        while self._heap and self._heap[0][0] <= end:
            self.now, _, do = heapq.heappop(self._heap)
            do()
            self.laws.check()
        self.now = end

    def run_until(self, done: Callable[[], bool], limit_ms: float) -> None:
        end = self.now + limit_ms
        while not done():
            assert self.now < end, self.picture()
            self.run(100)

    def join(self, **options: Any) -> Client:
        client = Client(self, **options)
        self.clients.append(client)
        return client

    def deliver(self, do: Callable[[], None], fail: Callable[[], None]) -> None:
        """Delivers a request or response, or calls `fail` if the connection breaks, or drops it."""
        dice = self.random.random() if self.faulty else 1.0
        if dice < 0.03:
            return
        if dice < 0.08:
            self.later(self.random.uniform(1, 50), fail)
            return
        delays = [self.random.uniform(0.2, 2)]
        if dice < 0.2:
            delays[0] = self.random.uniform(1, 3000)
        elif dice < 0.28:
            delays.append(self.random.uniform(1, 3000))
        for delay in delays:
            self.later(delay, do)

    def change_topic(self, topic: str, partitions: int) -> None:
        self.topics[topic] = partitions
        for client in self.clients:
            client.hear_of_topics()

    def live(self) -> list[Client]:
        return [each for each in self.clients if each.alive]

    def settled(self) -> bool:
        """Whether all living clients are members, and each partition has an owner."""
        owned = sorted(p for each in self.live() for p in each.assignment)
        wanted = sorted(
            TopicPartition(topic, number)
            for topic, count in self.topics.items()
            if any(topic in each.topics for each in self.live())
            for number in range(count)
        )
        return self.at_rest() and owned == wanted

    def at_rest(self) -> bool:
        """Whether the current generation has exactly the living clients, and all of them poll."""
        view = self.broker.view
        live = self.live()
        if any(each.polled_at < each.stalled_until for each in live):
            return False
        ids = {each.member.member_id for each in live}
        if not live:
            return not view["members"] and view["state"] == "Empty"
        if view["state"] != "Stable" or set(view["members"]) != ids or len(ids) < len(live):
            return False
        return all(
            each.member.state is MemberState.STABLE
            and each.member.generation == view["epoch"]
            and not wants_poll(each.member)
            for each in live
        )

    def picture(self) -> str:
        rows = [
            f"{each.name} {each.member.state} {each.member.member_id!r} {each.member.generation}"
            f" {[p.partition for p in each.assignment]} wants_poll={wants_poll(each.member)}"
            f" stalled_until={each.stalled_until}"
            for each in self.live()
        ]
        return "\n".join([f"at {self.now}: {self.broker.view}", *rows])


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
        self._sent_number = self._join_heard = 0
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
                self.assignment = assigned
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

        def answer(got: dict[str, Any]) -> None:
            def arrive() -> None:
                if order == self._beat_number:
                    self._admit(action.heartbeats, got)
                self.tell(Answered(action.token, got))

            self.world.deliver(arrive, broken)

        def broken() -> None:
            self.tell(Answered(action.token, None, KafkaConnectionError("gone")))

        def late() -> None:
            self.tell(Answered(action.token, None, KafkaTimeoutError("late")))

        self._deliver(action.api, body, answer, broken)
        self.world.later(action.timeout_ms, late)

    def _deliver(self, api: str, body: Any, answer: Any, broken: Any) -> None:
        broker = self.world.broker
        self._sent_number += 1
        number = self._sent_number

        def arrive() -> None:
            if api == "JoinGroup":
                # A JoinGroup that arrives after a later one of its member would undo the owned
                # partitions of the later one. Neither Kafka's coordinator nor ours can detect it.
                # On one connection it does not happen.
                if number < self._join_heard:
                    return
                self._join_heard = number
            before = broker.view
            broker.request(api, body, answer)
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

        def answer(got: dict[str, Any]) -> None:
            if got["ErrorCode"]:
                self.tell(CommitAnswered(got["ErrorCode"], said.generation_id))

        self._deliver("OffsetCommit", body, answer, lambda: None)

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

        def answer(got: dict[str, Any]) -> None:
            def arrive() -> None:
                if self._beats is beats and number == self._beat_number and got["ErrorCode"]:
                    self.tell(HeartbeatAnswered(got))

            self.world.deliver(arrive, lambda: None)

        self._deliver(beats.api, beats.body, answer, lambda: None)
        self.world.later(beats.interval_ms, lambda: self._beat(number))


class Laws:
    """The invariants."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._shares: dict[tuple[int, str], tuple[TopicPartition, ...]] = {}
        self._latest: dict[TopicPartition, int] = {}
        self._is_stale = False

    def assigned(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        """Checks one owner per partition and generation.

        A static member is the same under a new ID.
        """
        generation = client.member.generation
        who = client.settings.group_instance_id or client.member.member_id
        share = self._shares.setdefault((generation, who), partitions)
        assert set(share) == set(partitions), f"{who} in {generation}: {share}, {partitions}"
        for each in partitions:
            owner = self._owners.setdefault((generation, each), who)
            assert owner == who, f"{each} in generation {generation}: {owner} and {who}"
            self._latest[each] = max(generation, self._latest.get(each, -1))

    def callbacks(self, client: Client, actions: list[Any], generation: int) -> None:
        """Checks that cooperative members give up only partitions that move."""
        if not client.cooperative or client.closing:
            return
        revoked = [p for each in actions if isinstance(each, Revoke) for p in each.partitions]
        kept = [p for each in actions if isinstance(each, Assign) for p in each.assigned]
        if kept or any(isinstance(each, Assign) for each in actions):
            assert not set(revoked) & set(kept)
        else:
            assert not any(p.topic in client.topics for p in revoked)

    def committed(self, body: dict[str, Any]) -> None:
        """Checks that no member commits a partition that moved in a later generation."""
        for each in body["partitions"]:
            assert body["GenerationId"] >= self._latest.get(each, -1), f"{each}: {body}"

    def joined_anew(
        self, instance: str | None, before: dict[str, Any], after: dict[str, Any]
    ) -> None:
        """Checks that a static member's return within its session causes no rebalance (KIP-345)."""
        held = {row["instance_id"] for row in before["members"].values()} - {None}
        if instance not in held or before["state"] != "Stable":
            return
        assert (after["state"], after["epoch"]) == ("Stable", before["epoch"]), instance
        others = [
            {key: row for key, row in view["members"].items() if row["instance_id"] != instance}
            for view in (before, after)
        ]
        assert others[0] == others[1], instance

    def changed(self) -> None:
        """Called when an assignment, generation or membership of a client changes."""
        self._is_stale = True

    def check(self) -> None:
        """Checks that no two members of the group's generation own the same partition."""
        if not self._is_stale:
            return
        self._is_stale = False
        view = self.world.broker.view
        owners: dict[TopicPartition, Client] = {}
        for client in self.world.clients:
            row = view["members"].get(client.member.member_id)
            if not client.alive or row is None or client.member.generation != row["epoch"]:
                continue
            for each in client.assignment:
                other = owners.setdefault(each, client)
                assert other is client, f"{each}: {other.name} and {client.name}"
