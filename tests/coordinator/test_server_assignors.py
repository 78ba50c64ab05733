"""The broker's assignors, range and uniform."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import java
from tests.support.scale import scaled
from thalweg.coordinator.assignors.server import (
    ASSIGNORS,
    AssignedMember,
    assign_range,
    assign_uniform,
)
from thalweg.coordinator.kip848.topic_ids import IdPartition

Members = dict[str, AssignedMember]


def member(topics: str, partitions: str = "", instance_id: str | None = None) -> AssignedMember:
    """Makes a member: in `member("tu", "t0 t1")` each topic has one letter."""
    owned = frozenset(IdPartition(each[0], int(each[1:])) for each in partitions.split())
    return AssignedMember(frozenset(topics), instance_id, owned)


def shown(assignment: Mapping[str, frozenset[IdPartition]]) -> dict[str, str]:
    return {
        key: " ".join(f"{topic}{partition}" for topic, partition in sorted(each))
        for key, each in assignment.items()
    }


def test_range_divides_topics_alike_so_that_members_can_join_them():
    members = {"b": member("tu"), "a": member("tu")}
    found = shown(assign_range(members, {"t": 3, "u": 3}))
    assert found == {"a": "t0 t1 u0 u1", "b": "t2 u2"}


def test_range_gives_a_returned_static_member_its_old_place():
    before = {"x": member("t", instance_id="i1"), "m": member("t", instance_id="i2")}
    after = {"z": member("t", instance_id="i1"), "m": member("t", instance_id="i2")}
    one, two = assign_range(before, {"t": 4}), assign_range(after, {"t": 4})
    assert (one["x"], one["m"]) == (two["z"], two["m"])


def test_uniform_moves_no_more_than_it_has_to():
    members = {"a": member("t", "t0 t1 t2 t3"), "b": member("t")}
    found = shown(assign_uniform(members, {"t": 4}))
    assert found == {"a": "t0 t1", "b": "t2 t3"}


def test_uniform_passes_partitions_on_along_a_chain():
    """`a` has two more than `c`, but only `b` reads topics of both."""
    members = {
        "a": member("t", "t0 t1 t2"),
        "b": member("tu", "u0 u1"),
        "c": member("u", "u2"),
    }
    found = assign_uniform(members, {"t": 3, "u": 3})
    assert sorted(len(each) for each in found.values()) == [2, 2, 2]
    moved = sum(len(found[key] - members[key].partitions) for key in members)
    assert moved == 2


def test_uniform_looks_once_for_takers_of_members_that_are_even_already():
    """The thread that serves an embedded broker's groups computes it, and others must wait."""
    members = {f"m{number}": member("tuvw") for number in range(800)}
    began = time.monotonic()
    found = assign_uniform(members, dict.fromkeys("tuvw", 800))
    assert time.monotonic() - began < 30, "far less; a search for each member takes a minute"
    assert {len(each) for each in found.values()} == {4}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_and_nothing_are_assigned_to_nobody(name):
    assign = ASSIGNORS[name]
    assert assign({}, {"t": 3}) == {}
    assert assign({"a": member("t")}, {}) == {"a": frozenset()}
    assert assign({"a": member("")}, {"t": 3}) == {"a": frozenset()}
    assert assign({"a": member("t", "t7")}, {"t": 1}) == {"a": {IdPartition("t", 0)}}


def random_members(chance: random.Random, topics: Mapping[str, int], alike: bool) -> Members:
    names = sorted(topics)
    one = frozenset(chance.sample(names, chance.randint(1, len(names))))
    free = [IdPartition(topic, each) for topic in names for each in range(topics[topic])]
    chance.shuffle(free)
    members = {}
    for number in range(chance.randint(1, 12)):
        mine = one if alike else frozenset(chance.sample(names, chance.randint(1, len(names))))
        taken = [free.pop() for _ in range(chance.randint(0, 5)) if free]
        instance_id = f"i{number % 7}{number}" if chance.random() < 0.3 else None
        kept = frozenset(each for each in taken if each.topic_id in mine)
        members[f"m{number:02}"] = AssignedMember(mine, instance_id, kept)
    return members


