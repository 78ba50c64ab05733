"""Configs of topics, brokers, groups and client metrics: what is set is also described."""

from __future__ import annotations

import pytest

from tests.admin.conftest import Node
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient
from thalweg.admin import AlterConfigOp, ConfigResource
from thalweg.errors import (
    IncompatibleBrokerVersion,
    InvalidConfigurationError,
    UnknownTopicOrPartitionError,
)


def _set(admin: KafkaAdminClient, kind: str, name: str) -> dict[str, str]:
    """Returns the configs that are set for the resource itself."""
    found = admin.describe_configs([ConfigResource(kind, name)])[kind][name]
    return {option: row["value"] for option, row in found.items()}


def _wait_set(admin: KafkaAdminClient, kind: str, name: str, expected: dict[str, str]) -> None:
    """Waits for a change: a broker learns it from its controller a moment later."""

    def is_set() -> bool:
        found = _set(admin, kind, name)
        return {option: found.get(option, "") for option in expected} == expected

    wait_until(is_set, 30, what=lambda: f"{expected}, not {_set(admin, kind, name)}")


def test_a_topics_options_are_set_and_set_back(node: Node) -> None:
    topic, admin = node.topic(), node.admin
    wanted = {"retention.ms": 60000, "cleanup.policy": "delete"}
    given = ConfigResource("topic", topic, wanted)
    assert admin.alter_configs([given], validate_only=True) == {"topic": {topic: "OK"}}
    assert _set(admin, "topic", topic)["retention.ms"] == "-1"
    assert admin.alter_configs([given]) == {"topic": {topic: "OK"}}
    _wait_set(admin, "topic", topic, {"retention.ms": "60000", "cleanup.policy": "delete"})

    more = {
        "cleanup.policy": (AlterConfigOp.APPEND, "compact"),
        "retention.ms": (AlterConfigOp.DELETE, None),
    }
    assert admin.alter_configs([ConfigResource("topic", topic, more)])["topic"][topic] == "OK"
    _wait_set(admin, "topic", topic, {"cleanup.policy": "delete,compact", "retention.ms": ""})
    less = {"cleanup.policy": (AlterConfigOp.SUBTRACT, "delete")}
    assert admin.alter_configs([ConfigResource("topic", topic, less)])["topic"][topic] == "OK"
    _wait_set(admin, "topic", topic, {"cleanup.policy": "compact"})

    back = ConfigResource("topic", topic, ["cleanup.policy"])
    assert admin.reset_configs([back], validate_only=True) == {"topic": {topic: "OK"}}
    assert admin.reset_configs([back]) == {"topic": {topic: "OK"}}
    _wait_set(admin, "topic", topic, {"cleanup.policy": ""})


def test_without_names_all_options_are_set_back(node: Node) -> None:
    topic = node.topic(configs={"segment.bytes": "1048576", "retention.bytes": "7"})
    assert node.admin.reset_configs([ConfigResource("topic", topic)]) == {"topic": {topic: "OK"}}
    _wait_set(
        node.admin, "topic", topic, {"segment.bytes": "", "retention.bytes": "", "retention.ms": ""}
    )


def test_options_not_named_stay_as_they_are_in_the_older_call_too(old_node: Node) -> None:
    """Kafka 4 has no AlterConfigs for topics that are set incrementally. Kafka 3.9 has both."""
    topic, admin = old_node.topic(configs={"segment.bytes": "1048576"}), old_node.admin
    given = ConfigResource("topic", topic, {"retention.bytes": "7"})
    assert admin.alter_configs([given], incremental=False) == {"topic": {topic: "OK"}}
    expected = {"segment.bytes": "1048576", "retention.ms": "-1", "retention.bytes": "7"}
    _wait_set(admin, "topic", topic, expected)
    back = ConfigResource("topic", topic, ["segment.bytes"])
    assert admin.reset_configs([back], incremental=False) == {"topic": {topic: "OK"}}
    _wait_set(admin, "topic", topic, expected | {"segment.bytes": ""})


def test_a_brokers_options_are_set_and_set_back(node: Node) -> None:
    admin = node.admin
    given = ConfigResource("broker", 1, {"log.cleaner.threads": "2"})
    assert admin.alter_configs([given]) == {"broker": {"1": "OK"}}
    _wait_set(admin, "broker", "1", {"log.cleaner.threads": "2"})
    described = admin.describe_configs(
        [ConfigResource("broker", "1", ["log.cleaner.threads"])], include_synonyms=True
    )
    (row,) = described["broker"]["1"].values()
    assert (row["config_source"], row["config_type"]) == ("DYNAMIC_BROKER_CONFIG", "INT")
    assert [each["source"] for each in row["synonyms"]] == [
        "DYNAMIC_BROKER_CONFIG",
        "DEFAULT_CONFIG",
    ]
    back = ConfigResource("broker", 1, ["log.cleaner.threads"])
    assert admin.reset_configs([back]) == {"broker": {"1": "OK"}}
    _wait_set(admin, "broker", "1", {"log.cleaner.threads": ""})


