"""Properties of assignors for any group: all is assigned, fairly, and stays with its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.coordinator.assignors import Member, RebalanceProtocol, _java_order
from thalweg.coordinator.assignors._balance import Balance
from thalweg.coordinator.assignors._claims import Claim
from thalweg.coordinator.assignors._holdings import Holdings
from thalweg.coordinator.assignors.calls import joining
from thalweg.coordinator.assignors.registry import by_name
from thalweg.coordinator.assignors.sticky import decode_user_data, encode_user_data
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.structs import TopicPartition

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
STICKY = ("sticky", "cooperative-sticky")
TOPICS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 12), min_size=1)

Assigned = dict[str, list[TopicPartition]]


class Members:
    """Members of one group, which remember their assignments and rejoin."""

    def __init__(self, name: str, topics: Mapping[str, int], racks: Any = None) -> None:
        self.topics = dict(topics)
        self.has: Assigned = {}
        self.generation = 0
        self.wishes: dict[str, list[str]] = {}
        self.racks: dict[str, str] = {}
        self._name = name
        self._replicas = racks
        self._assignors: dict[str, Any] = {}

    def join(self, member: str, topics: Sequence[str], rack: str | None = None) -> None:
        self._assignors[member] = by_name(self._name)
        self.wishes[member], self.has[member] = list(topics), []
        if rack is not None:
            self.racks[member] = rack

    def leave(self, member: str) -> None:
        for of in (self._assignors, self.wishes, self.has):
            of.pop(member)

    def rebalance(self) -> Assigned:
        """Runs one generation: all join, the leader assigns, all get their assignments."""
        cooperative = RebalanceProtocol.COOPERATIVE in self._any().supported_protocols()
        rows = []
        for each, assignor in self._assignors.items():
            owned = self.has[each] if cooperative else []
            rack = self.racks.get(each)
            data = joining(assignor, self.wishes[each], owned, self.generation or -1, rack)
            rows.append(Member(each, Subscription.decode(data)))
        decided = self._any().assign(TopicsOfGroup(self.topics, self._replicas), rows)
        self.generation += 1
        for each, assignor in self._assignors.items():
            given = Assignment.decode(decided[each].encode())
            assignor.on_assignment(given, self.generation)
            self.has[each] = list(given.assigned_partitions)
        return {each: list(found) for each, found in self.has.items()}

    def settle(self) -> Assigned:
        """Rebalances, at most twice, until each partition that a member wants has an owner."""
        found = self.rebalance()
        return found if sum(map(len, found.values())) == len(self.wanted()) else self.rebalance()

    def wanted(self) -> set[TopicPartition]:
        topics = {topic for wish in self.wishes.values() for topic in wish}
        return {
            TopicPartition(topic, number)
            for topic, count in self.topics.items()
            if topic in topics
            for number in range(count)
        }

    def _any(self) -> Any:
        return next(iter(self._assignors.values()))


def group(name: str, topics: Mapping[str, int], members: Mapping[str, Sequence[str]]) -> Members:
    found = Members(name, topics)
    for member, wish in members.items():
        found.join(member, wish)
    return found


def same(name: str, topics: Mapping[str, int], count: int) -> Members:
    """Makes a group whose members m0, m1, ... want all topics."""
    return group(name, topics, {f"m{each}": list(topics) for each in range(count)})


def sizes(found: Assigned) -> list[int]:
    return sorted(len(each) for each in found.values())


def check_complete(members: Members, found: Assigned) -> None:
    """Checks that each partition has exactly one owner, which wants it."""
    given_out = [each for partitions in found.values() for each in partitions]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == members.wanted()
    for member, partitions in found.items():
        assert {topic for topic, _ in partitions} <= set(members.wishes[member])


@st.composite
def groups(draw: Any, name: str | None = None) -> Members:
    topics = draw(TOPICS)
    found = Members(name or draw(st.sampled_from(NAMES)), topics)
    for number in range(draw(st.integers(1, 12))):
        found.join(f"m{number}", draw(st.lists(st.sampled_from(sorted(topics)), unique=True)))
    return found


# ---------------------------------------------------------------- all assignors


@given(groups())
def test_every_partition_goes_to_exactly_one_member_that_wants_it(members):
    check_complete(members, members.settle())


@given(st.sampled_from(["roundrobin", *STICKY]), TOPICS, st.integers(1, 12))
def test_equal_wishes_are_met_to_within_one_partition(name, topics, count):
    found = sizes(same(name, topics, count).settle())
    assert found[-1] - found[0] <= 1


@given(groups(), st.randoms())
def test_the_order_of_members_in_the_response_does_not_matter(members, rng):
    first = members.rebalance()
    again = Members(members._name, members.topics)
    ids = list(members.wishes)
    rng.shuffle(ids)
    for each in ids:
        again.join(each, members.wishes[each])
    assert again.rebalance() == first


@pytest.mark.parametrize("name", NAMES)
def test_topics_that_nobody_knows_are_left_out(name):
    members = group(name, {"a": 1}, {"m0": ["a", "unknown"], "m1": ["unknown"]})
    assert members.settle() == {"m0": [("a", 0)], "m1": []}


@pytest.mark.parametrize("name", NAMES)
def test_a_group_without_members_gets_nothing(name):
    assert by_name(name).assign(TopicsOfGroup({"a": 1}), []) == {}


# ---------------------------------------------------------------- range, roundrobin


def test_range_gives_each_member_a_run_of_each_topic():
    found = same("range", {"a": 7}, 3).rebalance()
    assert found == {
        "m0": [("a", 0), ("a", 1), ("a", 2)],
        "m1": [("a", 3), ("a", 4)],
        "m2": [("a", 5), ("a", 6)],
    }


@given(st.integers(1, 12), st.integers(1, 12))
def test_range_gives_one_member_the_same_partitions_of_topics_cut_alike(partitions, count):
    found = same("range", {"a": partitions, "b": partitions}, count).rebalance()
    for each in found.values():
        of = {topic: [number for t, number in each if t == topic] for topic in "ab"}
        assert of["a"] == of["b"]


def test_range_cuts_alike_near_the_members():
    replicas = {
        TopicPartition(topic, number): frozenset({"east" if number % 2 else "west"})
        for topic in "ab"
        for number in range(4)
    }
    members = Members("range", {"a": 4, "b": 4}, replicas)
    members.join("m0", ["a", "b"], "east")
    members.join("m1", ["a", "b"], "west")
    assert members.rebalance() == {
        "m0": [("a", 1), ("a", 3), ("b", 1), ("b", 3)],
        "m1": [("a", 0), ("a", 2), ("b", 0), ("b", 2)],
    }


def test_roundrobin_deals_partitions_and_passes_over_who_does_not_want_them():
    members = group("roundrobin", {"a": 3, "b": 2}, {"m0": ["a"], "m1": ["a", "b"]})
    assert members.rebalance() == {
        "m0": [("a", 0), ("a", 2)],
        "m1": [("a", 1), ("b", 0), ("b", 1)],
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_by_their_instance_ids(name):
    said = Subscription(3, ["a"])
    rows = [Member("m0", said), Member("m1", said, "y"), Member("m2", said, "x")]
    found = by_name(name).assign(TopicsOfGroup({"a": 3}), rows)
    by_member = {each: found[each].assigned_partitions for each in ("m2", "m1", "m0")}
    assert by_member == {"m2": [("a", 0)], "m1": [("a", 1)], "m0": [("a", 2)]}


# ---------------------------------------------------------------- sticky


@given(st.sampled_from(STICKY).flatmap(groups))
def test_nothing_moves_without_a_reason(members):
    first = members.settle()
    again = members.rebalance()
    assert {each: set(found) for each, found in again.items()} == {
        each: set(found) for each, found in first.items()
    }


@given(st.sampled_from(STICKY), TOPICS, st.integers(2, 12))
def test_who_stays_keeps_everything_when_a_member_leaves(name, topics, count):
    members = same(name, topics, count)
    before = members.settle()
    members.leave("m0")
    after = members.settle()
    check_complete(members, after)
    for each, found in after.items():
        assert set(before[each]) <= set(found)


@given(st.sampled_from(STICKY), TOPICS, st.integers(1, 11))
def test_a_new_member_gets_its_share_and_no_more_moves_than_that(name, topics, count):
    members = same(name, topics, count)
    before = members.settle()
    members.join("new", list(topics))
    after = members.settle()
    check_complete(members, after)
    assert sizes(after)[-1] - sizes(after)[0] <= 1
    gone = sum(len(set(before[each]) - set(after[each])) for each in before)
    assert gone == len(after["new"])


@given(st.sampled_from(STICKY).flatmap(groups), st.data())
def test_nobody_has_two_less_than_the_owner_of_what_it_wants(members, data):
    """Also after a member left: checks the balance of the general algorithm."""
    if len(members.wishes) > 1 and data.draw(st.booleans()):
        members.settle()
        members.leave(data.draw(st.sampled_from(sorted(members.wishes))))
    found = members.settle()
    check_complete(members, found)
    owner = {each: member for member, partitions in found.items() for each in partitions}
    for member, wish in members.wishes.items():
        for partition, other in owner.items():
            assert partition.topic not in wish or len(found[other]) <= len(found[member]) + 1


@pytest.mark.parametrize("name", STICKY)
def test_of_two_claims_to_a_partition_the_newer_one_holds(name):
    both = [TopicPartition("a", 0), TopicPartition("a", 1)]
    rows = [Member("m0", _claiming(name, both, 3)), Member("m1", _claiming(name, both, 4))]
    found = by_name(name).assign(TopicsOfGroup({"a": 2}), rows)
    assert len(found["m1"].assigned_partitions) == 1
    assert found["m1"].assigned_partitions[0] in both


@pytest.mark.parametrize("name", STICKY)
def test_partitions_that_a_topic_lost_are_nobodys(name):
    had = [TopicPartition("a", 0), TopicPartition("a", 7), TopicPartition("a", -1)]
    rows = [Member(each, _claiming(name, had, 3)) for each in ("m0", "m1")]
    found = by_name(name).assign(TopicsOfGroup({"a": 2}), rows)
    given_out = [each for assignment in found.values() for each in assignment.assigned_partitions]
    assert set(given_out) <= {("a", 0), ("a", 1)}
    assert len(given_out) == len(set(given_out))


def _claiming(name: str, owned: list[TopicPartition], generation: int) -> Subscription:
    if name == "sticky":
        data = encode_user_data(Claim(owned, generation))
        return Subscription(3, ["a"], data, [], generation)
    return Subscription(3, ["a"], None, owned, generation)


def test_sticky_goes_near_where_the_balance_allows():
    replicas = {
        TopicPartition("a", number): frozenset({"east" if number < 2 else "west"})
        for number in range(4)
    }
    members = Members("sticky", {"a": 4}, replicas)
    members.join("m0", ["a"], "west")
    members.join("m1", ["a"], "east")
    found = members.rebalance()
    assert {each: sorted(number for _, number in p) for each, p in found.items()} == {
        "m0": [2, 3],
        "m1": [0, 1],
    }


# ---------------------------------------------------------------- cooperative


@given(groups("cooperative-sticky"), st.data())
def test_no_partition_goes_to_a_member_before_its_owner_gave_it_up(members, data):
    for step in range(data.draw(st.integers(1, 4))):
        before = members.rebalance()
        if step % 2 and len(members.wishes) > 1:
            gone = data.draw(st.sampled_from(sorted(members.wishes)))
            members.leave(gone)
            before.pop(gone)
        else:
            topics = st.lists(st.sampled_from(sorted(members.topics)), unique=True)
            members.join(f"new{step}", data.draw(topics))
        owner = {each: member for member, found in before.items() for each in found}
        for member, found in members.rebalance().items():
            for each in found:
                assert owner.get(each, member) == member


def test_what_moves_is_nobodys_for_one_generation():
    members = same("cooperative-sticky", {"a": 4}, 1)
    members.settle()
    members.join("m1", ["a"])
    first = members.rebalance()
    assert {each: len(found) for each, found in first.items()} == {"m0": 2, "m1": 0}
    second = members.rebalance()
    assert second["m0"] == first["m0"]
    assert len(second["m1"]) == 2


# ---------------------------------------------------------------- bytes


@given(
    st.lists(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9)), unique=True),
    st.none() | st.integers(0, 2**31 - 1),
)
def test_user_data_of_the_sticky_assignor_survive_the_wire(partitions, generation):
    found = decode_user_data(encode_user_data(Claim(partitions, generation)))
    assert sorted(found.partitions) == sorted(partitions)
    assert found.generation == generation


@given(st.binary(max_size=40))
def test_hostile_user_data_are_no_claim_and_no_error(data):
    for name in STICKY:
        said = Subscription(3, ["a"], data)
        found = by_name(name).assign(TopicsOfGroup({"a": 2}), [Member("m", said)])
        assert len(found["m"].assigned_partitions) == 2


def test_hashes_are_javas():
    # "consumer-1".hashCode(), "größe".hashCode(), "🐍".hashCode(),
    # new TopicPartition("orders", 3).hashCode(); modulo 2**32
    texts = ["consumer-1", "größe", "\U0001f40d"]
    assert [_java_order.text_hash(each) for each in texts] == [4128728090, 98762257, 1772400]
    assert _java_order.partition_hash(TopicPartition("orders", 3)) == 3286198019


def test_text_is_ordered_by_utf_16_units_as_in_java():
    assert sorted(["\uffe5", "\U0001f40d"], key=_java_order.text_order) == ["\U0001f40d", "\uffe5"]


# ---------------------------------------------------------------- balance


def test_the_balance_does_not_move_two_partitions_back_and_forth_forever():
    """The balance wants to move f-0 back, and moves f-2 instead, which gains nothing.

    The group is one that hypothesis found.
    """
    topics = {"a": 11, "f": 5, "h": 7}
    wanted: dict[str, set[str]] = {
        "m3": {"h"},
        "m4": {"a", "h"},
        "m5": {"f"},
        "m6": {"a", "f", "h"},
        "new0": {"f"},
        "new2": {"f", "h"},
    }
    had = {
        "m3": [("h", number) for number in range(6)],
        "m4": [("a", number) for number in range(0, 12, 2)],
        "m5": [("f", 2), ("f", 3), ("f", 4)],
        "m6": [("a", 1), ("a", 3), ("a", 5), ("a", 7), ("a", 9), ("h", 6)],
        "new0": [("f", 0), ("f", 1)],
        "new2": [],
    }
    holdings = Holdings(
        {each: [TopicPartition(*one) for one in found] for each, found in had.items()}
    )
    wanting = {topic: {each for each in wanted if topic in wanted[each]} for topic in topics}
    partitions = [
        TopicPartition(topic, number) for topic in ("f", "h") for number in range(topics[topic])
    ]
    assert Balance(holdings, topics, wanted, wanting, {}).run(partitions)
    sizes = {each: len(found) for each, found in holdings.assigned.items()}
    assert sizes == {"m3": 4, "m4": 6, "m5": 3, "m6": 5, "new0": 2, "new2": 3}
