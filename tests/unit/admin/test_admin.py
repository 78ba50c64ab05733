"""The admin client's names, values and arguments (on a fake core)."""

import uuid

import pytest

from tests.unit.admin.responses import ZERO, ZERO_ID
from thalweg._uuids import to_base64, to_uuid
from thalweg.admin.acls import operation_names
from thalweg.admin.configs import ConfigResource
from thalweg.admin.groups import GroupState
from thalweg.admin.naming import snake_case, snake_keys
from thalweg.admin.offsets import IsolationLevel, OffsetSpec, OffsetTimestamp
from thalweg.admin.users import ScramMechanism

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


def test_responses_become_python_values():
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
        (lambda a: a.create_topics([5]), "new_topics must contain .*got int 5"),
        (lambda a: a.create_partitions({"t": "x"}), "the value of 't' is str 'x'"),
        (lambda a: a.create_partitions(["t"]), "topic_partitions must be .*got list"),
        (lambda a: a.describe_producers("ab"), "partitions must be .*got str 'ab'"),
        (
            lambda a: a.remove_group_members("g", ["m"]),
            r"one element is str 'm': use MemberToRemove\('m'\)",
        ),
        (lambda a: a.remove_group_members("g", "m"), "members must be .*got str 'm'"),
        (
            lambda a: a.reset_configs([ConfigResource("topic", "t", "retention.ms")]),
            r"\[0\]: configs must be .*use \['retention.ms'\]",
        ),
    ],
)
def test_a_wrong_argument_is_named_before_a_broker_is_asked(admin, call, problem):
    with pytest.raises(TypeError, match=problem):
        call(admin)
    assert admin._client.requests == []


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.create_topics("ab"),
        lambda a: a.delete_topics("ab"),
        lambda a: a.describe_topics("ab"),
        lambda a: a.describe_topic_partitions("ab"),
        lambda a: a.wait_for_topics("ab"),
        lambda a: a.elect_leaders(0, "ab"),
        lambda a: a.list_partition_reassignments("ab"),
        lambda a: a.delete_groups("ab"),
        lambda a: a.delete_consumer_groups("ab"),
        lambda a: a.describe_groups("ab"),
        lambda a: a.describe_consumer_groups("ab"),
        lambda a: a.describe_transactions("ab"),
        lambda a: a.describe_user_scram_credentials("ab"),
    ],
)
def test_one_str_is_not_a_list_of_letters(admin, call):
    with pytest.raises(TypeError, match=r"not one str: use \['ab'\]"):
        call(admin)
    assert admin._client.requests == []


def test_an_element_that_is_not_a_name_is_refused_before_anything_is_deleted(admin):
    with pytest.raises(TypeError, match=r"group_ids\[1\] is None"):
        admin.delete_groups(["a", None])
    assert admin._client.requests == []
