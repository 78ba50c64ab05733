"""The admin client's requests for groups and their offsets (on a fake core)."""

import re
from typing import Any

import pytest

from tests.unit.admin.responses import ONE, ZERO, last, listed, metadata, responds
from thalweg.admin.groups import MemberToRemove
from thalweg.admin.offsets import OffsetSpec, OffsetTimestamp
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IncompatibleBrokerVersion,
    NoError,
    NotCoordinatorError,
    SaslAuthenticationFailedError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import OffsetAndMetadata


def test_groups_are_listed_at_every_broker(admin):
    row = {
        "GroupId": "g",
        "ProtocolType": "consumer",
        "GroupState": "Stable",
        "GroupType": "classic",
    }
    responds(admin, ListGroups={"ErrorCode": 0, "Groups": [row]})
    assert len(admin.list_groups(states_filter=["stable"])) == 2
    assert last(admin)[1] == {"StatesFilter": ["Stable"]}
    assert admin.list_groups([1])[0]["group_state"] == "Stable"
    assert admin.list_consumer_groups([1]) == [("g", "consumer")]


def test_groups_are_described_with_what_their_members_said(admin):
    subscription = Subscription(1, ["t"], None, [ZERO])
    member = {
        "MemberId": "m",
        "GroupInstanceId": None,
        "ClientId": "c",
        "ClientHost": "/h",
        "MemberMetadata": subscription.encode(),
        "MemberAssignment": Assignment(1, [ZERO, ONE]).encode(),
    }
    other = {**member, "MemberMetadata": b"\x00", "MemberAssignment": b""}
    group = {
        "ErrorCode": 0,
        "GroupId": "g",
        "GroupState": "Stable",
        "ProtocolType": "consumer",
        "ProtocolData": "range",
        "Members": [member, other],
        "AuthorizedOperations": -(2**31),
    }
    responds(admin, DescribeGroups={"Groups": [group]})
    found = admin.describe_groups(["g"])["g"]
    assert found["error"] is None
    assert found["members"][0]["member_metadata"] == {
        "topics": ["t"],
        "user_data": None,
        "owned_partitions": [{"topic": "t", "partitions": [0]}],
        "generation_id": -1,
        "rack_id": None,
    }
    assert found["members"][0]["member_assignment"] == {
        "assigned_partitions": [{"topic": "t", "partitions": [0, 1]}],
        "user_data": None,
    }
    assert found["members"][1]["member_metadata"] == b"\x00"
    assert last(admin)[2] == ("coordinator", "group", "g")
    information = admin.describe_consumer_groups(["g"], group_coordinator_id=2)[0]
    assert (information.group, information.state, information.protocol) == ("g", "Stable", "range")
    assert information.members[0].member_metadata == subscription
    assert last(admin)[2] == 2
    responds(admin, DescribeGroups={"Groups": [{**group, "ErrorCode": 69, "Members": []}]})
    assert "GroupIdNotFoundError" in admin.describe_groups(["g"])["g"]["error"]
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_consumer_groups(["g"])


@pytest.mark.parametrize(
    "call, expected", [("delete_groups", {"g": "OK"}), ("delete_consumer_groups", [("g", NoError)])]
)
def test_a_group_coordinator_that_moved_is_forgotten(admin, call, expected):
    responds(
        admin,
        DeleteGroups=[
            {"Results": [{"GroupId": "g", "ErrorCode": 16}]},
            {"Results": [{"GroupId": "g", "ErrorCode": 0}]},
        ],
    )
    assert getattr(admin, call)(["g"]) == expected
    assert admin._client.forgotten == [("group", "g")]
    assert len(admin._client.requests) == 2


def test_groups_are_deleted_with_each_outcome(admin):
    responds(admin, DeleteGroups={"Results": [{"GroupId": "g", "ErrorCode": 68}]})
    assert admin.delete_groups(["g", "g"]) == {"g": "NonEmptyGroupError"}
    assert len(admin._client.requests) == 1
    assert admin.delete_consumer_groups(["g"])[0][1].errno == 68


