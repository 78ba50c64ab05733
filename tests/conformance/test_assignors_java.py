"""Our assignors between ours and Java's members: the same partitions, the same bytes.

Both get the same random groups. Java's assignors go astray in two situations, where ours do not
follow, and only there may an outcome differ:

- A member that wants nothing is the first that Java looks at. It then overlooks that members want
  different things, and may give that member what it does not want.
- A member of an older generation had a partition of a topic that it wants no more. Java may give
  it back to that member, or fail with a NullPointerException.

Left out are partitions that a topic lost: Java keeps such a partition assigned, and may then
assign others twice or fail.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.support import java
from tests.support.assignor_cases import Case, make_case
from tests.support.scale import scaled
from thalweg.coordinator.assignors import CooperativeStickyAssignor, StickyPartitionAssignor
from thalweg.coordinator.assignors._claims import claims_of
from thalweg.coordinator.assignors._group import Group
from thalweg.coordinator.assignors.registry import by_name
from thalweg.coordinator.protocol import Assignment

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
ENOUGH = scaled(1000, 100)


class Outcome(NamedTuple):
    """What became of one group."""

    case: Case
    ours: dict[str, Assignment]
    java: dict[str, Any]

    def failed_or_invalid(self) -> bool:
        """Whether Java threw, or gave a member what it is not subscribed to."""
        if "failed" in self.java:
            return True
        wanted = {each.member_id: each.metadata.topics for each in self.case.members}
        return any(
            topic not in wanted[member]
            for member, rows in self.java["assigned"].items()
            for topic, _ in rows
        )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    """By assignor; one JVM for all, a little more groups than are to be compared."""
    count = ENOUGH * 11 // 10 + 10
    cases = [make_case(name, f"{name}-{each}") for name in NAMES for each in range(count)]
    lines = "".join(json.dumps(_as_json(case)) + "\n" for case in cases)
    printed = java.run("Assignors", classes=java.compiled("Assignors"), stdin=lines)
    # Java's assignors log what they find odd, between the lines.
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert len(found) == len(cases)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in NAMES}
    for case, theirs in zip(cases, found, strict=True):
        ours = by_name(case.assignor).assign(case.cluster(), case.members)
        outcomes[case.assignor].append(Outcome(case, dict(ours), theirs))
    return outcomes


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


def _overlooks_wishes(case: Case) -> bool:
    """Whether the first member in Java's order wants nothing, and all others want the same."""
    group = Group.of(case.cluster(), case.members)
    first, *others = (frozenset(each.metadata.topics) for each in group.members.values())
    return not first and len({each for each in others if each}) == 1


def _may_give_back(case: Case) -> bool:
    """Whether a member wants a topic no more of which it had a partition in an older generation."""
    assignor = by_name(case.assignor)
    assert isinstance(assignor, StickyPartitionAssignor | CooperativeStickyAssignor)
    group = Group.of(case.cluster(), case.members)
    outdated = claims_of(group, assignor.claim).outdated
    return any(
        partition.topic not in group.members[member].metadata.topics
        for partition, member in outdated.items()
        if partition.topic in group.topics
    )


def _is_ours_alone(outcome: Outcome) -> bool:
    """Whether Java went astray, so that there is nothing to compare; only as the module says."""
    case = outcome.case
    if not case.assignor.endswith("sticky"):
        return False
    overlooked = _overlooks_wishes(case)
    if outcome.failed_or_invalid():
        assert overlooked or _may_give_back(case), f"{case.seed}: {outcome.java}"
        return True
    # What it took away for such a member, the cooperative one does not give out yet.
    return overlooked


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_random_groups_get_from_us_what_they_get_from_java(outcomes, name):
    compared = 0
    for outcome in outcomes[name]:
        if _is_ours_alone(outcome):
            continue
        ours = {
            member: [[*each] for each in assignment.assigned_partitions]
            for member, assignment in outcome.ours.items()
        }
        assert ours == outcome.java["assigned"], f"seed {outcome.case.seed}"
        compared += 1
    print(f"{name}: {compared} groups, seeds {name}-0 to {name}-{len(outcomes[name]) - 1}")
    assert compared >= ENOUGH


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_where_java_goes_astray_everybody_gets_only_what_it_wants(outcomes, name):
    astray = [each for each in outcomes[name] if _is_ours_alone(each)]
    assert astray, "seeds without such a group show nothing"
    for case, ours, _ in astray:
        wanted = {each.member_id: each.metadata.topics for each in case.members}
        given = [
            (member, partition)
            for member, assignment in ours.items()
            for partition in assignment.assigned_partitions
        ]
        assert all(each.topic in wanted[member] for member, each in given), case.seed
        partitions = [each for _, each in given]
        assert len(set(partitions)) == len(partitions), case.seed
        assert name != "sticky" or set(partitions) == case.wanted(), case.seed


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
        if outcome.java.get("assigned") is None or _is_ours_alone(outcome):
            continue
        for member, assignment in outcome.ours.items():
            ours = [assignment._replace(version=each).encode().hex() for each in range(4)]
            assert ours == outcome.java["assignments"][member], outcome.case.seed


@pytest.mark.parametrize("name", NAMES)
def test_members_say_of_themselves_what_java_says(outcomes, name):
    for outcome in outcomes[name]:
        if _is_ours_alone(outcome):
            continue
        for member, assignment in outcome.ours.items():
            assignor = by_name(name)
            assignor.on_assignment(assignment, outcome.case.generation)
            said = assignor.metadata(set()).user_data
            theirs = outcome.java["user_data"][member]
            assert (None if said is None else said.hex()) == theirs, outcome.case.seed
