"""Our assignors assign the same partitions as Java's, with the same bytes.

Both get the same random groups. Java's sticky assignors have errors in two situations, which ours
avoid:

- A member that wants no topics is the first that Java looks at. Java then overlooks that members
  want different topics, and may assign to that member what it does not want.
- A member of an older generation had a partition of a topic that it no longer wants. Java may
  assign it to that member again, temporarily or forever, or fail with a NullPointerException.

Ours has one check for each. Without the two checks, our result equals Java's for all groups, and
ours fails where Java fails. With them, it equals Java's for all groups that they do not affect.

The groups have no partitions that a topic lost: Java keeps such a partition assigned, and may then
assign others twice or fail.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.support import java
from tests.support.groups.assignor_cases import Case, make_case
from tests.support.scale import scaled
from thalweg.coordinator.assignors._balance import Balance
from thalweg.coordinator.assignors._group import Group
from thalweg.coordinator.assignors._sticky import AbstractStickyAssignor
from thalweg.coordinator.assignors.registry import by_name
from thalweg.coordinator.protocol import Assignment

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
ENOUGH = scaled(1000, 100)


class Outcome(NamedTuple):
    """The results for one group.

    Attributes:
        case: The group.
        ours: Our assignment.
        unchecked: Our assignment without the two checks, or None if it fails.
        java: What Java's program printed.
    """

    case: Case
    ours: Mapping[str, Assignment]
    unchecked: Mapping[str, Assignment] | None
    java: dict[str, Any]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    """The outcomes by assignor, from one JVM. There are some more groups than must be compared."""
    count = ENOUGH * 11 // 10 + 10
    cases = [make_case(name, f"{name}-{each}") for name in NAMES for each in range(count)]
    lines = "".join(json.dumps(_as_json(case)) + "\n" for case in cases)
    printed = java.run("Assignors", classes=java.compiled("Assignors"), stdin=lines)
    # Java's assignors log warnings between the lines.
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert len(found) == len(cases)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in NAMES}
    for case, theirs in zip(cases, found, strict=True):
        outcome = Outcome(case, _assign(case), _assign_unchecked(case), theirs)
        outcomes[case.assignor].append(outcome)
    return outcomes


def _assign(case: Case) -> Mapping[str, Assignment]:
    return by_name(case.assignor).assign(case.cluster(), case.members)


def _assign_unchecked(case: Case) -> Mapping[str, Assignment] | None:
    """Returns what we would assign without the two checks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Balance, "_may_have", lambda *_: True)
        patch.setattr(AbstractStickyAssignor, "_want_the_same", _want_the_same_as_java_sees_it)
        try:
            return _assign(case)
        except KeyError:
            return None


def _want_the_same_as_java_sees_it(assignor: AbstractStickyAssignor, group: Group) -> bool:
    wishes = (frozenset(each.metadata.topics) for each in group.members.values())
    return len(set(itertools.dropwhile(lambda each: not each, wishes))) <= 1


def _as_json(case: Case) -> dict[str, Any]:
    return {
        "assignor": case.assignor,
        "topics": case.topics,
        "generation": case.generation,
        "members": [
            [each.member_id, each.group_instance_id, each.metadata.encode().hex()]
            for each in case.members
        ],
    }


def _rows(assigned: Mapping[str, Assignment] | None) -> dict[str, list[list[Any]]] | None:
    """Converts an assignment to the form that Java's program prints."""
    if assigned is None:
        return None
    return {id: [[*row] for row in each.assigned_partitions] for id, each in assigned.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_random_groups_get_from_us_what_they_get_from_java(outcomes, name):
    compared = 0
    for case, ours, unchecked, theirs in outcomes[name]:
        assert _rows(unchecked) == theirs.get("assigned"), f"seed {case.seed}"
        if _rows(ours) == _rows(unchecked):
            compared += 1
    print(f"{name}: {compared} groups, seeds {name}-0 to {name}-{len(outcomes[name]) - 1}")
    assert compared >= ENOUGH


def test_where_java_goes_astray_all_get_only_what_they_want(outcomes):
    astray = [each for name in NAMES for each in outcomes[name] if each.ours != each.unchecked]
    assert astray, "seeds without such a group show nothing"
    for case, ours, _, _ in astray:
        wanted = {each.member_id: each.metadata.topics for each in case.members}
        for member, assignment in ours.items():
            assert {topic for topic, _ in assignment.assigned_partitions} <= {*wanted[member]}
        given = [each for assignment in ours.values() for each in assignment.assigned_partitions]
        assert len(set(given)) == len(given), case.seed
        # With cooperative rebalances a partition that moves has no owner at first.
        assert case.assignor == "cooperative-sticky" or set(given) == case.wanted(), case.seed


def test_subscriptions_have_javas_bytes_in_every_version(outcomes):
    versions = set()
    for outcome in (each for name in NAMES for each in outcomes[name]):
        for member in outcome.case.members:
            theirs = outcome.java["subscriptions"][member.member_id]
            assert member.metadata.encode().hex() == theirs, outcome.case.seed
            versions.add(member.metadata.version)
    assert versions == {0, 1, 2, 3}


def test_assignments_have_javas_bytes_in_every_version(outcomes):
    for outcome in (each for name in NAMES for each in outcomes[name]):
        if outcome.ours != outcome.unchecked:
            continue
        for member, assignment in outcome.ours.items():
            ours = [assignment._replace(version=each).encode().hex() for each in range(4)]
            assert ours == outcome.java["assignments"][member], outcome.case.seed


@pytest.mark.parametrize("name", NAMES)
def test_members_say_of_themselves_what_java_says(outcomes, name):
    for outcome in outcomes[name]:
        if outcome.ours != outcome.unchecked:
            continue
        for member, assignment in outcome.ours.items():
            assignor = by_name(name)
            assignor.on_assignment(assignment, outcome.case.generation)
            said = assignor.metadata(set()).user_data
            theirs = outcome.java["user_data"][member]
            assert (None if said is None else said.hex()) == theirs, outcome.case.seed