def fetched(code: int = 0, offset: int = 5) -> dict[str, Any]:
    row = {
        "PartitionIndex": 0,
        "CommittedOffset": offset,
        "CommittedLeaderEpoch": 2,
        "Metadata": "m",
        "ErrorCode": code,
    }
    topics = [{"Name": "t", "Partitions": [row]}]
    return {"Groups": [{"GroupId": "g", "ErrorCode": 0, "Topics": topics}]}


def test_committed_offsets_are_listed(admin):
    responds(admin, OffsetFetch=fetched())
    expected = {ZERO: OffsetAndMetadata(5, "m", 2)}
    assert admin.list_group_offsets("g") == {"g": expected}
    assert last(admin)[1]["Groups"][0]["Topics"] is None
    assert admin.list_group_offsets({"g": [ZERO]}) == {"g": expected}
    assert admin.list_group_offsets(["g", "h"]) == {"g": expected, "h": expected}
    assert admin.list_consumer_group_offsets("g", partitions=[ZERO, ONE])[ONE].offset == -1
    with pytest.raises(ValueError, match="Empty group_specs"):
        admin.list_group_offsets({})
    responds(admin, OffsetFetch=fetched(3))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0"):
        admin.list_group_offsets("g")


def commit_response(*codes: int) -> dict[str, Any]:
    rows = [{"PartitionIndex": at, "ErrorCode": code} for at, code in enumerate(codes or (0,))]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}


def test_offsets_of_a_group_are_altered_and_deleted(admin):
    responds(admin, OffsetCommit=commit_response(25))
    assert admin.alter_group_offsets("g", {ZERO: OffsetAndMetadata(3)})[ZERO].errno == 25
    assert admin.alter_group_offsets("g", {}) == {}
    responds(admin, OffsetDelete={"ErrorCode": 0, **commit_response(86)})
    assert admin.delete_group_offsets("g", [ZERO])[ZERO].errno == 86
    assert admin.delete_group_offsets("g", []) == {}
    responds(admin, OffsetDelete={"ErrorCode": 69, "Topics": []})
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets("g", [ZERO])


def test_a_coordinator_that_moved_is_forgotten_although_a_partition_has_its_own_error(admin):
    responds(admin, OffsetCommit=[commit_response(3, 16), commit_response(3, 0)])
    offsets = {ZERO: OffsetAndMetadata(3), ONE: OffsetAndMetadata(4)}
    assert admin.alter_group_offsets("g", offsets) == {
        ZERO: UnknownTopicOrPartitionError,
        ONE: NoError,
    }
    assert admin._client.forgotten == [("group", "g")]
    first, second = admin._client.requests
    assert first == second


def test_if_the_coordinator_keeps_moving_its_partitions_get_the_error(admin):
    responds(admin, OffsetCommit=commit_response(3, 16))
    offsets = {ZERO: OffsetAndMetadata(3), ONE: OffsetAndMetadata(4)}
    assert admin.alter_group_offsets("g", offsets) == {
        ZERO: UnknownTopicOrPartitionError,
        ONE: NotCoordinatorError,
    }
    assert len(admin._client.forgotten) == len(admin._client.requests) - 1 > 0


@pytest.mark.parametrize(
    "spec, expected",
    [
        (OffsetSpec.EARLIEST, 2),
        (OffsetSpec.LATEST, 9),
        (OffsetTimestamp(100), 4),
        (OffsetTimestamp(10_000), 9),
        (7, 7),
        (0, 2),
        (1000, 9),
    ],
)
def test_offsets_of_a_group_are_reset_within_what_there_is(admin, spec, expected):
    def response(body: dict[str, Any]) -> dict[str, Any]:
        timestamp = body["Topics"][0]["Partitions"][0]["Timestamp"]
        return listed(p0=({-2: 2, -1: 9, 100: 4, 10_000: -1}[timestamp], 0))

    responds(
        admin,
        Metadata=metadata({ZERO: 1}),
        ListOffsets=response,
        OffsetFetch=fetched(),
        OffsetCommit=commit_response(),
    )
    assert admin.reset_group_offsets("g", {ZERO: spec}) == {
        ZERO: {"error": NoError, "offset": expected}
    }
    row = last(admin)[1]["Topics"][0]["Partitions"][0]
    assert (row["CommittedOffset"], row["CommittedMetadata"]) == (expected, "m")


