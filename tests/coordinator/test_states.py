"""The state tables: properties that readers and the drawing code rely on."""

from __future__ import annotations

from itertools import product

import pytest

from thalweg.coordinator import states
from thalweg.coordinator.states import (
    CLASSIC_GROUP,
    CLASSIC_MEMBER,
    CONSUMER_GROUP,
    CONSUMER_MEMBER,
    RECONCILIATION,
    ConsumerGroupState,
    ConsumerMemberState,
    ForbiddenTransition,
    GroupState,
    MemberState,
    ReconciliationState,
    move,
)

TABLES = [
    (CLASSIC_GROUP, GroupState, GroupState.EMPTY, {GroupState.DEAD}),
    (CLASSIC_MEMBER, MemberState, MemberState.UNJOINED, {MemberState.CLOSED}),
    (CONSUMER_GROUP, ConsumerGroupState, ConsumerGroupState.EMPTY, {ConsumerGroupState.DEAD}),
    (
        CONSUMER_MEMBER,
        ConsumerMemberState,
        ConsumerMemberState.UNSUBSCRIBED,
        {ConsumerMemberState.FATAL},
    ),
    (RECONCILIATION, ReconciliationState, ReconciliationState.STABLE, set()),
]
EACH = pytest.mark.parametrize("table, names, first, ends", TABLES)


@EACH
def test_each_state_has_its_row(table, names, first, ends):
    assert set(table) == set(names)


@EACH
def test_each_state_can_be_reached(table, names, first, ends):
    reached, todo = {first}, [first]
    while todo:
        new = table[todo.pop()] - reached
        reached |= new
        todo += new
    assert reached == set(names)


@EACH
def test_only_the_ends_have_no_way_on(table, names, first, ends):
    assert {each for each in table if not table[each]} == ends


@EACH
def test_moves_are_those_of_the_table_and_no_others(table, names, first, ends):
    for current, to in product(names, names):
        if to in table[current]:
            assert move(table, current, to) is to
        else:
            with pytest.raises(ForbiddenTransition, match=f"{current} -> {to}"):
                move(table, current, to)


def test_a_group_shows_kafkas_names():
    assert [str(each) for each in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


def test_a_dead_group_stays_dead():
    assert states.CLASSIC_GROUP[GroupState.DEAD] == frozenset()
