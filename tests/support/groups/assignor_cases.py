"""Generates random groups for tests of assignors: subscriptions, previous assignments and racks."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

from thalweg.coordinator.assignors.abstract import Member
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.protocol import Subscription, write_partitions
from thalweg.structs import TopicPartition

Racks = list[str | None]


class Case(NamedTuple):
    """One group.

    Attributes:
        seed: Generates this case again.
        assignor: The assignor's name.
        topics: {topic: for each partition the racks of its replicas}.
        members: In the order of a JoinGroup response.
        generation: The group's next generation.
    """

    seed: str
    assignor: str
    topics: dict[str, list[Racks]]
    members: list[Member]
    generation: int

    def cluster(self) -> TopicsOfGroup:
        """Returns the topics in the form that an assignor gets."""
        racks = {
            TopicPartition(topic, number): frozenset(each for each in rows if each is not None)
            for topic, partitions in self.topics.items()
            for number, rows in enumerate(partitions)
        }
        return TopicsOfGroup({topic: len(rows) for topic, rows in self.topics.items()}, racks)

    def all_partitions(self) -> list[TopicPartition]:
        """Returns all partitions that exist."""
        return [
            TopicPartition(topic, number)
            for topic, rows in self.topics.items()
            for number in range(len(rows))
        ]

    def wanted(self) -> set[TopicPartition]:
        """Returns all partitions of the topics that a member is subscribed to."""
        topics = {topic for member in self.members for topic in member.metadata.topics}
        return {each for each in self.all_partitions() if each.topic in topics}


class _Previous(NamedTuple):
    """A member's previous partitions, and the generation in which it had them."""

    partitions: list[TopicPartition]
    generation: int


def make_case(assignor: str, seed: str) -> Case:
    """Returns the case of a seed: 1 to 12 members, 1 to 8 topics with 0 to 12 partitions each.

    One case in 25 is larger, because hash tables grow at 13 entries.
    """
    rng = random.Random(seed)
    size = 4 if rng.random() < 0.04 else 1
    with_racks = rng.random() < 0.4
    racks = [f"rack-{each}" for each in range(rng.randint(1, 4))] if with_racks else []
    topics = _topics(rng, racks, size)
    ids = _member_ids(rng, size)
    wishes = _wishes(rng, ids, list(topics))
    generation = rng.randint(1, 40)
    previous = _previous(rng, topics, wishes, generation)
    members = []
    for each in ids:
        instance = f"static-{rng.randint(0, 10**6)}" if rng.random() < 0.25 else None
        rack = rng.choice([*racks, None, ""]) if racks else None
        subscription = _subscription(rng, assignor, wishes[each], previous[each], rack)
        members.append(Member(each, subscription, instance))
    return Case(seed, assignor, topics, members, generation + 1)


def _topics(rng: random.Random, racks: list[str], size: int) -> dict[str, list[Racks]]:
    names = ["orders", "a", "b.c", "Z_9", "payments-eu", *(f"t{each}" for each in range(30))]
    most = rng.choice([2, 4, 12]) * size
    same = rng.choice([None, None, rng.randint(1, most)])
    found: dict[str, list[Racks]] = {}
    replicas = rng.randint(1, 3)
    for name in rng.sample(names, rng.randint(1, 8 * size)):
        count = rng.randint(0, most) if same is None else same
        rows: list[Racks] = []
        for _ in range(count):
            choices: Racks = [*racks, None] if rng.random() < 0.1 else [*racks] or [None]
            rows.append([rng.choice(choices) for _ in range(replicas)])
        found[name] = rows
    return found


def _member_ids(rng: random.Random, size: int) -> list[str]:
    client = rng.choice(["consumer-g-1", "app", "c", "größe", "\U0001f40d", "\uffe5"])
    found = []
    for number in range(rng.randint(1, 12 * size)):
        tail = f"{rng.getrandbits(128):032x}" if rng.random() < 0.7 else str(number)
        found.append(f"{client}-{tail}")
    rng.shuffle(found)
    return list(dict.fromkeys(found))


def _wishes(rng: random.Random, ids: list[str], topics: list[str]) -> dict[str, list[str]]:
    if rng.random() < 0.5:
        same = rng.sample(topics, rng.randint(1, len(topics)))
        return {each: rng.sample(same, len(same)) for each in ids}
    least = 1 if rng.random() < 0.8 else 0
    names = topics if rng.random() < 0.8 else [*topics, "unknown"]
    return {each: rng.sample(names, rng.randint(least, len(names))) for each in ids}


def _previous(
    rng: random.Random,
    topics: dict[str, list[Racks]],
    wishes: dict[str, list[str]],
    generation: int,
) -> dict[str, _Previous]:
    """Returns previous assignments: none, a valid one, or what stale and faulty members report."""
    ids = list(wishes)
    had: dict[str, list[TopicPartition]] = {each: [] for each in ids}
    generations = dict.fromkeys(ids, generation)
    kind = rng.choice(["new", "sane", "sane", "joined", "wild"])
    if kind != "new":
        old = ids if kind == "sane" else rng.sample(ids, rng.randint(1, len(ids)))
        for topic, rows in topics.items():
            for number in range(len(rows)):
                owners = [each for each in old if topic in wishes[each]] if kind != "wild" else old
                if owners and rng.random() < 0.9:
                    had[rng.choice(owners)].append(TopicPartition(topic, number))
    if kind == "wild":
        partitions = [each for found in had.values() for each in found]
        for each in ids:
            age = rng.choice([0, 0, 1, 2, None])
            generations[each] = -1 if age is None else generation - age
            if partitions and rng.random() < 0.5:
                had[each] += rng.sample(partitions, rng.randint(1, min(6, len(partitions))))
            if rng.random() < 0.1:
                had[each].append(TopicPartition("gone", 1))
            rng.shuffle(had[each])
            had[each] = list(dict.fromkeys(had[each]))
    return {each: _Previous(had[each], generations[each]) for each in ids}


def _subscription(
    rng: random.Random, assignor: str, topics: list[str], previous: _Previous, rack: str | None
) -> Subscription:
    version = 3 if rng.random() < 0.8 else rng.randint(0, 2)
    owned, generation = previous
    data: bytes | None = None
    if assignor == "sticky":
        data, owned = _sticky_data(rng, previous), []
        if not data:
            generation = -1
    elif assignor == "cooperative-sticky":
        data = rng.choice([struct.pack(">i", generation)] * 4 + [None, b"", b"\0"])
    subscription = Subscription(version, topics, data, owned, generation, rack or None)
    return Subscription.decode(subscription.encode())


def _sticky_data(rng: random.Random, previous: _Previous) -> bytes | None:
    if not previous.partitions and rng.random() < 0.5:
        return rng.choice([None, b""])
    by_topic = sorted(previous.partitions, key=lambda each: each.topic)
    forms = [write_partitions(by_topic) + struct.pack(">i", previous.generation)] * 8
    return rng.choice([*forms, write_partitions(by_topic), b"\0\0\1"])