@pytest.mark.parametrize("spec", [-1, -2, -5, OffsetTimestamp(-2)])
def test_a_negative_number_is_not_an_offset_of_a_group(admin, spec):
    with pytest.raises(
        ValueError, match=rf"{re.escape(repr(spec))} for t-0 is .* OffsetSpec\.EARL"
    ):
        admin.reset_group_offsets("g", {ONE: 5, ZERO: spec})
    assert admin._client.requests == []


def test_members_are_removed_by_new_and_old_brokers(admin):
    responds(
        admin,
        LeaveGroup={
            "ErrorCode": 0,
            "Members": [{"MemberId": "m", "GroupInstanceId": None, "ErrorCode": 25}],
        },
    )
    member = MemberToRemove("m", reason="why")
    assert admin.remove_group_members("g", [member])["m"].errno == 25
    assert last(admin)[1]["Members"][0]["Reason"] == "why"
    admin._client.versions["LeaveGroup"] = 2
    assert admin.remove_group_members("g", [member])["m"] is NoError
    assert last(admin)[1] == {"GroupId": "g", "MemberId": "m"}
    with pytest.raises(IncompatibleBrokerVersion):
        admin.remove_group_members("g", [MemberToRemove(group_instance_id="i")])
    assert admin.remove_group_members("g", []) == {}
    assert admin._client.forgotten == []
    responds(admin, LeaveGroup=[{"ErrorCode": 16}, {"ErrorCode": 25}])
    assert admin.remove_group_members("g", [member])["m"].errno == 25
    assert admin._client.forgotten == [("group", "g")]
    assert len({member, MemberToRemove("m", reason="why")}) == 1


def test_a_group_whose_coordinator_is_refused_does_not_hide_the_others(admin, caplog):
    def respond(body: dict[str, Any]) -> dict[str, Any]:
        (group,) = body["GroupsNames"]
        if group == "theirs":
            raise GroupAuthorizationFailedError("finding the coordinator of group 'theirs'")
        return {"Results": [{"GroupId": group, "ErrorCode": 0}]}

    responds(admin, DeleteGroups=respond)
    wanted = {"a": "OK", "theirs": "GroupAuthorizationFailedError", "b": "OK"}
    assert admin.delete_groups(["a", "theirs", "b"]) == wanted
    assert [kind for _, kind in admin.delete_consumer_groups(["theirs", "b"])] == [
        GroupAuthorizationFailedError,
        NoError,
    ]
    assert "coordinator of group 'theirs'" in caplog.text
    responds(admin, DescribeGroups=GroupAuthorizationFailedError("group 'theirs'"))
    found = admin.describe_groups(["theirs"])["theirs"]
    assert (found["group_id"], found["members"]) == ("theirs", [])
    assert "group 'theirs'" in found["error"]
    with pytest.raises(GroupAuthorizationFailedError, match="theirs"):
        admin.describe_consumer_groups(["theirs"])


@pytest.mark.parametrize(
    "error", [SaslAuthenticationFailedError("refused"), IncompatibleBrokerVersion("old")]
)
def test_an_error_of_the_client_is_not_that_of_a_group(admin, error):
    responds(admin, DeleteGroups=error, DescribeGroups=error)
    for call in (admin.delete_groups, admin.describe_groups):
        with pytest.raises(type(error)):
            call(["g"])
