"""The worst frame of 1 MiB for each group API takes bounded time and has a small response.

crates/broker/tests/hostile.rs tests the limits that apply before a frame reaches this code.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
from thalweg.coordinator.kip848.patterns import PatternError, TopicPattern
from thalweg.coordinator.steps import Arrived, Publish, Reply, TopicsChanged

MEMBERS = 200
# Each frame takes less than half a second on an idle machine. With backtracking or quadratic work
# it would take minutes or more.
LIMIT_S = 20.0
INVALID_REQUEST, INCONSISTENT, GROUP_FULL, BAD_REGEX = 42, 23, 81, 128
TOPICS = [*(f"t{index}" for index in range(2000)), "a" * 249]


class Coordinator:
    """Groups with members: the classic group `g` and the consumer group `c`."""

    def __init__(self) -> None:
        ids = (str(each) for each in itertools.count())
        topics = TopicsChanged(
            dict.fromkeys(TOPICS, 3), {}, {each: f"id-{each}" for each in TOPICS}
        )
        settings = ConsumerGroupSettings()
        self.groups = Groups(
            GroupSettings(initial_rebalance_delay_ms=0),
            lambda: next(ids),
            lambda group_id: ConsumerGroup(group_id, settings, lambda: next(ids), topics),
        )
        for index in range(MEMBERS):
            self.says("JoinGroup", 3, **join(f"i{index}"))
            self.says("ConsumerGroupHeartbeat", 1, **heartbeat(f"m{index}"))

    def says(self, api: str, version: int, **body: Any) -> dict[str, Any]:
        """Returns the response, or {} if it has to wait."""
        began = time.monotonic()
        actions = self.groups.step(Arrived(1, api, version, body, "client", "/127.0.0.1"), 0.0)
        assert time.monotonic() - began < LIMIT_S
        assert sum(isinstance(each, Publish) for each in actions) <= 1
        replies = [each.body for each in actions if isinstance(each, Reply)]
        return replies[-1] if replies else {}


def join(instance: str, **changes: Any) -> dict[str, Any]:
    protocols = [{"Name": "range", "Metadata": b"x" * 100}]
    return {
        "GroupId": "g",
        "MemberId": "",
        "GroupInstanceId": instance,
        "SessionTimeoutMs": 10_000,
        "RebalanceTimeoutMs": 10_000,
        "ProtocolType": "other",
        "Protocols": protocols,
    } | changes


def heartbeat(member_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "GroupId": "c",
        "MemberId": member_id,
        "MemberEpoch": 0,
        "InstanceId": None,
        "RackId": None,
        "RebalanceTimeoutMs": 10_000,
        "SubscribedTopicNames": ["t0"],
        "SubscribedTopicRegex": None,
        "ServerAssignor": None,
        "TopicPartitions": [],
    } | changes


@pytest.fixture(scope="module")
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_member_with_very_many_assignors_is_refused(coordinator: Coordinator):
    protocols = [{"Name": f"p{index}", "Metadata": b""} for index in range(150_000)]
    response = coordinator.says("JoinGroup", 9, **join("new", Protocols=protocols))
    assert response["ErrorCode"] == INCONSISTENT


def test_assignments_for_very_many_members_are_taken_in_one_pass(coordinator: Coordinator):
    assignments = [{"MemberId": f"m{index}", "Assignment": b""} for index in range(150_000)]
    body = {"MemberId": "i0-0", "GenerationId": 1, "Assignments": assignments}
    assert coordinator.says("SyncGroup", 3, GroupId="g", **body)["ErrorCode"] != 0


def test_very_many_members_leave_in_one_pass(coordinator: Coordinator):
    members = [{"MemberId": f"i{index}", "GroupInstanceId": None} for index in range(100_000)]
    response = coordinator.says("LeaveGroup", 5, GroupId="g", Members=members)
    assert len(response["Members"]) == len(members)


def test_a_group_that_is_named_many_times_is_described_once(coordinator: Coordinator):
    for api, field, group_id in [
        ("DescribeGroups", "Groups", "g"),
        ("ConsumerGroupDescribe", "GroupIds", "c"),
    ]:
        response = coordinator.says(api, 1, **{field: [group_id] * 500_000})
        [group] = response["Groups"]
        assert len(group["Members"]) == MEMBERS


def test_a_member_that_subscribes_to_very_many_names_is_refused(coordinator: Coordinator):
    names = [f"x{index}" for index in range(150_000)]
    body = heartbeat("new", SubscribedTopicNames=names)
    response = coordinator.says("ConsumerGroupHeartbeat", 1, **body)
    assert response["ErrorCode"] == INVALID_REQUEST


def test_a_report_of_very_many_partitions_is_refused(coordinator: Coordinator):
    rows = [{"TopicId": "id-t0", "Partitions": list(range(250_000))}]
    body = heartbeat("m0", MemberEpoch=2, TopicPartitions=rows)
    assert coordinator.says("ConsumerGroupHeartbeat", 1, **body)["ErrorCode"] == INVALID_REQUEST


def test_ids_that_are_given_out_have_an_end():
    coordinator = Coordinator()
    joins = join("", GroupId="new", GroupInstanceId=None)
    codes = {coordinator.says("JoinGroup", 9, **joins)["ErrorCode"] for _ in range(10_001)}
    assert codes == {79, GROUP_FULL}


# Each of these patterns keeps Python's own matching busy forever, or for hours.
BACKTRACKING = [
    "(a|a)*b",
    "(a*)*b",
    "(.*)*b(.*)*b(.*)*",
    "a*" * 30 + "b",
    "(a|aa|aaa)*[^a]b",
]


@pytest.mark.parametrize("regex", BACKTRACKING)
def test_patterns_that_backtrack_take_linear_time(coordinator: Coordinator, regex: str):
    member_id = f"of-{regex}"
    body = heartbeat(member_id, SubscribedTopicNames=[], SubscribedTopicRegex=regex)
    assert coordinator.says("ConsumerGroupHeartbeat", 1, **body)["ErrorCode"] == 0
    assert coordinator.groups.groups["c"].roster.members[member_id].matching == frozenset()  # type: ignore[attr-defined]
    leaving = heartbeat(member_id, MemberEpoch=-1)
    coordinator.says("ConsumerGroupHeartbeat", 1, **leaving)


@pytest.mark.parametrize(
    "regex",
    [
        "(a{1000}){1000}",
        "(a?){1000}",
        "(" * 32_000,
        "a{1001}",
        r"(a)\1",
        "(?=a)a",
        "a" * 32_000,
        # Parts that add no states, a large expanded set, a long prefix to factor out.
        "((" + "()" * 10_000 + "){1000}){1000}",
        "([" + "".join(map(chr, range(0x4E00, 0x9000))) + "]{1000}){9}",
        "a" * 500_000 + "|" + "a" * 500_000,
    ],
)
def test_patterns_that_are_too_large_or_not_linear_are_refused(
    coordinator: Coordinator, regex: str
):
    body = heartbeat("new", SubscribedTopicNames=[], SubscribedTopicRegex=regex)
    response = coordinator.says("ConsumerGroupHeartbeat", 1, **body)
    assert response["ErrorCode"] == BAD_REGEX
    assert "new" not in coordinator.groups.groups["c"].roster.members  # type: ignore[attr-defined]


def test_the_ends_of_names_count_as_work():
    """Each length leaves the pattern in different states, and thousands follow at the end."""
    pattern = TopicPattern(".{1,200}" + "$" * 6_000)
    alike = [f"t{index:03}" for index in range(1_000)]
    assert pattern.matching(alike) == set(alike), "computed once"
    with pytest.raises(PatternError, match="too long"):
        pattern.matching("t" * length for length in range(1, 201))


@pytest.mark.parametrize(
    ("regex", "names"),
    [
        ("a.c", {"abc", "a.c", "a-c"}),
        (r"a\.c", {"a.c"}),
        ("^(abc|x1)$", {"abc", "x1"}),
        ("[a-c]{3}", {"abc"}),
        (r"[^a]\d?", {"x", "x1"}),
        (r"\w+\d+|a-?c", {"x1", "a-c"}),
        ("(?i)A[.B]C", {"abc", "a.c"}),
        ("(?:a(?P<b>b)c)*?x*", {"abc", "x", "xx"}),
        ("", set()),
        ("x{0,2}", {"x", "xx"}),
        ("b", set()),
        (r"\Aabc\z", {"abc"}),
        (r"\Qa.c\E", {"a.c"}),
        (r"a\Q.\Ec|\Qx", {"a.c", "x"}),
        ("[[:lower:]]+", {"abc", "x", "xx"}),
        ("[^[:punct:][:digit:]]+", {"abc", "x", "xx"}),
        ("a[].-]c|x[[:digit:]]", {"a.c", "a-c", "x1"}),
    ],
)
def test_the_whole_name_matches_as_elsewhere(regex: str, names: set[str]):
    topics = {"abc", "a.c", "a-c", "x1", "x", "xx"}
    assert TopicPattern(regex).matching(topics) == names


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("a(?i:b)", "flags"),
        (r"\bx", "not supported"),
        (r"\pL", "bad escape"),
        ("[[:^lower:]]", "not supported"),
        ("[[:nope:]]", "not supported"),
    ],
)
def test_what_the_documentation_excludes_is_refused(regex: str, reason: str):
    with pytest.raises(PatternError, match=reason):
        TopicPattern(regex)
