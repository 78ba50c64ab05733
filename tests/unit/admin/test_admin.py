"""The admin client's requests, which broker gets them, and the results (on a fake core)."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from thalweg._uuids import to_base64, to_uuid
from thalweg.admin import requests
from thalweg.admin.acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    operation_names,
)
from thalweg.admin.configs import AlterConfigOp, ConfigResource, ConfigResourceType
from thalweg.admin.groups import GroupState, MemberToRemove
from thalweg.admin.naming import snake_case, snake_keys
from thalweg.admin.offsets import IsolationLevel, OffsetSpec, OffsetTimestamp
from thalweg.admin.partitions import NewPartitions
from thalweg.admin.topics import NewTopic
from thalweg.admin.transactions import AbortTransactionSpec, TransactionState
from thalweg.admin.users import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import (
    ClusterAuthorizationFailedError,
    GroupIdNotFoundError,
    IllegalArgumentError,
    IncompatibleBrokerVersion,
    InvalidPartitionsError,
    KafkaTimeoutError,
    NoError,
    NotControllerError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    TopicPartitionReplica,
)

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def admin(fake) -> Any:
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1",
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
        default_api_timeout_ms=50,
    )
    yield client
    client.close()


def last(admin: Any) -> tuple[str, dict[str, Any], Any]:
    found: tuple[str, dict[str, Any], Any] = admin._client.requests[-1]
    return found


def answers(admin: Any, **given: Any) -> None:
    admin._client.answers.update(given)


def metadata(leaders: dict[TopicPartition, int], **more: Any) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), leader in leaders.items():
        topics.setdefault(topic, []).append(
            {
                "PartitionIndex": partition,
                "LeaderId": leader,
                "LeaderEpoch": 0,
                "ReplicaNodes": [1, 2],
                "IsrNodes": [1],
                "OfflineReplicas": [],
                "ErrorCode": 0,
            }
        )
    return {
        "Topics": [
            {
                "Name": name,
                "TopicId": ZERO_ID,
                "ErrorCode": 0,
                "IsInternal": False,
                "Partitions": rows,
                "TopicAuthorizedOperations": -(2**31),
            }
            for name, rows in topics.items()
        ],
        **more,
    }


# ---------------------------------------------------------------- names and values


@pytest.mark.parametrize(
    "name, expected",
    [
        ("TopicAuthorizedOperations", "topic_authorized_operations"),
        ("timeoutMs", "timeout_ms"),
        ("IsrNodes", "isr_nodes"),
        ("LastKnownElr", "last_known_elr"),
        ("ErrorCode", "error_code"),
        ("Name", "name"),
    ],
)
def test_field_names_become_snake_case(name, expected):
    assert snake_case(name) == expected


def test_answers_become_python_values():
    given = {"ThrottleTimeMs": 5, "Topics": [{"TopicId": ZERO_ID, "Configs": {"A": None}}]}
    assert snake_keys(given) == {"topics": [{"topic_id": uuid.UUID(int=0), "configs": {"a": None}}]}
    some = uuid.uuid4()
    assert to_uuid(to_base64(some)) == some
    assert len(to_base64(some)) == 22


@pytest.mark.parametrize(
    "given",
    [OffsetSpec.EARLIEST, -2, "earliest", "EARLIEST", " Earliest "],
)
def test_enums_take_many_spellings(given):
    assert OffsetSpec.build_from(given) is OffsetSpec.EARLIEST
    assert OffsetSpec.value_for(given) == -2
    with pytest.raises(ValueError, match="Unrecognized OffsetSpec: soon"):
        OffsetSpec.build_from("soon")


def test_enums_of_text_take_names_and_wire_values():
    assert GroupState.value_for("preparing-rebalance") == "PreparingRebalance"
    assert GroupState.build_from("Stable") is GroupState.STABLE
    assert ScramMechanism.build_from("scram-sha-256") is ScramMechanism.SCRAM_SHA_256
    assert repr(OffsetTimestamp(5)) == "OffsetTimestamp(5)"


def test_operations_are_named():
    assert operation_names(-(2**31)) is None
    assert operation_names(None) is None
    assert operation_names(1 << 3 | 1 << 8) == ["READ", "DESCRIBE"]
    assert operation_names(0) == []


# ---------------------------------------------------------------- topics


def created(*codes: int) -> dict[str, Any]:
    return {
        "Topics": [
            {
                "Name": f"t{i}",
                "ErrorCode": code,
                "ErrorMessage": "said the broker" if code else None,
            }
            for i, code in enumerate(codes)
        ]
    }


@pytest.mark.parametrize(
    "given",
    [
        [NewTopic("t0", 3, 2, topic_configs={"retention.ms": -1})],
        {
            "t0": {
                "num_partitions": 3,
                "replication_factor": 2,
                "configs": {"retention.ms": -1},
            }
        },
    ],
)
def test_topics_are_made_in_every_form(admin, given):
    answers(admin, CreateTopics=created(0))
    assert admin.create_topics(given) == {
        "topics": [{"name": "t0", "error_code": 0, "error_message": None}]
    }
    api, body, node = last(admin)
    assert (api, node) == ("CreateTopics", "controller")
    assert body == {
        "Topics": [
            {
                "Name": "t0",
                "NumPartitions": 3,
                "ReplicationFactor": 2,
                "Assignments": [],
                "Configs": [{"Name": "retention.ms", "Value": "-1"}],
            }
        ],
        "timeoutMs": 30000,
        "validateOnly": False,
    }


def test_names_alone_and_assignments(admin):
    answers(admin, CreateTopics=created(0))
    admin.create_topics(["t0"], timeout_ms=5, validate_only=True)
    body = last(admin)[1]
    assert (body["timeoutMs"], body["validateOnly"]) == (5, True)
    assert body["Topics"][0]["NumPartitions"] == body["Topics"][0]["ReplicationFactor"] == -1
    admin.create_topics([NewTopic("t0", 9, 9, replica_assignments={0: [1, 2]})])
    topic = last(admin)[1]["Topics"][0]
    assert topic["Assignments"] == [{"PartitionIndex": 0, "BrokerIds": [1, 2]}]
    assert topic["NumPartitions"] == -1


@pytest.mark.parametrize("given", [[], {}])
def test_no_topics_is_a_value_error(admin, given):
    with pytest.raises(ValueError, match="No valid topics"):
        admin.create_topics(given)


def test_one_str_is_a_type_error(admin):
    for call in (admin.create_topics, admin.delete_topics):
        with pytest.raises(TypeError, match="not one str"):
            call("topic")


def test_the_first_topics_error_is_raised_or_told(admin):
    answers(admin, CreateTopics=created(0, 36, 37))
    with pytest.raises(TopicAlreadyExistsError, match=r"topic 't1': said the broker"):
        admin.create_topics(["t0", "t1", "t2"])
    found = admin.create_topics(["t0", "t1", "t2"], raise_errors=False)
    assert [row["error_code"] for row in found["topics"]] == [0, 36, 37]


def test_a_controller_that_moved_is_found_again(admin):
    answers(admin, CreateTopics=[created(41), created(0)], Metadata=metadata({}))
    admin.create_topics(["t0"])
    assert [api for api, *_ in admin._client.requests] == [
        "CreateTopics",
        "Metadata",
        "CreateTopics",
    ]


def test_waits_between_tries_double_up_to_their_limit_each_with_its_jitter(fake, monkeypatch):
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr(requests, "time", clock)
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1", retry_backoff_ms=100, retry_backoff_max_ms=300
    )
    refused = [created(41)] * 5
    answers(client, CreateTopics=[*refused, created(0)], Metadata=metadata({}))
    client.create_topics(["t0"])
    for wait, around in zip(waits, [0.1, 0.2, 0.3, 0.3, 0.3], strict=True):
        assert wait == pytest.approx(around, rel=0.21)
    assert len(set(waits)) == 5
    client.close()


def test_no_wait_goes_past_the_calls_limit(fake, monkeypatch):
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr(requests, "time", clock)
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1",
        retry_backoff_ms=100,
        retry_backoff_max_ms=100,
        default_api_timeout_ms=50,
    )
    answers(client, CreateTopics=created(41), Metadata=metadata({}))
    with pytest.raises(NotControllerError):
        client.create_topics(["t0"])
    assert waits == []
    client.close()


def test_topics_are_waited_for_until_all_partitions_have_leaders(admin):
    answers(
        admin,
        CreateTopics=created(0),
        Metadata=[metadata({}), metadata({ZERO: -1}), metadata({TopicPartition("t0", 0): 1})],
    )
    admin.create_topics(["t0"], wait_for_metadata=True)
    with pytest.raises(ValueError, match="mutually exclusive"):
        admin.create_topics(["t0"], validate_only=True, wait_for_metadata=True)
    answers(admin, Metadata=metadata({ZERO: -1}))
    with pytest.raises(KafkaTimeoutError, match="p0=no leader"):
        admin.wait_for_topics(["t"], timeout_ms=1)
    admin.wait_for_topics([])


def test_topics_are_listed_and_described_under_both_dialects_names(admin):
    answers(admin, Metadata=metadata({ZERO: 1, ONE: 2}))
    assert admin.list_topics() == ["t"]
    topic = admin.describe_topics(["t"])[0]
    assert topic["name"] == topic["topic"] == "t"
    assert topic["topic_id"] == uuid.UUID(int=0)
    assert topic["authorized_operations"] is None
    row = topic["partitions"][1]
    assert row["partition_index"] == row["partition"] == 1
    assert row["leader_id"] == row["leader"] == 2
    assert row["replica_nodes"] == row["replicas"] == [1, 2]
    assert row["isr_nodes"] == row["isr"] == [1]
    body = last(admin)[1]
    assert body["Topics"] == [{"Name": "t"}]
    assert body["AllowAutoTopicCreation"] is False


def test_topics_are_described_by_id_where_brokers_can(admin):
    answers(admin, Metadata=metadata({}))
    admin.describe_topics([uuid.UUID(int=0)])
    assert last(admin)[1]["Topics"] == [{"Name": None, "TopicId": ZERO_ID}]
    admin.describe_topics()
    assert last(admin)[1]["Topics"] is None


def test_old_brokers_are_not_asked_for_operations(admin):
    answers(admin, Metadata=metadata({}))
    admin._client.versions["Metadata"] = 7
    admin.describe_topics()
    assert "IncludeTopicAuthorizedOperations" not in last(admin)[1]


def test_topics_are_deleted_by_name_and_id(admin):
    row = {"Name": "t", "TopicId": ZERO_ID, "ErrorCode": 0, "ErrorMessage": None}
    answers(admin, DeleteTopics={"Responses": [row]})
    found = admin.delete_topics(["t", uuid.UUID(int=0)])
    assert found["topics"][0]["name"] == "t"
    assert last(admin)[1]["Topics"] == [{"Name": "t"}, {"Name": None, "TopicId": ZERO_ID}]
    admin._client.versions["DeleteTopics"] = 5
    admin.delete_topics(["t"])
    assert last(admin)[1]["TopicNames"] == ["t"]
    answers(admin, DeleteTopics={"Responses": [{**row, "ErrorCode": 3}]})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["t"])


# ---------------------------------------------------------------- partitions


def test_partitions_are_added_in_every_form(admin):
    row = {"Name": "t", "ErrorCode": 0, "ErrorMessage": None}
    answers(admin, CreatePartitions={"Results": [row]})
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
    answers(admin, CreatePartitions={"Results": [{**row, "ErrorCode": 37}]})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({"t": 1})


def listed(**offsets: tuple[int, int]) -> dict[str, Any]:
    """Makes a ListOffsets response: p0=(offset, error code)."""
    rows = [
        {
            "PartitionIndex": int(name[1:]),
            "Offset": offset,
            "Timestamp": 100,
            "LeaderEpoch": 7,
            "ErrorCode": code,
        }
        for name, (offset, code) in offsets.items()
    ]
    return {"Topics": [{"Name": "t", "Partitions": rows}]}


def test_offsets_are_looked_up_at_each_leader(admin):
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        index = body["Topics"][0]["Partitions"][0]["PartitionIndex"]
        return listed(**{f"p{index}": (index + 5, 0)})

    answers(admin, Metadata=metadata({ZERO: 1, ONE: 2}), ListOffsets=answer)
    found = admin.list_partition_offsets({ZERO: OffsetSpec.LATEST, ONE: 1234}, "read-committed")
    assert found == {ZERO: OffsetAndTimestamp(5, 100, 7), ONE: OffsetAndTimestamp(6, 100, 7)}
    asked = [(body, node) for api, body, node in admin._client.requests if api == "ListOffsets"]
    assert {node for _, node in asked} == {1, 2}
    assert all(body["IsolationLevel"] == 1 for body, _ in asked)
    assert {body["Topics"][0]["Partitions"][0]["Timestamp"] for body, _ in asked} == {-1, 1234}


def test_a_leader_that_moved_is_found_again(admin):
    answers(
        admin,
        Metadata=[metadata({ZERO: 1}), metadata({ZERO: -1}), metadata({ZERO: 2})],
        ListOffsets=[listed(p0=(-1, 6)), listed(p0=(9, 0))],
    )
    assert admin.list_partition_offsets({ZERO: OffsetSpec.LATEST})[ZERO].offset == 9
    assert last(admin)[2] == 2


def test_a_partition_that_does_not_exist_is_an_error(admin):
    answers(admin, Metadata=metadata({ZERO: 1}))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-1"):
        admin.list_partition_offsets({ONE: OffsetSpec.LATEST})
    with pytest.raises(TypeError, match="Unsupported ts type"):
        admin.list_partition_offsets({ZERO: "latest"})


def test_records_are_deleted_at_each_leader(admin):
    row = {"PartitionIndex": 0, "LowWatermark": 5, "ErrorCode": 0}
    answers(
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
    answers(
        admin, DeleteRecords={"Topics": [{"Name": "t", "Partitions": [{**row, "ErrorCode": 3}]}]}
    )
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0"):
        admin.delete_records({ZERO: 5}, partition_leader_id=2)
    assert last(admin)[2] == 2


def test_leaders_are_elected_and_needless_elections_are_no_error(admin):
    row = {"PartitionId": 0, "ErrorCode": 84, "ErrorMessage": "not needed"}
    results = [{"Topic": "t", "PartitionResult": [row]}]
    answers(admin, ElectLeaders={"ErrorCode": 0, "ReplicaElectionResults": results})
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
    answers(admin, Metadata=metadata({ZERO: 1, ONE: 1}))
    admin.perform_leader_election(0, ["t"])
    assert last(admin)[1]["TopicPartitions"] == [{"Topic": "t", "Partitions": [0, 1]}]


def test_replicas_are_moved_and_moves_listed(admin):
    row = {"PartitionIndex": 0, "ErrorCode": 0, "ErrorMessage": None}
    top = {"ErrorCode": 0, "ErrorMessage": None}
    answers(
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
        with pytest.raises(ValueError, match="must be non-empty, of int"):
            admin.alter_partition_reassignments({ZERO: bad})
    found = admin.list_partition_reassignments([ZERO])
    assert found[ZERO]["adding_replicas"] == [2]
    assert last(admin)[1]["Topics"] == [{"Name": "t", "PartitionIndexes": [0]}]


def test_topics_are_described_page_by_page(admin):
    answer = {
        "Topics": [{"Name": "t", "Partitions": [], "TopicAuthorizedOperations": 8}],
        "NextCursor": {"TopicName": "t", "PartitionIndex": 5},
    }
    answers(admin, DescribeTopicPartitions=answer)
    found = admin.describe_topic_partitions(["t"], 10)
    assert found["topics"][0]["topic_authorized_operations"] == ["READ"]
    admin.describe_topic_partitions(["t"], cursor=found["next_cursor"])
    assert last(admin)[1]["Cursor"] == {"TopicName": "t", "PartitionIndex": 5}


# ---------------------------------------------------------------- the cluster


def test_the_cluster_is_described_by_old_brokers_too(admin):
    broker = {"Host": "h", "Port": 1, "Rack": None}
    answers(
        admin,
        DescribeCluster={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "ClusterId": "c",
            "ControllerId": 1,
            "Brokers": [{"BrokerId": 1, **broker, "IsFenced": False}],
            "ClusterAuthorizedOperations": 1 << 5,
        },
        Metadata={
            "ClusterId": "c",
            "ControllerId": 1,
            "Brokers": [{"NodeId": 1, **broker}],
            "Topics": [],
        },
    )
    found = admin.describe_cluster()
    assert (found["cluster_id"], found["controller_id"]) == ("c", 1)
    assert found["brokers"][0]["broker_id"] == found["brokers"][0]["node_id"] == 1
    assert found["authorized_operations"] == ["CREATE"]
    admin._client.versions["DescribeCluster"] = 1
    admin.describe_cluster()
    assert "IncludeFencedBrokers" not in last(admin)[1]
    admin._client.versions["DescribeCluster"] = IncompatibleBrokerVersion("old")
    found = admin.describe_cluster()
    assert found["brokers"][0]["broker_id"] == 1
    assert "topics" not in found


def test_features_are_described_and_updated(admin):
    answers(
        admin,
        ApiVersions={
            "ErrorCode": 0,
            "SupportedFeatures": [{"Name": "f", "MinVersion": 1, "MaxVersion": 3}],
            "FinalizedFeaturesEpoch": 9,
            "FinalizedFeatures": [{"Name": "f", "MinVersionLevel": 1, "MaxVersionLevel": 2}],
        },
        UpdateFeatures={"ErrorCode": 0, "ErrorMessage": None},
    )
    assert admin.describe_features() == {
        "f": {"supported": (1, 3), "finalized": (1, 2), "finalized_epoch": 9}
    }
    assert admin.update_features({"f": 3, "g": ("safe-downgrade", 1)}) == {"f": "OK", "g": "OK"}
    updates = last(admin)[1]["FeatureUpdates"]
    assert [each["UpgradeType"] for each in updates] == [1, 2]
    admin._client.versions["UpdateFeatures"] = 0
    with pytest.raises(IncompatibleBrokerVersion):
        admin.update_features({"f": 3}, validate_only=True)
    assert admin.update_features({"f": 3}) == {"f": "OK"}
    assert last(admin)[1]["FeatureUpdates"][0]["AllowDowngrade"] is False


def test_log_dirs_quorum_and_versions(admin):
    answers(
        admin,
        DescribeLogDirs={"Results": [{"LogDir": "/d", "ErrorCode": 0, "Topics": []}]},
        AlterReplicaLogDirs={
            "Results": [{"TopicName": "t", "Partitions": [{"PartitionIndex": 0, "ErrorCode": 57}]}]
        },
        DescribeQuorum={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Topics": [{"TopicName": "x", "Partitions": [{"ErrorCode": 0, "LeaderId": 1}]}],
            "Nodes": [],
        },
    )
    assert [each["broker"] for each in admin.describe_log_dirs()] == [1, 2]
    assert admin.describe_log_dirs(brokers=[2])[0]["log_dirs"][0]["log_dir"] == "/d"
    moved = admin.alter_replica_log_dirs({("t", 0, 2): "/e"})
    assert moved[TopicPartitionReplica("t", 0, 2)].errno == 57
    assert last(admin)[2] == 2
    quorum = admin.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["error"] is None
    assert admin.api_versions()["Produce"] == (0, 12)
    assert admin.get_broker_version_data(1)["Produce"] == (0, 12)


def test_a_broker_that_tells_no_log_dirs_is_an_error(admin):
    answers(admin, DescribeLogDirs={"ErrorCode": 31, "Results": []})
    with pytest.raises(ClusterAuthorizationFailedError):
        admin.describe_log_dirs(brokers=[1])


# ---------------------------------------------------------------- options


def described(*entries: tuple[str, str | None, int, bool]) -> dict[str, Any]:
    """Makes a DescribeConfigs response: (name, value, source, read only)."""
    return {
        "Results": [
            {
                "ErrorCode": 0,
                "ErrorMessage": None,
                "ResourceType": 2,
                "ResourceName": "t",
                "Configs": [
                    {
                        "Name": name,
                        "Value": value,
                        "ReadOnly": read_only,
                        "ConfigSource": source,
                        "IsSensitive": False,
                        "Synonyms": [{"Name": name, "Value": "1", "Source": 5}],
                        "ConfigType": 5,
                    }
                    for name, value, source, read_only in entries
                ],
            }
        ]
    }


ENTRIES = described(("set", "1", 1, False), ("default", "2", 5, False), ("fixed", "3", 4, True))
OF_ALL_BROKERS = described(("cluster-wide", "1", 3, False))


@pytest.mark.parametrize(
    "config_filter, names",
    [
        ("modified", {"set"}),
        ("dynamic", {"set", "default"}),
        ("all", {"set", "default", "fixed"}),
        ("default", {"default", "fixed"}),
        ("static", {"fixed"}),
    ],
)
def test_options_are_described_and_filtered(admin, config_filter, names):
    answers(admin, DescribeConfigs=ENTRIES)
    found = admin.describe_configs([ConfigResource("topic", "t")], config_filter=config_filter)
    assert set(found["topic"]["t"]) == names
    entry = next(iter(found["topic"]["t"].values()))
    assert entry["config_type"] == "LONG"
    assert entry["synonyms"][0]["source"] == "DEFAULT_CONFIG"


def test_what_is_set_for_the_whole_cluster_is_not_the_resources_own(admin):
    answers(admin, DescribeConfigs=OF_ALL_BROKERS)
    assert admin.describe_configs([ConfigResource("topic", "t")]) == {"topic": {"t": {}}}


def test_brokers_options_are_asked_of_that_broker(admin):
    answers(admin, DescribeConfigs=described())
    for name in ("2", 2):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, name)])
        assert last(admin)[1]["Resources"][0]["ResourceName"] == "2"
        assert last(admin)[2] == 2
    with pytest.raises(ValueError, match="must be its node id"):
        admin.describe_configs([ConfigResource("BROKER", "second")])


def altered(code: int = 0) -> dict[str, Any]:
    row = {"ErrorCode": code, "ErrorMessage": "no", "ResourceType": 2, "ResourceName": "t"}
    return {"Responses": [row]}


def test_options_are_set_one_by_one(admin):
    answers(admin, DescribeConfigs=ENTRIES, IncrementalAlterConfigs=altered())
    resource = ConfigResource("topic", "t", {"set": 5, "default": (AlterConfigOp.DELETE, "x")})
    assert admin.alter_configs([resource]) == {"topic": {"t": "OK"}}
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [
        {"Name": "set", "Value": "5", "ConfigOperation": 0},
        {"Name": "default", "Value": None, "ConfigOperation": 1},
    ]
    with pytest.raises(ValueError, match="Unrecognized configs: "):
        admin.alter_configs([ConfigResource("topic", "t", {"nonsense": 1})])
    answers(admin, IncrementalAlterConfigs=altered(40))
    found = admin.alter_configs([resource], raise_on_unknown=False)
    assert "InvalidConfigurationError: no" in found["topic"]["t"]


def test_old_brokers_are_told_what_is_set_already(admin):
    admin._client.versions["IncrementalAlterConfigs"] = IncompatibleBrokerVersion("old")
    answers(admin, DescribeConfigs=ENTRIES, AlterConfigs=altered())
    admin.alter_configs([ConfigResource("topic", "t", {"default": 7})])
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [{"Name": "set", "Value": "1"}, {"Name": "default", "Value": "7"}]
    with pytest.raises(ValueError, match="can only SET"):
        admin.alter_configs([ConfigResource("topic", "t", {"set": ("append", "7")})])


def test_options_are_reset(admin):
    answers(
        admin, DescribeConfigs=ENTRIES, IncrementalAlterConfigs=altered(), AlterConfigs=altered()
    )
    admin.reset_configs([ConfigResource("topic", "t")])
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [{"Name": "set", "Value": None, "ConfigOperation": 1}]
    admin.reset_configs([ConfigResource("topic", "t", ["set"])], incremental=False)
    assert last(admin)[1]["Resources"][0]["Configs"] == []


def test_resources_with_options_are_listed(admin):
    rows = [{"ResourceName": "g", "ResourceType": 32}, {"ResourceName": "h", "ResourceType": 32}]
    answers(admin, ListConfigResources={"ErrorCode": 0, "ConfigResources": rows})
    assert admin.list_config_resources(["group"]) == {"group": ["g", "h"]}
    assert last(admin)[1] == {"ResourceTypes": [32]}


# ---------------------------------------------------------------- groups


def test_groups_are_listed_at_every_broker(admin):
    row = {
        "GroupId": "g",
        "ProtocolType": "consumer",
        "GroupState": "Stable",
        "GroupType": "classic",
    }
    answers(admin, ListGroups={"ErrorCode": 0, "Groups": [row]})
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
    answers(admin, DescribeGroups={"Groups": [group]})
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
    answers(admin, DescribeGroups={"Groups": [{**group, "ErrorCode": 69, "Members": []}]})
    assert "GroupIdNotFoundError" in admin.describe_groups(["g"])["g"]["error"]
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_consumer_groups(["g"])


def test_a_group_coordinator_that_moved_is_forgotten(admin):
    answers(
        admin,
        DeleteGroups=[
            {"Results": [{"GroupId": "g", "ErrorCode": 16}]},
            {"Results": [{"GroupId": "g", "ErrorCode": 0}]},
        ],
    )
    assert admin.delete_groups(["g"]) == {"g": "OK"}
    assert admin._client.forgotten == [("group", "g")]


def test_groups_are_deleted_with_each_outcome(admin):
    answers(admin, DeleteGroups={"Results": [{"GroupId": "g", "ErrorCode": 68}]})
    assert admin.delete_groups(["g"]) == {"g": "NonEmptyGroupError"}
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
    answers(admin, OffsetFetch=fetched())
    expected = {ZERO: OffsetAndMetadata(5, "m", 2)}
    assert admin.list_group_offsets("g") == {"g": expected}
    assert last(admin)[1]["Groups"][0]["Topics"] is None
    assert admin.list_group_offsets({"g": [ZERO]}) == {"g": expected}
    assert admin.list_group_offsets(["g", "h"]) == {"g": expected, "h": expected}
    assert admin.list_consumer_group_offsets("g", partitions=[ZERO, ONE])[ONE].offset == -1
    with pytest.raises(ValueError, match="Empty group_specs"):
        admin.list_group_offsets({})
    answers(admin, OffsetFetch=fetched(3))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0"):
        admin.list_group_offsets("g")


def commit_answer(code: int = 0) -> dict[str, Any]:
    return {"Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "ErrorCode": code}]}]}


def test_offsets_of_a_group_are_altered_and_deleted(admin):
    answers(admin, OffsetCommit=commit_answer(25))
    assert admin.alter_group_offsets("g", {ZERO: OffsetAndMetadata(3)})[ZERO].errno == 25
    assert admin.alter_group_offsets("g", {}) == {}
    answers(admin, OffsetDelete={"ErrorCode": 0, **commit_answer(86)})
    assert admin.delete_group_offsets("g", [ZERO])[ZERO].errno == 86
    assert admin.delete_group_offsets("g", []) == {}
    answers(admin, OffsetDelete={"ErrorCode": 69, "Topics": []})
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets("g", [ZERO])


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
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        timestamp = body["Topics"][0]["Partitions"][0]["Timestamp"]
        return listed(p0=({-2: 2, -1: 9, 100: 4, 10_000: -1}[timestamp], 0))

    answers(
        admin,
        Metadata=metadata({ZERO: 1}),
        ListOffsets=answer,
        OffsetFetch=fetched(),
        OffsetCommit=commit_answer(),
    )
    assert admin.reset_group_offsets("g", {ZERO: spec}) == {
        ZERO: {"error": NoError, "offset": expected}
    }
    row = last(admin)[1]["Topics"][0]["Partitions"][0]
    assert (row["CommittedOffset"], row["CommittedMetadata"]) == (expected, "m")


def test_members_are_removed_by_new_and_old_brokers(admin):
    answers(
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
    assert len({member, MemberToRemove("m", reason="why")}) == 1


# ---------------------------------------------------------------- ACLs, users, transactions


PATTERN = ResourcePattern(ResourceType.TOPIC, "t")
ENTRY = ACL("User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, PATTERN)
FILTER = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)
WIRE = {"Principal": "User:a", "Host": "*", "Operation": 3, "PermissionType": 3}
RESOURCE = {"ResourceType": 2, "ResourceName": "t", "PatternType": 3}


def test_acls_are_described_created_and_deleted(admin):
    answers(
        admin,
        DescribeAcls={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Resources": [{**RESOURCE, "Acls": [WIRE]}],
        },
        CreateAcls={"Results": [{"ErrorCode": 0, "ErrorMessage": None}]},
        DeleteAcls={
            "FilterResults": [
                {
                    "ErrorCode": 0,
                    "ErrorMessage": None,
                    "MatchingAcls": [{"ErrorCode": 0, "ErrorMessage": None, **RESOURCE, **WIRE}],
                }
            ]
        },
    )
    assert admin.describe_acls(FILTER) == ([ENTRY], NoError)
    assert last(admin)[1]["ResourceNameFilter"] is None
    assert admin.create_acls([ENTRY]) == {"succeeded": [ENTRY], "failed": []}
    assert admin.delete_acls([FILTER]) == [(FILTER, [ENTRY], NoError)]
    with pytest.raises(IllegalArgumentError):
        admin.create_acls([FILTER])
    with pytest.raises(IllegalArgumentError):
        admin.delete_acls(["x"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ResourcePattern(ResourceType.ANY, "t"),
        lambda: ResourcePattern(ResourceType.TOPIC, "t", ACLResourcePatternType.MATCH),
        lambda: ResourcePattern("TOPIC", "t"),  # type: ignore[arg-type]
        lambda: ACL("u", "*", ACLOperation.ANY, ACLPermissionType.ALLOW, PATTERN),
        lambda: ACL("u", "*", ACLOperation.READ, ACLPermissionType.ANY, PATTERN),
        lambda: ACL("u", "*", ACLOperation.READ, ACLPermissionType.ALLOW, FILTER),  # type: ignore[arg-type]
        lambda: ACLFilter("u", "*", "READ", ACLPermissionType.ALLOW, PATTERN),  # type: ignore[arg-type]
    ],
)
def test_acls_that_make_no_sense_cannot_be_made(make):
    with pytest.raises(IllegalArgumentError):
        make()


def test_scram_credentials_send_no_password(admin):
    row = {"User": "u", "ErrorCode": 0, "ErrorMessage": None}
    infos = [{"Mechanism": 1, "Iterations": 4096}]
    answers(
        admin,
        AlterUserScramCredentials={"Results": [row]},
        DescribeUserScramCredentials={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Results": [{**row, "CredentialInfos": infos}],
        },
    )
    upsertion = UserScramCredentialUpsertion("u", "scram-sha-256", "hunter2", salt=b"salt")
    assert admin.alter_user_scram_credentials([upsertion, UserScramCredentialDeletion("v", 2)]) == {
        "u": None
    }
    body = last(admin)[1]
    assert "hunter2" not in repr(body) + repr(upsertion)
    assert len(body["Upsertions"][0]["SaltedPassword"]) == 32
    assert body["Deletions"] == [{"Name": "v", "Mechanism": 2}]
    found = admin.describe_user_scram_credentials(["u"])
    assert found["u"]["credential_infos"][0]["mechanism"] is ScramMechanism.SCRAM_SHA_256
    with pytest.raises(IllegalArgumentError):
        admin.alter_user_scram_credentials(["x"])
    with pytest.raises(IllegalArgumentError, match="UNKNOWN"):
        UserScramCredentialUpsertion("u", 0, "p")


def test_transactions_are_listed_described_and_aborted(admin):
    answers(
        admin,
        Metadata=metadata({ZERO: 2}),
        ListTransactions={
            "ErrorCode": 0,
            "TransactionStates": [
                {"TransactionalId": "x", "ProducerId": 7, "TransactionState": "Ongoing"}
            ],
        },
        DescribeTransactions={
            "TransactionStates": [
                {
                    "ErrorCode": 0,
                    "TransactionalId": "x",
                    "TransactionState": "Ongoing",
                    "TransactionTimeoutMs": 1,
                    "TransactionStartTimeMs": 5,
                    "ProducerId": 7,
                    "ProducerEpoch": 1,
                    "Topics": [{"Topic": "t", "Partitions": [0]}],
                }
            ]
        },
        FindCoordinator={"Coordinators": [{"NodeId": 2, "Key": "x"}]},
        DescribeProducers={
            "Topics": [
                {
                    "Name": "t",
                    "Partitions": [
                        {
                            "PartitionIndex": 0,
                            "ErrorCode": 0,
                            "ErrorMessage": None,
                            "ActiveProducers": [
                                {
                                    "ProducerId": 7,
                                    "ProducerEpoch": 1,
                                    "LastSequence": 3,
                                    "LastTimestamp": 4,
                                    "CoordinatorEpoch": 0,
                                    "CurrentTxnStartOffset": 9,
                                }
                            ],
                        }
                    ],
                }
            ]
        },
        WriteTxnMarkers={
            "Markers": [{"Topics": [{"Partitions": [{"PartitionIndex": 0, "ErrorCode": 0}]}]}]
        },
    )
    listing = admin.list_transactions(broker_ids=[1], state_filters=["ongoing"])[1][0]
    assert (listing.transactional_id, listing.state) == ("x", TransactionState.ONGOING)
    assert last(admin)[1]["StateFilters"] == ["Ongoing"]
    description = admin.describe_transactions(["x"])["x"]
    assert description.coordinator_id == 2
    assert description.topic_partitions == {ZERO}
    hanging = admin.find_hanging_transactions([1])
    assert hanging[0]["transactional_id"] == "x"
    state = admin.describe_producers([ZERO])[ZERO].active_producers[0]
    assert (state.producer_id, state.current_transaction_start_offset) == (7, 9)
    admin.abort_transaction(AbortTransactionSpec(ZERO, 7, 1))
    api, body, node = last(admin)
    assert (api, node) == ("WriteTxnMarkers", 2)
    assert body["Markers"][0]["CoordinatorEpoch"] == -1


# ---------------------------------------------------------------- the client itself


def test_it_is_made_named_and_closed(fake):
    with fake.admin.KafkaAdminClient.from_config({"bootstrap.servers": "a:1"}) as admin:
        assert admin._client.config["bootstrap_servers"] == [("a", 1)]
        assert admin.config["client_id"].startswith("thalweg-admin-")
        assert admin.bootstrap_connected()
    assert admin.closed
    assert int(IsolationLevel.READ_COMMITTED) == 1


@pytest.mark.parametrize(
    "call, problem",
    [
        (
            lambda a: a.alter_group_offsets("g", {ZERO: "5"}),
            "offsets must be .*the value of t-0 is str",
        ),
        (lambda a: a.alter_group_offsets("g", [ZERO]), "offsets must be .*got list"),
        (lambda a: a.reset_group_offsets("g", [ZERO]), "offset_specs must be .*got list"),
        (lambda a: a.delete_group_offsets("g", [("t",)]), r"partitions must be .*partitions\[0\]"),
        (
            lambda a: a.describe_configs(["work"]),
            r"\[0\] is str 'work': use ConfigResource\('topic'",
        ),
        (lambda a: a.describe_configs("work"), "config_resources must be .*got str"),
        (lambda a: a.describe_configs(ConfigResource("topic", "t")), "got ConfigResource"),
        (lambda a: a.alter_configs({"topic": "t"}), "config_resources must be .*got dict"),
        (lambda a: a.reset_configs([5]), r"\[0\] is int 5$"),
        (lambda a: a.delete_records([ZERO]), "records_to_delete must be .*got list"),
        (lambda a: a.list_partition_offsets([ZERO]), "topic_partition_specs must be .*got list"),
    ],
)
def test_a_wrong_argument_is_named_before_a_broker_is_asked(admin, call, problem):
    with pytest.raises(TypeError, match=problem):
        call(admin)
    assert admin._client.requests == []
