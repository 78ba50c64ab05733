"""All groups of a broker: which group gets a request, and what is refused before that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from thalweg.coordinator.classic.group import ClassicGroup, GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
    TopicsChanged,
)

UNKNOWN, INVALID_GROUP, NOT_FOUND, UNSUPPORTED, INCONSISTENT = 25, 24, 69, 35, 23
BAD_SESSION = 26


class FakeConsumerGroup:
    """A group of the other protocol, which records its events."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = "Assigning"
        self.heard: list[Any] = []

    def step(self, event: Any, now: float) -> list[Any]:
        self.heard.append(event)
        if isinstance(event, Arrived) and event.body["MemberEpoch"] > 0 and len(self.heard) == 1:
            return [Reply(event.token, {"ErrorCode": UNKNOWN}), Forget()]
        return [Forget()] if isinstance(event, Deleted) else []

    def next_deadline(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"ErrorCode": 0, "GroupId": self.group_id, "GroupState": "Assigning"}


def coordinator(consumer: bool = True) -> Groups:
    ids = itertools.count(1)
    fake = FakeConsumerGroup if consumer else None
    return Groups(GroupSettings(), lambda: f"u{next(ids)}", fake)


def arrived(api: str, version: int, **body: Any) -> Arrived:
    return Arrived(1, api, version, body, "client", "/127.0.0.1")


def join(group_id: str, member_id: str = "", session_timeout_ms: int = 10_000) -> Arrived:
    return arrived(
        "JoinGroup",
        9,
        GroupId=group_id,
        MemberId=member_id,
        SessionTimeoutMs=session_timeout_ms,
        RebalanceTimeoutMs=10_000,
        ProtocolType="consumer",
        Protocols=[{"Name": "range", "Metadata": b""}],
    )


def heartbeat(group_id: str, epoch: int = 0) -> Arrived:
    return arrived("ConsumerGroupHeartbeat", 1, GroupId=group_id, MemberId="m", MemberEpoch=epoch)


def group(groups: Groups, group_id: str) -> Any:
    return groups.groups[group_id]


def response(actions: list[Any]) -> dict[str, Any]:
    [reply] = [each for each in actions if isinstance(each, Reply)]
    return reply.body


def with_member(groups: Groups, group_id: str) -> str:
    member_id = response(groups.step(join(group_id), 0))["MemberId"]
    groups.step(join(group_id, member_id), 0)
    return member_id


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "LeaveGroup"])
def test_an_empty_group_id_is_invalid(api):
    event = arrived(api, 1, GroupId="", MemberId="")
    assert response(coordinator().step(event, 0))["ErrorCode"] == INVALID_GROUP


def test_groups_are_apart():
    groups = coordinator()
    with_member(groups, "a")
    with_member(groups, "b")
    assert [str(group(groups, each).state) for each in "ab"] == ["PreparingRebalance"] * 2
    assert [len(group(groups, each).roster) for each in "ab"] == [1, 1]


def test_a_member_of_a_group_that_is_not_there_is_unknown():
    groups = coordinator()
    assert response(groups.step(join("a", "m"), 0))["ErrorCode"] == UNKNOWN
    sync = arrived("SyncGroup", 5, GroupId="a", MemberId="m", GenerationId=1)
    assert response(groups.step(sync, 0))["ErrorCode"] == UNKNOWN
    assert groups.groups == {}


def test_leavers_of_a_group_that_is_not_there_are_unknown_one_by_one():
    groups = coordinator()
    rows = [{"MemberId": "m", "GroupInstanceId": None}, {"MemberId": "", "GroupInstanceId": "i"}]
    got = response(groups.step(arrived("LeaveGroup", 5, GroupId="a", Members=rows), 0))
    assert got["ErrorCode"] == 0
    assert [row["ErrorCode"] for row in got["Members"]] == [UNKNOWN, UNKNOWN]
    got = response(groups.step(arrived("LeaveGroup", 1, GroupId="a", MemberId="m"), 0))
    assert got == {"ErrorCode": UNKNOWN}


def test_the_next_deadline_is_the_first_of_all_groups():
    groups = coordinator()
    assert groups.next_deadline() is None
    with_member(groups, "late")
    groups.step(Ticked(), 0)
    first = groups.next_deadline()
    groups.groups["early"] = groups.groups["late"]
    assert groups.next_deadline() == first == 3_000