def test_a_default_for_all_brokers_is_set_and_set_back(node: Node) -> None:
    admin = node.admin
    given = ConfigResource("broker", "", {"log.cleaner.backoff.ms": "14000"})
    assert admin.alter_configs([given]) == {"broker": {"": "OK"}}

    def source() -> str:
        asked = ConfigResource("broker", 1, ["log.cleaner.backoff.ms"])
        found = admin.describe_configs([asked], config_filter="all")["broker"]["1"]
        return str(found["log.cleaner.backoff.ms"]["config_source"])

    wait_until(lambda: source() == "DYNAMIC_DEFAULT_BROKER_CONFIG", 30)
    assert _set(admin, "broker", "")["log.cleaner.backoff.ms"] == "14000"
    with pytest.raises(ValueError, match=r"no\.such\.option"):
        admin.alter_configs([ConfigResource("broker", "", {"no.such.option": "1"})])
    back = ConfigResource("broker", "", ["log.cleaner.backoff.ms"])
    assert admin.reset_configs([back]) == {"broker": {"": "OK"}}
    wait_until(lambda: source() == "DEFAULT_CONFIG", 30)


def test_levels_of_a_brokers_loggers_are_set(node: Node) -> None:
    admin, logger = node.admin, "kafka.server.KafkaApis"
    given = ConfigResource("broker_logger", 1, {logger: "WARN"})
    assert admin.alter_configs([given]) == {"broker_logger": {"1": "OK"}}
    found = admin.describe_configs([ConfigResource("broker_logger", 1)], config_filter="all")
    assert found["broker_logger"]["1"][logger]["value"] == "WARN"


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("group", "consumer.session.timeout.ms", "7000"),
        ("client_metrics", "interval.ms", "60000"),
    ],
)
def test_options_of_groups_and_metrics_are_set_listed_and_set_back(
    modern_node: Node, kind: str, option: str, value: str
) -> None:
    admin, name = modern_node.admin, modern_node.name("resource")
    given = ConfigResource(kind, name, {option: value})
    assert admin.alter_configs([given]) == {kind: {name: "OK"}}
    _wait_set(admin, kind, name, {option: value})
    # A broker may list the resource a moment after it describes it.
    wait_until(lambda: name in admin.list_config_resources().get(kind, []), 30)
    assert list(admin.list_config_resources([kind])) == [kind]
    assert admin.reset_configs([ConfigResource(kind, name)]) == {kind: {name: "OK"}}
    wait_until(lambda: name not in admin.list_config_resources().get(kind, []), 30)


def test_an_older_broker_lists_what_it_can(old_node: Node) -> None:
    admin, name = old_node.admin, old_node.name("metrics")
    given = ConfigResource("client_metrics", name, {"interval.ms": "60000"})
    assert admin.alter_configs([given]) == {"client_metrics": {name: "OK"}}
    wait_until(lambda: name in admin.list_config_resources().get("client_metrics", []), 30)
    assert name in admin.list_config_resources(["client_metrics"])["client_metrics"]
    _wait_set(admin, "client_metrics", name, {"interval.ms": "60000"})
    told = admin.alter_configs([ConfigResource("client_metrics", name, {"no.such.option": "1"})])
    assert "no.such.option" in told["client_metrics"][name]
    with pytest.raises(IncompatibleBrokerVersion, match=r"4\.1"):
        admin.list_config_resources(["topic"])


def test_values_that_do_not_fit_are_refused_by_name(node: Node) -> None:
    topic, admin = node.topic(), node.admin
    told = admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "soon"})])
    assert InvalidConfigurationError.__name__ in told["topic"][topic]
    assert "retention.ms" in told["topic"][topic]
    with pytest.raises(ValueError, match="retention"):
        admin.alter_configs([ConfigResource("topic", topic, {"retention": "1"})])
    unknown = ConfigResource("topic", topic, {"retention": "1"})
    told = admin.alter_configs([unknown], raise_on_unknown=False)
    assert InvalidConfigurationError.__name__ in told["topic"][topic]


def test_a_topic_that_is_not_there_is_an_error_with_its_name(node: Node) -> None:
    nowhere = ConfigResource("topic", "no-such-topic", {"retention.ms": "1"})
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        node.admin.describe_configs([nowhere])
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        node.admin.alter_configs([nowhere])
    told = node.admin.alter_configs([nowhere], raise_on_unknown=False)["topic"]["no-such-topic"]
    assert UnknownTopicOrPartitionError.__name__ in told
