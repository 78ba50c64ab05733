"""Consumers of KIP-848's protocol and their broker in virtual time, with faults from a seed.

    App ── polls, callbacks ──> ConsumerMember ──> Heartbeater (as the I/O thread does it)
                                      │                  │
                                      └── Connection ────┘──> Broker ──> ConsumerGroup

The world checks that no partition has two owners, and that members give up only what an assignment
takes from them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.coordinator.kip848.broker import AWAY, Broker
from tests.coordinator.kip848.client import Client
from tests.coordinator.kip848.connection import Clock, Faults
from thalweg.coordinator.kip848.group import ConsumerGroupSettings
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.states import ConsumerMemberState
from thalweg.structs import TopicPartition

SESSION_MS = 10_000
HEARTBEAT_MS = 1_000


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

    def note_left_out(self, client: Client) -> None:
        """Records what a new subscription takes, although a later one may include it again."""
        for each in client.owned:
            if each.topic not in client.topics:
                self.excluded.add((client.member.member_id, each))

    def check_revoked(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        for each in partitions:
            key = client.member.member_id, each
            left_out = each.topic not in client.topics
            assert left_out or key in self.excluded, f"{client.name} kept {each}, yet revoked it"
            self.excluded.discard(key)

    def check_lost(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        """Checks that a member loses only partitions of deleted topics. It commits the others."""
        if client.member.commit_refusal() is not None:
            return  # it is no longer a member
        names = {topic_id: name for name, topic_id in self.broker.ids.items()}
        there = {TopicPartition(names[i], p) for i, p in client.owned_ids if i in names}
        assert there.isdisjoint(partitions), f"{client.name} lost {partitions}"

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
