"""The state tables: properties that readers and the drawing code rely on."""

from __future__ import annotations

from collections.abc import Mapping
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
    ConsumerMemberTrigger,
    ForbiddenTransition,
    GroupState,
    GroupTrigger,
    MemberState,
    MemberTrigger,
    ReconciliationState,
    enter,
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
WITH_TRIGGERS = pytest.mark.parametrize(
    "table, names, triggers",
    [
        (CLASSIC_GROUP, GroupState, GroupTrigger),
        (CLASSIC_MEMBER, MemberState, MemberTrigger),
        (CONSUMER_MEMBER, ConsumerMemberState, ConsumerMemberTrigger),
    ],
)


def following(table, state):
    into = table[state]
    return set(into.values() if isinstance(into, Mapping) else into)


@EACH
def test_each_state_has_its_row(table, names, first, ends):
    assert set(table) == set(names)


@EACH
def test_each_state_can_be_reached(table, names, first, ends):
    reached, todo = {first}, [first]
    while todo:
        new = following(table, todo.pop()) - reached
        reached |= new
        todo += new
    assert reached == set(names)


@EACH
def test_only_the_ends_have_no_way_on(table, names, first, ends):
    assert {each for each in table if not table[each]} == ends


@WITH_TRIGGERS
def test_triggers_lead_where_the_table_says_and_others_nowhere(table, names, triggers):
    for current, trigger in product(names, triggers):
        if trigger in table[current]:
            assert move(table, current, trigger) is table[current][trigger]
        else:
            told = f"{names.__name__}: nothing follows {current} on {trigger.name}"
            with pytest.raises(ForbiddenTransition, match=told):
                move(table, current, trigger)


@WITH_TRIGGERS
def test_each_trigger_leads_somewhere(table, names, triggers):
    assert {trigger for row in table.values() for trigger in row} == set(triggers)


@pytest.mark.parametrize(
    "table, names",
    [(CONSUMER_GROUP, ConsumerGroupState), (RECONCILIATION, ReconciliationState)],
)
def test_states_that_follow_from_other_fields_are_checked(table, names):
    for current, to in product(names, names):
        if to in table[current]:
            assert enter(table, current, to) is to
        else:
            with pytest.raises(ForbiddenTransition, match=f"{current} -> {to}"):
                enter(table, current, to)


def test_a_group_shows_kafkas_names():
    assert [str(each) for each in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


def test_a_dead_group_stays_dead():
    assert states.CLASSIC_GROUP[GroupState.DEAD] == {}
