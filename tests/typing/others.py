"""What a type checker infers for the other classes. This file is never run."""

from typing import Any, assert_type

from thalweg import EmbeddedBroker, KafkaAdminClient, OffsetAndTimestamp, OffsetSpec, TopicPartition
from thalweg.admin import ConfigResource, NewTopic
from thalweg.broker import Fault
from thalweg.errors import (
    BrokerResponseError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    OffsetOutOfRangeError,
    for_code,
)
from thalweg.partitioner import DefaultPartitioner, murmur2


def admin() -> None:
    with KafkaAdminClient(bootstrap_servers="h:1", request_timeout_ms=5) as client:
        assert_type(client, KafkaAdminClient)
        assert_type(client.list_topics(), list[str])
        assert_type(client.create_topics([NewTopic("t", 1, 1)]), dict[str, Any])
        where = TopicPartition("t", 0)
        assert_type(
            client.list_partition_offsets({where: OffsetSpec.LATEST}),
            dict[TopicPartition, OffsetAndTimestamp],
        )
        client.describe_configs([ConfigResource("topic", "t")], config_filter="all")
    KafkaAdminClient(group_id="g")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def broker() -> None:
    with EmbeddedBroker(nodes=3, port=0) as running:
        assert_type(running, EmbeddedBroker)
        assert_type(running.bootstrap_servers, str)
        fault = running.faults.on("Produce", node=1).then_fail(OffsetOutOfRangeError)
        assert_type(fault, Fault)
        assert_type(fault.hits, int)
        running.move_leader(TopicPartition("t", 0), 2)


def errors(error: NoBrokersAvailable) -> None:
    assert_type(for_code(3), type[BrokerResponseError])
    assert_type(error.addresses, dict[str, str])
    assert_type(KafkaTimeoutError.retriable, bool)
    assert_type(BrokerResponseError.errno, int | None)


def others() -> None:
    assert_type(murmur2(b"k"), int)
    assert_type(DefaultPartitioner()(b"k", [0, 1], [1]), int)
