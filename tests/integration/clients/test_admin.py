"""Admin calls that manage topics and offsets."""

from __future__ import annotations

import itertools
import uuid
from functools import partial
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import OffsetSpec, TopicPartition
from thalweg.admin import ConfigResource, NewTopic
from thalweg.errors import (
    IllegalStateError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

_numbers = itertools.count(1)


def _name() -> str:
    return f"admin-{uuid.uuid4().hex[:8]}-{next(_numbers)}"


def test_topics_are_created_listed_described_and_deleted(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    first, second = _name(), _name()
    response = admin.create_topics(
        [NewTopic(first, 3, 1), NewTopic(second, topic_configs={"retention.ms": "-1"})],
        wait_for_metadata=True,
    )
    rows = {row["name"]: row for row in response["topics"]}
    assert set(rows) == {first, second}
    assert all(row["error_code"] == 0 for row in rows.values())
    assert {first, second} <= set(admin.list_topics())

    (described,) = admin.describe_topics([first])
    assert described["name"] == described["topic"] == first
    assert described["error_code"] == 0
    assert not described["is_internal"]
    assert sorted(row["partition_index"] for row in described["partitions"]) == [0, 1, 2]
    assert all(row["leader_id"] in row["replica_nodes"] for row in described["partitions"])
    assert all(row["isr_nodes"] == row["replica_nodes"] for row in described["partitions"])

    admin.delete_topics([first])
    wait_until(lambda: first not in admin.list_topics(), 20)
    assert second in admin.list_topics()


@one_real_broker
def test_names_and_dicts_are_taken_too(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    first, second = _name(), _name()
    admin.create_topics([first])
    admin.create_topics({second: {"num_partitions": 2, "replication_factor": 1}})
    admin.wait_for_topics([first, second])
    found = {row["name"]: len(row["partitions"]) for row in admin.describe_topics([first, second])}
    assert found[second] == 2


def test_replicas_may_be_assigned(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    node = min(broker.wire.metadata().nodes)
    topic = _name()
    admin.create_topics([NewTopic(topic, replica_assignments={0: [node], 1: [node]})])
    admin.wait_for_topics([topic])
    (described,) = admin.describe_topics([topic])
    assert [row["replica_nodes"] for row in described["partitions"]] == [[node], [node]]


def test_validate_only_makes_nothing(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    topic = _name()
    response = admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True)
    assert response["topics"][0]["error_code"] == 0
    assert topic not in admin.list_topics()
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics([NewTopic(topic, 1, 99)], validate_only=True)


@pytest.mark.parametrize(
    "topic, error",
    [
        (NewTopic("bad name"), InvalidTopicError),
        (NewTopic("a" * 250), InvalidTopicError),
        (NewTopic("none", num_partitions=0), InvalidPartitionsError),
        (NewTopic("none", num_partitions=-2), InvalidPartitionsError),
        (NewTopic("none", replication_factor=99), InvalidReplicationFactorError),
        (NewTopic("none", topic_configs={"no.such.option": "1"}), InvalidConfigurationError),
        (NewTopic("none", topic_configs={"retention.ms": "soon"}), InvalidConfigurationError),
    ],
)
def test_impossible_topics_are_refused(
    broker: Broker, clients: Clients, topic: NewTopic, error: type[Exception]
) -> None:
    admin = clients.admin(broker)
    with pytest.raises(error):
        admin.create_topics([topic])
    response = admin.create_topics([topic], raise_errors=False)
    assert response["topics"][0]["error_code"] == error.errno  # type: ignore[attr-defined]
    assert "none" not in admin.list_topics()


def test_a_topic_that_exists_is_an_error(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("exists")
    with pytest.raises(TopicAlreadyExistsError, match=topic):
        clients.admin(broker).create_topics([topic])


def test_unknown_topics_are_errors_of_their_own(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    (described,) = admin.describe_topics(["no-such-topic-at-all"])
    assert described["error_code"] == 3
    assert "no-such-topic-at-all" not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["no-such-topic-at-all"])


def test_a_topic_may_be_named_by_its_id(broker: Broker, clients: Clients) -> None:
    admin = clients.admin(broker)
    topic = broker.create_topic("byid")
    (described,) = admin.describe_topics([topic])
    found = described["topic_id"]
    topic_id = found if isinstance(found, uuid.UUID) else _uuid(found)
    (again,) = admin.describe_topics([topic_id])
    assert again["name"] == topic
    admin.delete_topics([topic_id])
    wait_until(lambda: topic not in admin.list_topics(), 20)


def _uuid(text: str) -> uuid.UUID:
    import base64

    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def test_offsets_of_partitions(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("offsets", 2)
    producer = clients.producer(broker)
    for number in range(10):
        producer.send(topic, b"v", partition=0, timestamp_ms=5000 - 100 * number).get(20)
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = clients.admin(broker)

    def ask(spec: Any, where: TopicPartition = full) -> Any:
        return admin.list_partition_offsets({where: spec})[where]

    assert ask(OffsetSpec.EARLIEST).offset == 0
    assert ask(OffsetSpec.LATEST).offset == 10
    assert ask(OffsetSpec.LATEST, empty).offset == 0
    latest_by_time = ask(OffsetSpec.MAX_TIMESTAMP)
    assert (latest_by_time.offset, latest_by_time.timestamp) == (0, 5000)
    assert ask(4950).offset == 0
    assert ask(6000).offset == -1
    both = admin.list_partition_offsets({full: OffsetSpec.LATEST, empty: OffsetSpec.EARLIEST})
    assert {where: found.offset for where, found in both.items()} == {full: 10, empty: 0}


def test_offsets_of_unknown_partitions_are_an_error(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("nopartition")
    admin = clients.admin(broker)

    def is_unknown(where: TopicPartition) -> bool:
        with within(30):  # without timeout_ms it would be 60 s
            try:
                admin.list_partition_offsets({where: OffsetSpec.LATEST}, timeout_ms=1500)
            except UnknownTopicOrPartitionError:
                found = True
            except KafkaTimeoutError:
                found = False  # a busy broker has not responded at all
            else:
                raise AssertionError(f"{where} has offsets")
        return found

    for where in (TopicPartition(topic, 9), TopicPartition("no-such-topic", 0)):
        wait_until(partial(is_unknown, where), 60)


def test_records_are_deleted_up_to_an_offset(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("deleting")
    fill(clients, broker, topic, 30)
    where = TopicPartition(topic, 0)
    admin = clients.admin(broker)
    admin.delete_records({where: 12})
    assert admin.list_partition_offsets({where: OffsetSpec.EARLIEST})[where].offset == 12
    assert admin.list_partition_offsets({where: OffsetSpec.LATEST})[where].offset == 30


DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}


def test_a_topics_options_are_described_with_their_defaults(
    broker: Broker, clients: Clients
) -> None:
    own = {"retention.ms": "-1", "segment.bytes": "1048576"}
    topic = broker.create_topic("described", configs=own)
    resource, admin = ConfigResource("topic", topic), clients.admin(broker)
    described = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    assert {name: described[name]["value"] for name in DEFAULTS} == DEFAULTS | own
    sources = {name: described[name]["config_source"] for name in DEFAULTS}
    assert {name for name in sources if sources[name] == "DYNAMIC_TOPIC_CONFIG"} == set(own)
    # With eligible leader replicas (KIP-966) Kafka keeps this config for the complete cluster.
    if not broker.embedded:
        del sources["min.insync.replicas"]
    assert {sources[name] for name in sources.keys() - own} == {"DEFAULT_CONFIG"}
    modified = admin.describe_configs([resource])["topic"][topic]
    assert {name: each["value"] for name, each in modified.items() if name in sources} == own


def test_the_cluster_is_described(broker: Broker, clients: Clients) -> None:
    found = clients.admin(broker).describe_cluster()
    assert found["cluster_id"]
    assert found["brokers"]
    nodes = broker.wire.metadata().nodes
    assert {row["broker_id"] for row in found["brokers"]} == set(nodes)


def test_calls_survive_a_lost_connection(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded(nodes=2)
    admin = clients.admin(broker)
    admin.create_topics(["t"])
    for node in broker.nodes:
        broker.stop_node(node)
        broker.start_node(node)
        assert "t" in admin.list_topics()
    with broker.faults.on("CreateTopics").then_fail("NOT_CONTROLLER") as fault:
        admin.create_topics(["u"])
        assert fault.hits == 1
    assert sorted(broker.topics()) == ["t", "u"]


@one_real_broker
def test_a_closed_client_says_so(broker: Broker, clients: Clients) -> None:
    with clients.admin(broker) as admin:
        assert admin.bootstrap_connected()
    assert admin.closed
    with pytest.raises(IllegalStateError):
        admin.list_topics()
    admin.close()