def test_a_tick_reaches_only_groups_that_are_due():
    groups = coordinator()
    with_member(groups, "a")
    for event in (join("b"),):
        groups.step(event, 2_000)
    member_id = next(iter(group(groups, "b").roster.pending_ids))
    groups.step(join("b", member_id), 2_000)
    groups.step(Ticked(), 3_000)
    assert [str(group(groups, each).state) for each in "ab"] == [
        "CompletingRebalance",
        "PreparingRebalance",
    ]


def test_groups_without_a_deadline_are_not_looked_at(monkeypatch):
    groups = coordinator()
    for number in range(50):
        groups.step(heartbeat(f"idle{number}"), 0)
    looks: list[str] = []

    def look(group: FakeConsumerGroup) -> None:
        looks.append(group.group_id)

    monkeypatch.setattr(FakeConsumerGroup, "next_deadline", look)
    with_member(groups, "busy")
    assert groups.next_deadline() == 3_000
    groups.step(Ticked(), 3_000)
    assert str(group(groups, "busy").state) == "CompletingRebalance"
    assert looks == []


@pytest.mark.parametrize("failing", ["first", "last"])
def test_a_group_whose_step_fails_costs_no_other_its_actions(monkeypatch, caplog, failing):
    groups = coordinator()
    for each in ("first", "middle", "last"):
        with_member(groups, each)
    served = ClassicGroup.step

    def step(each: ClassicGroup, event: Any, now: float) -> Any:
        if each.group_id == failing:
            raise ZeroDivisionError
        return served(each, event, now)

    monkeypatch.setattr(ClassicGroup, "step", step)
    actions = groups.step(Ticked(), 3_000)
    assert len([each for each in actions if isinstance(each, Reply)]) == 2
    published = {each.view["group_id"] for each in actions if isinstance(each, Publish)}
    assert published == {"first", "middle", "last"} - {failing}
    assert [each.getMessage() for each in caplog.records] == [f"Ticked failed in group {failing}"]


def test_a_group_whose_step_fails_is_ticked_again_but_not_without_pause(monkeypatch):
    groups = coordinator()
    with_member(groups, "a")
    served = ClassicGroup.step

    def fail(each: ClassicGroup, event: Any, now: float) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(ClassicGroup, "step", fail)
    assert groups.step(Ticked(), 3_000) == []
    monkeypatch.setattr(ClassicGroup, "step", served)
    assert groups.next_deadline() == 4_000
    groups.step(Ticked(), 4_000)
    assert str(group(groups, "a").state) == "CompletingRebalance"


def test_changed_topics_that_one_group_cannot_handle_reach_the_others(monkeypatch):
    groups = coordinator()
    for each in ("a", "b"):
        groups.step(heartbeat(each), 0)
    served = FakeConsumerGroup.step

    def step(each: FakeConsumerGroup, event: Any, now: float) -> Any:
        if each.group_id == "a":
            raise ZeroDivisionError
        return served(each, event, now)

    monkeypatch.setattr(FakeConsumerGroup, "step", step)
    event = TopicsChanged({"t": 1}, {})
    groups.step(event, 0)
    assert group(groups, "b").heard[-1] is event


def test_expired_sessions_and_deletions_go_to_their_group():
    groups = coordinator()
    member_id = with_member(groups, "a")
    groups.step(Ticked(), 3_000)
    groups.step(SessionExpired(member_id, "b"), 3_000)
    assert len(group(groups, "a").roster) == 1
    groups.step(SessionExpired(member_id, "a"), 3_000)
    assert len(group(groups, "a").roster) == 0
    assert groups.step(Deleted("a"), 3_000) == [Forget("a")]
    assert groups.groups == {}
    assert groups.step(Deleted("a"), 3_000) == []


def test_a_refused_first_join_leaves_no_group_behind():
    groups = coordinator()
    refused = join("a", session_timeout_ms=1)
    actions = groups.step(refused, 0)
    assert response(actions)["ErrorCode"] == BAD_SESSION
    assert [type(each) for each in actions] == [Reply]
    assert groups.groups == {}
    # Nor does it replace an empty group of the other protocol.
    groups.step(heartbeat("a"), 0)
    before = group(groups, "a")
    before.state = "Empty"
    assert response(groups.step(refused, 0))["ErrorCode"] == BAD_SESSION
    assert group(groups, "a") is before


