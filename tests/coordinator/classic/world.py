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
from typing import Any

from tests.coordinator.classic.broker import Broker
from tests.coordinator.classic.client import Client, wants_poll
from tests.coordinator.classic.laws import Laws
from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.states import MemberState
from thalweg.structs import TopicPartition


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
