"""Requests that change nothing are retried when their connection breaks. Changes are not."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import within
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer
from thalweg.admin import NewTopic
from thalweg.errors import KafkaConnectionError


@pytest.mark.parametrize(
    "ask",
    [
        lambda consumer: "there" in consumer.topics(),
        lambda consumer: consumer.partitions_for_topic("there") == {0, 1},
        lambda consumer: consumer.bootstrap(timeout_ms=20_000, refresh=True) or True,
    ],
    ids=["topics", "partitions_for_topic", "bootstrap"],
)
def test_a_consumer_asks_for_metadata_again(ask: Callable[[Any], bool]) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("there", num_partitions=2)
        with (
            KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer,
            broker.faults.on("Metadata").then_disconnect(times=2) as fault,
            within(25),
        ):
            assert ask(consumer)
            assert fault.hits == 2


def test_an_admin_client_reads_again_and_changes_once() -> None:
    with (
        EmbeddedBroker() as broker,
        KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        with broker.faults.on("DescribeCluster").then_disconnect(times=2) as fault, within(25):
            assert admin.describe_cluster()["cluster_id"]
            assert fault.hits == 2
        with (
            broker.faults.on("CreateTopics").apply_then_disconnect(),
            within(25),
            pytest.raises(KafkaConnectionError, match="connection to node"),
        ):
            admin.create_topics([NewTopic("once", 1, 1)])
        assert "once" in admin.list_topics()
