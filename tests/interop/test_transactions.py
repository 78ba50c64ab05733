"""Transactions of all clients: any reader sees what they commit, and none sees what they abort."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.support import java
from tests.support.brokers import Broker
from tests.support.peers import run_module
from thalweg import EmbeddedBroker, KafkaConsumer, TopicPartition
from thalweg.admin import KafkaAdminClient

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java")
_MODULE = "tests.support.clients.transactions"


def write(client: str, bootstrap: str, topic: str, *steps: str) -> None:
    """Runs transactions with a client."""
    arguments = "write", bootstrap, topic, uuid.uuid4().hex, *steps
    if client == "java":
        java.run("Transactions", *arguments, classes=java.compiled("Transactions"))
    else:
        run_module(client, _MODULE, client, *arguments, timeout=120)


def read(client: str, bootstrap: str, topic: str) -> list[str]:
    """Returns the committed records that a client reads."""
    if client == "thalweg":
        return read_thalweg(bootstrap, topic)
    if client == "java":
        arguments = "read", bootstrap, topic
        printed = java.run("Transactions", *arguments, classes=java.compiled("Transactions"))
    else:
        printed = run_module(client, _MODULE, client, "read", bootstrap, topic, timeout=120)
    values: list[str] = json.loads(printed.splitlines()[-1])
    return values


def read_thalweg(bootstrap: str, topic: str) -> list[str]:
    """Returns the committed records that this library reads."""
    with KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[str] = []
        for record in consumer:
            value = (record.value or b"").decode()
            if value == "end":
                return values
            values.append(value)
    raise TimeoutError(f"nothing more after {values}")


def committed(bootstrap: str, group: str, topic: str) -> int | None:
    """Returns the offset that a group committed for partition 0."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        offsets = admin.list_consumer_group_offsets(group)
    found = offsets.get(TopicPartition(topic, 0))
    return None if found is None else int(found.offset)


STEPS = ("commit:3", "abort:2", "commit:1", "abort:3", "commit:2")
VALUES = ["commit-0", "commit-1", "commit-2", "commit-5", "commit-9", "commit-10"]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_reader_sees_exactly_what_a_client_committed(broker: Broker, client: str) -> None:
    topic = broker.create_topic("transactions")
    write(client, broker.bootstrap_servers, topic, *STEPS)
    readers = ("thalweg", *CLIENTS) if broker.embedded else ("thalweg", client)
    for reader in readers:
        assert read(reader, broker.bootstrap_servers, topic) == VALUES, reader


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_are_committed_with_their_transaction_only(broker: Broker, client: str) -> None:
    topic = broker.create_topic("offsets")
    groups = [f"{kind}-{uuid.uuid4().hex}" for kind in ("kept", "both", "gone")]
    kept, both, gone = groups
    steps = f"commit-offset:{kept}:7", f"commit-offset:{both}:3", f"abort-offset:{both}:9"
    write(client, broker.bootstrap_servers, topic, *steps, f"abort-offset:{gone}:5")
    found = [committed(broker.bootstrap_servers, group, topic) for group in groups]
    assert found == [7, 3, None]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("client", ["confluent-kafka", "java"])
def test_clients_go_by_the_version_of_transactions(client: str, level: int) -> None:
    with EmbeddedBroker(configs={"thalweg.transaction.version": level}) as broker:
        broker.create_topic("t")
        write(client, broker.bootstrap_servers, "t", *STEPS, "commit-offset:g:4")
        assert read_thalweg(broker.bootstrap_servers, "t") == [*VALUES, "commit-11"]
        assert committed(broker.bootstrap_servers, "g", "t") == 4
        added = broker.requests().get("AddPartitionsToTxn", 0)
        # Since KIP-890 the broker adds partitions. Of these clients only Java's uses that.
        assert (added == 0) == (level == 2 and client == "java")


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_survive_faults_between_them_and_the_coordinator(client: str) -> None:
    with EmbeddedBroker(nodes=3) as broker:
        broker.create_topic("t")
        broker.faults.on("EndTxn").apply_then_disconnect()
        broker.faults.on("EndTxn").then_disconnect()
        broker.faults.on("InitProducerId").apply_then_disconnect()
        broker.faults.on("Produce").apply_then_disconnect()
        broker.faults.on("WriteTxnMarkers").then_delay(300, times=2)
        write(client, broker.bootstrap_servers, "t", *STEPS)
        assert read_thalweg(broker.bootstrap_servers, "t") == VALUES
