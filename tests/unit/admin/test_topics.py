"""The admin client's requests for topics and their results (on a fake core)."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.admin.responses import ONE, ZERO, ZERO_ID, last, metadata, responds
from thalweg import Secret
from thalweg.admin import requests
from thalweg.admin.topics import NewTopic
from thalweg.errors import (
    KafkaTimeoutError,
    NotControllerError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from thalweg.structs import TopicPartition


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
    responds(admin, CreateTopics=created(0))
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
    responds(admin, CreateTopics=created(0))
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
    responds(admin, CreateTopics=created(0, 36, 37))
    with pytest.raises(TopicAlreadyExistsError, match=r"topic 't1': said the broker"):
        admin.create_topics(["t0", "t1", "t2"])
    found = admin.create_topics(["t0", "t1", "t2"], raise_errors=False)
    assert [row["error_code"] for row in found["topics"]] == [0, 36, 37]


def test_a_controller_that_moved_is_found_again(admin):
    responds(admin, CreateTopics=[created(41), created(0)])
    admin.create_topics(["t0"])
    assert [api for api, *_ in admin._client.requests] == ["CreateTopics", "CreateTopics"]
    assert admin._client.forgotten == [("controller", "")]


def test_waits_between_tries_double_up_to_their_limit_each_with_its_jitter(fake, monkeypatch):
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr(requests, "time", clock)
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1", retry_backoff_ms=100, retry_backoff_max_ms=300
    )
    refused = [created(41)] * 5
    responds(client, CreateTopics=[*refused, created(0)])
    client.create_topics(["t0"])
    for wait, around in zip(waits, [0.1, 0.2, 0.3, 0.3, 0.3], strict=True):
        assert wait == pytest.approx(around, rel=0.21)
    assert max(waits) <= 0.3
    assert not {0.1, 0.2} & set(waits)
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
    responds(client, CreateTopics=created(41))
    with pytest.raises(NotControllerError):
        client.create_topics(["t0"])
    assert waits == []
    client.close()


def test_topics_are_waited_for_until_all_partitions_have_leaders(admin):
    responds(
        admin,
        CreateTopics=created(0),
        Metadata=[metadata({}), metadata({ZERO: -1}), metadata({TopicPartition("t0", 0): 1})],
    )
    admin.create_topics(["t0"], wait_for_metadata=True)
    with pytest.raises(ValueError, match="cannot be used together"):
        admin.create_topics(["t0"], validate_only=True, wait_for_metadata=True)
    responds(admin, Metadata=metadata({ZERO: -1}))
    with pytest.raises(KafkaTimeoutError, match="p0=no leader"):
        admin.wait_for_topics(["t"], timeout_ms=1)
    admin.wait_for_topics([])


def test_refused_topics_are_not_waited_for(admin):
    responds(
        admin, CreateTopics=created(0, 38, 36), Metadata=metadata({TopicPartition("t0", 0): 1})
    )
    found = admin.create_topics(["t0", "t1", "t2"], raise_errors=False, wait_for_metadata=True)
    assert [row["error_code"] for row in found["topics"]] == [0, 38, 36]
    assert [row["Name"] for row in last(admin)[1]["Topics"]] == ["t0"]
    responds(admin, CreateTopics=created(38))
    admin.create_topics(["t0"], raise_errors=False, wait_for_metadata=True)
    assert last(admin)[0] == "CreateTopics"


def test_topics_are_listed_and_described_under_both_dialects_names(admin):
    responds(admin, Metadata=metadata({ZERO: 1, ONE: 2}))
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
    responds(admin, Metadata=metadata({}))
    admin.describe_topics([uuid.UUID(int=0)])
    assert last(admin)[1]["Topics"] == [{"Name": None, "TopicId": ZERO_ID}]
    admin.describe_topics()
    assert last(admin)[1]["Topics"] is None


def test_old_brokers_are_not_asked_for_operations(admin):
    responds(admin, Metadata=metadata({}))
    admin._client.versions["Metadata"] = 7
    admin.describe_topics()
    assert "IncludeTopicAuthorizedOperations" not in last(admin)[1]


def test_topics_are_deleted_by_name_and_id(admin):
    row = {"Name": "t", "TopicId": ZERO_ID, "ErrorCode": 0, "ErrorMessage": None}
    responds(admin, DeleteTopics={"Responses": [row]})
    found = admin.delete_topics(["t", uuid.UUID(int=0)])
    assert found["topics"][0]["name"] == "t"
    assert last(admin)[1]["Topics"] == [{"Name": "t"}, {"Name": None, "TopicId": ZERO_ID}]
    admin._client.versions["DeleteTopics"] = 5
    admin.delete_topics(["t"])
    assert last(admin)[1]["TopicNames"] == ["t"]
    responds(admin, DeleteTopics={"Responses": [{**row, "ErrorCode": 3}]})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["t"])


def test_a_secret_option_of_a_new_topic_is_sent(admin):
    responds(admin, CreateTopics=created(0))
    admin.create_topics([NewTopic("t0", topic_configs={"x": Secret("hunter2")})])
    assert last(admin)[1]["Topics"][0]["Configs"] == [{"Name": "x", "Value": "hunter2"}]


def test_names_and_ids_are_described_by_requests_of_their_own(admin):
    """Kafka ignores the names in a request that also has IDs."""
    responds(
        admin,
        Metadata=lambda body: metadata({TopicPartition(str(body["Topics"][0]["Name"]), 0): 1}),
    )
    found = admin.describe_topics([uuid.UUID(int=0), "a"])
    assert [topic["name"] for topic in found] == ["a", "None"]
    asked = [body["Topics"] for api, body, _ in admin._client.requests if api == "Metadata"]
    assert asked == [[{"Name": None, "TopicId": ZERO_ID}], [{"Name": "a"}]]


def test_old_brokers_delete_no_topic_by_its_id(admin):
    admin._client.versions["DeleteTopics"] = 5
    with pytest.raises(UnsupportedVersionError, match="Give their names"):
        admin.delete_topics(["t", uuid.UUID(int=0)])
    assert admin._client.requests == []


def test_a_wait_for_topics_raises_what_cannot_be_repeated(admin):
    responds(admin, Metadata=SaslAuthenticationFailedError("refused"))
    with pytest.raises(SaslAuthenticationFailedError, match="refused"):
        admin.wait_for_topics(["t"])
    responds(admin, Metadata=KafkaTimeoutError("no broker responds"))
    with pytest.raises(KafkaTimeoutError, match="no broker responds"):
        admin.wait_for_topics(["t"], timeout_ms=1)
    for wrong in (float("nan"), -1):
        with pytest.raises(ValueError, match="timeout_ms"):
            admin.wait_for_topics(["t"], timeout_ms=wrong)


def test_topics_in_a_wrong_form_are_named(admin):
    with pytest.raises(TypeError, match=r"new_topics\['t'\] must be a dict.*got int 3"):
        admin.create_topics({"t": 3})
    with pytest.raises(TypeError, match="not one NewTopic"):
        admin.create_topics(NewTopic("t", 1, 1))
    assert admin._client.requests == []