def test_a_first_join_with_wrong_protocols_leaves_an_empty_group_as_in_kafka():
    groups = coordinator()
    refused = join("a")
    refused.body["Protocols"].clear()
    assert response(groups.step(refused, 0))["ErrorCode"] == INCONSISTENT
    assert str(group(groups, "a").state) == "Empty"


# ---------------------------------------------------------------------- the other protocol


def test_the_other_protocol_is_unsupported_unless_it_is_spoken():
    got = response(coordinator(consumer=False).step(heartbeat("a"), 0))
    assert got["ErrorCode"] == UNSUPPORTED


def test_a_first_heartbeat_makes_a_group_and_later_ones_reach_it():
    groups = coordinator()
    groups.step(heartbeat("a"), 0)
    groups.step(heartbeat("a", epoch=3), 0)
    assert len(group(groups, "a").heard) == 2


def test_a_group_that_nobody_may_begin_is_not_kept_nor_replaces_an_empty_one():
    groups = coordinator()
    groups.step(join("a"), 0)
    before = group(groups, "a")
    actions = groups.step(heartbeat("a", epoch=3), 0)
    assert actions == [Reply(1, {"ErrorCode": UNKNOWN})]
    assert group(groups, "a") is before


def test_changed_topics_are_told_to_groups():
    groups = coordinator()
    with_member(groups, "classic")
    groups.step(heartbeat("a"), 0)
    event = TopicsChanged({"t": 1}, {})
    assert groups.step(event, 0) == []
    assert group(groups, "a").heard[-1] is event


def test_members_of_one_protocol_do_not_join_a_group_of_the_other():
    groups = coordinator()
    with_member(groups, "classic")
    groups.step(heartbeat("consumer"), 0)
    assert response(groups.step(heartbeat("classic"), 0))["ErrorCode"] == NOT_FOUND
    assert response(groups.step(join("consumer"), 0))["ErrorCode"] == INCONSISTENT
    assert response(groups.step(join("consumer", "m"), 0))["ErrorCode"] == UNKNOWN


def test_an_empty_group_becomes_one_of_the_other_protocol():
    groups = coordinator()
    groups.step(join("a"), 0)
    groups.step(heartbeat("a"), 0)
    assert isinstance(groups.groups["a"], FakeConsumerGroup)
    group(groups, "a").state = "Empty"
    actions = groups.step(join("a"), 0)
    assert [type(each) for each in actions] == [Publish, Reply]
    assert not isinstance(groups.groups["a"], FakeConsumerGroup)


# ---------------------------------------------------------------------- describing


def describe(groups: Groups, version: int, *names: str, draft: Any = None) -> list[Any]:
    body = {"Groups": list(names)}
    event = Arrived(1, "DescribeGroups", version, body, "client", "/127.0.0.1", draft)
    return response(groups.step(event, 0))["Groups"]


def test_rows_of_our_groups_take_the_place_of_drafted_ones():
    groups = coordinator()
    with_member(groups, "a")
    drafted = [
        {"GroupId": "a", "GroupState": "Empty", "AuthorizedOperations": 8},
        {"GroupId": "offsets", "GroupState": "Empty", "AuthorizedOperations": 8},
    ]
    ours, theirs = describe(groups, 6, "a", "offsets", draft={"Groups": drafted})
    assert ours["GroupState"] == "PreparingRebalance"
    assert ours["AuthorizedOperations"] == 8
    assert len(ours["Members"]) == 1
    assert theirs == drafted[1]


def test_a_group_that_is_not_there_is_dead_or_since_version_6_not_found():
    groups = coordinator()
    groups.step(heartbeat("consumer"), 0)
    for name in ("a", "consumer"):
        [old] = describe(groups, 5, name)
        assert (old["ErrorCode"], old["GroupState"]) == (0, "Dead")
        [new] = describe(groups, 6, name)
        assert new["ErrorCode"] == NOT_FOUND
    assert new["ErrorMessage"] == "Group consumer is not a classic group."


def test_consumer_groups_are_described_by_their_own_api():
    groups = coordinator()
    groups.step(heartbeat("a"), 0)
    with_member(groups, "b")
    event = arrived("ConsumerGroupDescribe", 1, GroupIds=["a", "b"])
    first, second = response(groups.step(event, 0))["Groups"]
    assert first["GroupState"] == "Assigning"
    assert second["ErrorCode"] == NOT_FOUND
