"""The values of partition_assignment_strategy as assignors, and how their group rebalances."""

from __future__ import annotations

import pytest

from thalweg.config import resolve
from thalweg.coordinator.assignors import (
    AbstractPartitionAssignor,
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RebalanceProtocol,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from thalweg.coordinator.assignors.registry import by_name, common_protocol, resolved
from thalweg.coordinator.protocol import Subscription
from thalweg.errors import KafkaConfigurationError

BUILT_IN = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Everything(AbstractPartitionAssignor):
    """An assignor written for kafka-python, without newer features."""

    name = "everything"

    def assign(self, cluster, members):
        return {}

    def metadata(self, topics):
        return Subscription(0, list(topics), b"")

    def on_assignment(self, assignment, generation):
        pass


class Other(Everything):
    name = "other"


class Newer(Everything):
    name = "newer"

    def supported_protocols(self):
        return [RebalanceProtocol.COOPERATIVE]


@pytest.mark.parametrize("name, kind", BUILT_IN.items())
def test_an_assignor_is_found_by_its_name_and_by_javas(name, kind):
    assert kind.name == name
    assert type(by_name(name)) is kind
    simple = kind.__name__.replace("Partition", "")
    assert type(by_name(f"org.apache.kafka.clients.consumer.{simple}")) is kind


def test_each_consumer_gets_assignors_of_its_own():
    assert by_name("sticky") is not by_name("sticky")


def test_names_classes_instances_and_paths_are_taken_in_their_order():
    mine = Other()
    path = f"{StickyPartitionAssignor.__module__}.StickyPartitionAssignor"
    found = resolved(["roundrobin", Everything, mine, path])
    assert [each.name for each in found] == ["roundrobin", "everything", "other", "sticky"]
    assert found[2] is mine


def test_the_default_can_be_resolved():
    found = resolved(resolve("c", {})["partition_assignment_strategy"])
    assert [each.name for each in found] == ["range", "cooperative-sticky"]


@pytest.mark.parametrize(
    "strategy, problem",
    [
        ([], "empty"),
        (["rang"], "'rang'"),
        (["no.such.module.Class"], "no.such.module.Class"),
        (["thalweg.structs.Nothing"], "thalweg.structs.Nothing"),
        (["thalweg.structs.TopicPartition"], "AbstractPartitionAssignor"),
        ([3], "3"),
        ([""], "''"),
        (["range", RangePartitionAssignor], "two assignors with the same name: range, range"),
    ],
)
def test_what_is_no_assignor_is_an_error_of_the_configuration(strategy, problem):
    with pytest.raises(KafkaConfigurationError, match=problem) as raised:
        resolved(strategy)
    (sentence,) = raised.value.problems
    assert sentence.startswith("partition_assignment_strategy ")
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    "strategy, protocol",
    [
        (["range"], RebalanceProtocol.EAGER),
        (["range", "cooperative-sticky"], RebalanceProtocol.EAGER),
        (["cooperative-sticky", "sticky"], RebalanceProtocol.EAGER),
        (["cooperative-sticky"], RebalanceProtocol.COOPERATIVE),
        (["cooperative-sticky", Newer], RebalanceProtocol.COOPERATIVE),
        ([Everything], RebalanceProtocol.EAGER),
    ],
)
def test_a_group_is_cooperative_only_if_all_assignors_are(strategy, protocol):
    assert common_protocol(resolved(strategy)) is protocol


def test_assignors_with_no_protocol_in_common_are_an_error():
    with pytest.raises(
        KafkaConfigurationError, match="without a common rebalance protocol: range, newer"
    ):
        resolved(["range", Newer])