@settings(max_examples=scaled(5_000, 100), deadline=None)
@given(seed=st.integers(0, 2**32), alike=st.booleans())
def test_each_partition_has_one_reader_and_uniform_is_as_even_as_can_be(seed, alike):
    chance = random.Random(seed)
    topics = {str(each): chance.randint(1, 9) for each in range(chance.randint(1, 5))}
    members = random_members(chance, topics, alike)
    for name, assign in ASSIGNORS.items():
        found = assign(members, topics)
        given_out = [each for part in found.values() for each in part]
        assert len(given_out) == len(set(given_out)), name
        read = {topic for each in members.values() for topic in each.topic_ids}
        assert set(given_out) == {
            IdPartition(topic, each) for topic in read for each in range(topics[topic])
        }
        assert all(each.topic_id in members[key].topic_ids for key in found for each in found[key])
    found = assign_uniform(members, topics)
    assert not improvable(found, members)
    assert assign_uniform(dict(reversed(members.items())), topics) == found, "order of members"
    again = {key: AssignedMember(members[key].topic_ids, None, found[key]) for key in members}
    assert assign_uniform(again, topics) == found, "what is even stays as it is"


def improvable(found: Mapping[str, frozenset[IdPartition]], members: Members) -> bool:
    """Whether a chain of members leads from one to another with two partitions fewer."""
    near = {
        giver: {
            taker
            for taker in members
            if any(each.topic_id in members[taker].topic_ids for each in found[giver])
        }
        for giver in members
    }
    for start in members:
        seen, todo = {start}, [start]
        while todo:
            new = near[todo.pop()] - seen
            seen |= new
            todo += new
        if any(len(found[start]) - len(found[end]) >= 2 for end in seen):
            return True
    return False


def fewest_moves(members: Members, topics: Mapping[str, int]) -> int:
    """Returns how many partitions must move in a group of equal subscriptions."""
    (subscribed,) = {each.topic_ids for each in members.values()}
    total = sum(count for topic, count in topics.items() if topic in subscribed)
    quota, extra = divmod(total, len(members))
    sizes = sorted((len(each.partitions) for each in members.values()), reverse=True)
    return sum(
        max(0, size - quota - (place < extra)) for place, size in enumerate(sizes) if size > quota
    )


@settings(max_examples=scaled(5_000, 100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_with_equal_subscriptions_only_the_surplus_moves(seed):
    chance = random.Random(seed)
    topics = {str(each): chance.randint(1, 9) for each in range(chance.randint(1, 5))}
    members = random_members(chance, topics, alike=True)
    found = assign_uniform(members, topics)
    lost = sum(len(members[key].partitions - found[key]) for key in members)
    assert lost == fewest_moves(members, topics)


def spoken(name: str, members: Members, topics: Mapping[str, int]) -> str:
    """Returns a line of ServerAssignors' input."""
    counts = ",".join(f"{topic}={count}" for topic, count in topics.items())
    rows = (
        "/".join(
            (
                key,
                each.instance_id or "",
                "+".join(sorted(each.topic_ids)),
                "+".join(f"{topic}:{partition}" for topic, partition in sorted(each.partitions)),
            )
        )
        for key, each in members.items()
    )
    return f"{name};{counts};{','.join(rows)}"


def heard(line: str) -> dict[str, frozenset[IdPartition]]:
    """Parses a line of its output."""
    found = {}
    for row in line.split(","):
        key, _, partitions = row.partition("/")
        pairs = (each.split(":") for each in partitions.split("+") if each)
        found[key] = frozenset(IdPartition(topic, int(partition)) for topic, partition in pairs)
    return found


def test_kafkas_own_assignors_decide_the_same():
    """Range is equal in each partition. Uniform is as even, with no more moves than Kafka's."""
    chance = random.Random(5)
    cases = []
    for number in range(scaled(5_000, 400)):
        topics = {str(each): chance.choice([3, 3, chance.randint(1, 9)]) for each in range(1, 5)}
        cases.append((topics, random_members(chance, topics, alike=number % 2 == 0)))
    lines = [spoken(name, each[1], each[0]) for name in ASSIGNORS for each in cases]
    classes = java.compiled("ServerAssignors")
    output = java.run("ServerAssignors", classes=classes, stdin="\n".join(lines) + "\n")
    theirs = [heard(line) for line in output.splitlines()]
    for (name, (topics, members)), their in zip(
        itertools.product(ASSIGNORS, cases), theirs, strict=True
    ):
        our = ASSIGNORS[name](members, topics)
        if name == "range":
            assert our == their, spoken(name, members, topics)
            continue
        our_loads, their_loads = (
            sorted(len(each) for each in found.values()) for found in (our, their)
        )
        spread = sum(each * each for each in our_loads), sum(each * each for each in their_loads)
        assert spread[0] <= spread[1], spoken(name, members, topics)
        if len({each.topic_ids for each in members.values()}) == 1:
            assert our_loads == their_loads
            moves = [
                sum(len(members[key].partitions - found[key]) for key in members)
                for found in (our, their)
            ]
            assert moves[0] <= moves[1], spoken(name, members, topics)
