"""The admin client's requests for partitions, offsets and replicas (on a fake core)."""

import re
from typing import Any

import pytest

from tests.unit.admin.responses import ONE, ZERO, last, listed, metadata, responds
from thalweg.admin.new_partitions import NewPartitions
from thalweg.admin.offsets import OffsetSpec
from thalweg.errors import (
    InvalidPartitionsError,
    KafkaConnectionError,
    KafkaTimeoutError,
    OffsetNotAvailableError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import OffsetAndTimestamp


def test_partitions_are_added_in_every_form(admin):
    row = {"Name": "t", "ErrorCode": 0, "ErrorMessage": None}
    responds(admin, CreatePartitions={"Results": [row]})
    for given, assignments in (
        (5, None),
        (NewPartitions(5), None),
        (NewPartitions(5, [[1, 2]]), [{"BrokerIds": [1, 2]}]),
        ({"count": 5, "assignments": [[1, 2]]}, [{"BrokerIds": [1, 2]}]),
        ({"count": 5}, None),
    ):
        response = admin.create_partitions({"t": given})
        assert response.results[0].name == response.results[0][0] == "t"
        assert response.results[0].error_code == response.results[0][1] == 0
        topic = last(admin)[1]["Topics"][0]
        assert topic == {"Name": "t", "Count": 5, "Assignments": assignments}
    result = {"name": "t", "error_code": 0, "error_message": None}
    assert response.to_dict() == {"throttle_time_ms": 0, "results": [result]}
    responds(admin, CreatePartitions={"Results": [{**row, "ErrorCode": 37}]})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({"t": 1})


def test_offsets_are_looked_up_at_each_leader(admin):
    def response(body: dict[str, Any]) -> dict[str, Any]:
        index = body["Topics"][0]["Partitions"][0]["PartitionIndex"]
        return listed(**{f"p{index}": (index + 5, 0)})

    responds(admin, Metadata=metadata({ZERO: 1, ONE: 2}), ListOffsets=response)
    found = admin.list_partition_offsets({ZERO: OffsetSpec.LATEST, ONE: 1234}, "read-committed")
    assert found == {ZERO: OffsetAndTimestamp(5, 100, 7), ONE: OffsetAndTimestamp(6, 100, 7)}
    asked = [(body, node) for api, body, node in admin._client.requests if api == "ListOffsets"]
    assert {node for _, node in asked} == {1, 2}
    assert all(body["IsolationLevel"] == 1 for body, _ in asked)
    assert {body["Topics"][0]["Partitions"][0]["Timestamp"] for body, _ in asked} == {-1, 1234}


def test_a_leader_that_moved_is_found_again(admin):
    responds(
        admin,
        Metadata=[metadata({ZERO: 1}), metadata({ZERO: -1}), metadata({ZERO: 2})],
        ListOffsets=[listed(p0=(-1, 6)), listed(p0=(9, 0))],
    )
    assert admin.list_partition_offsets({ZERO: OffsetSpec.LATEST})[ZERO].offset == 9
    assert last(admin)[2] == 2


def test_a_partition_that_does_not_exist_is_an_error(admin):
    responds(admin, Metadata=metadata({ZERO: 1}))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-1"):
        admin.list_partition_offsets({ONE: OffsetSpec.LATEST})
    with pytest.raises(TypeError, match="must be an OffsetSpec or an int"):
        admin.list_partition_offsets({ZERO: "latest"})


def test_records_are_deleted_at_each_leader(admin):
    row = {"PartitionIndex": 0, "LowWatermark": 5, "ErrorCode": 0}
    responds(
        admin,
        Metadata=metadata({ZERO: 1}),
        DeleteRecords=[
            {"Topics": [{"Name": "t", "Partitions": [{**row, "ErrorCode": 6}]}]},
            {"Topics": [{"Name": "t", "Partitions": [row]}]},
        ],
    )
    assert admin.delete_records({ZERO: 5}) == {
        ZERO: {"partition_index": 0, "low_watermark": 5, "error_code": 0}
    }
    responds(
        admin, DeleteRecords={"Topics": [{"Name": "t", "Partitions": [{**row, "ErrorCode": 3}]}]}
    )
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0"):
        admin.delete_records({ZERO: 5}, partition_leader_id=2)
    assert last(admin)[2] == 2


def test_leaders_are_elected_and_needless_elections_are_no_error(admin):
    row = {"PartitionId": 0, "ErrorCode": 84, "ErrorMessage": "not needed"}
    results = [{"Topic": "t", "PartitionResult": [row]}]
    responds(admin, ElectLeaders={"ErrorCode": 0, "ReplicaElectionResults": results})
    for given, asked in (
        (None, None),
        ({"t": [0]}, [{"Topic": "t", "Partitions": [0]}]),
        ([ZERO, ONE], [{"Topic": "t", "Partitions": [0, 1]}]),
    ):
        response = admin.elect_leaders(0, given)
        assert last(admin)[1]["TopicPartitions"] == asked
    result = response.replica_election_results[0]
    assert (response.error_code, result.topic, result[0]) == (0, "t", "t")
    assert result[1][0] == (0, 84, "not needed")
    assert result.partition_result[0].error_code == result[1][0][1] == 84
    assert response.to_dict()["replica_election_results"][0] == {
        "topic": "t",
        "partition_result": [{"partition_id": 0, "error_code": 84, "error_message": "not needed"}],
    }
    responds(admin, Metadata=metadata({ZERO: 1, ONE: 1}))
    admin.perform_leader_election(0, ["t"])
    assert last(admin)[1]["TopicPartitions"] == [{"Topic": "t", "Partitions": [0, 1]}]


def test_replicas_are_moved_and_moves_listed(admin):
    row = {"PartitionIndex": 0, "ErrorCode": 0, "ErrorMessage": None}
    top = {"ErrorCode": 0, "ErrorMessage": None}
    responds(
        admin,
        AlterPartitionReassignments={**top, "Responses": [{"Name": "t", "Partitions": [row]}]},
        ListPartitionReassignments={
            **top,
            "Topics": [
                {
                    "Name": "t",
                    "Partitions": [
                        {
                            "PartitionIndex": 0,
                            "Replicas": [1, 2],
                            "AddingReplicas": [2],
                            "RemovingReplicas": [],
                        }
                    ],
                }
            ],
        },
    )
    assert admin.alter_partition_reassignments({ZERO: [1, 2], ONE: None}) == {ZERO: None}
    rows = last(admin)[1]["Topics"][0]["Partitions"]
    assert [each["Replicas"] for each in rows] == [[1, 2], None]
    for bad in ([], ["1"]):
        with pytest.raises(ValueError, match="a list of one or more node IDs"):
            admin.alter_partition_reassignments({ZERO: bad})
    found = admin.list_partition_reassignments([ZERO])
    assert found[ZERO]["adding_replicas"] == [2]
    assert last(admin)[1]["Topics"] == [{"Name": "t", "PartitionIndexes": [0]}]


def test_topics_are_described_page_by_page(admin):
    response = {
        "Topics": [{"Name": "t", "Partitions": [], "TopicAuthorizedOperations": 8}],
        "NextCursor": {"TopicName": "t", "PartitionIndex": 5},
    }
    responds(admin, DescribeTopicPartitions=response)
    found = admin.describe_topic_partitions(["t"], 10)
    assert found["topics"][0]["topic_authorized_operations"] == ["READ"]
    admin.describe_topic_partitions(["t"], cursor=found["next_cursor"])
    assert last(admin)[1]["Cursor"] == {"TopicName": "t", "PartitionIndex": 5}


@pytest.mark.parametrize(
    "first",
    [
        listed(p0=(-1, 78)),  # OFFSET_NOT_AVAILABLE
        listed(p0=(-1, 75)),  # UNKNOWN_LEADER_EPOCH
        KafkaConnectionError("closed"),
        KafkaTimeoutError("no connection"),
    ],
)
def test_a_request_to_a_leader_that_fails_is_repeated(admin, first):
    responds(
        admin,
        Metadata=[metadata({ZERO: 1}), metadata({ZERO: 2})],
        ListOffsets=[first, listed(p0=(9, 0))],
    )
    assert admin.list_partition_offsets({ZERO: OffsetSpec.LATEST})[ZERO].offset == 9
    assert last(admin)[2] == 2


def test_the_last_error_of_a_leader_is_raised_at_the_limit(admin):
    responds(admin, Metadata=metadata({ZERO: 1}), ListOffsets=listed(p0=(-1, 78)))
    with pytest.raises(OffsetNotAvailableError, match=r"t-0: .*raise timeout_ms"):
        admin.list_partition_offsets({ZERO: OffsetSpec.LATEST}, timeout_ms=20)
    responds(admin, ListOffsets=KafkaConnectionError("closed"))
    with pytest.raises(KafkaConnectionError, match="closed"):
        admin.list_partition_offsets({ZERO: OffsetSpec.LATEST}, timeout_ms=20)


def test_an_election_for_a_topic_that_does_not_exist_is_an_error(admin):
    unknown = {"ErrorCode": 3, "Name": "typo", "Partitions": []}
    responds(admin, Metadata={"Topics": [unknown]})
    with pytest.raises(UnknownTopicOrPartitionError, match="typo"):
        admin.elect_leaders(0, ["typo"])


def test_quick_refusals_do_not_shorten_the_time_for_a_lost_connection(admin):
    refused = [listed(p0=(-1, 6))] * 10
    responds(
        admin,
        Metadata=metadata({ZERO: 1}),
        ListOffsets=[*refused, KafkaConnectionError("closed"), listed(p0=(9, 0))],
    )
    assert admin.list_partition_offsets({ZERO: OffsetSpec.LATEST})[ZERO].offset == 9


def test_a_connection_that_is_lost_while_leaders_are_looked_up_is_repeated(admin):
    responds(
        admin,
        Metadata=[KafkaConnectionError("closed"), metadata({ZERO: 1})],
        ListOffsets=listed(p0=(9, 0)),
    )
    assert admin.list_partition_offsets({ZERO: OffsetSpec.LATEST})[ZERO].offset == 9


@pytest.mark.parametrize("key", [("t", 0), "t", 7])
@pytest.mark.parametrize(
    "call",
    [
        lambda admin, key: admin.list_partition_offsets({key: OffsetSpec.LATEST}),
        lambda admin, key: admin.delete_records({key: -1}),
        lambda admin, key: admin.alter_partition_reassignments({key: [1]}),
        lambda admin, key: admin.reset_group_offsets("g", {key: 0}),
    ],
    ids=["list_partition_offsets", "delete_records", "reassignments", "reset_group_offsets"],
)
def test_a_key_that_is_no_partition_is_named(admin, call, key):
    with pytest.raises(TypeError, match=re.escape(f"one key is {type(key).__name__} {key!r}")):
        call(admin, key)
    assert admin._client.requests == []
