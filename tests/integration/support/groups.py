"""Members of one group, polled in turn by one thread, and the calls their listeners receive.

group = Group(broker, clients, "consumer")      a new topic and a new group
group.join(Heard())
group.settle()                                  polls until every partition has one owner
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.integration.support.clients import Clients
from tests.support.brokers import KINDS, MODERN_KINDS, Broker
from thalweg import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

PARTITIONS = 4
# Parameters of group fixtures: the protocol, and the kind of broker that coordinates the group.
# Kafka 3.9 serves the newer protocol only if its configuration enables it.
CLASSIC_GROUPS = [("classic", kind) for kind in KINDS]
ALL_GROUPS = [*CLASSIC_GROUPS, *(("consumer", kind) for kind in MODERN_KINDS)]
MODERN_GROUPS = [(protocol, kind) for protocol in ("classic", "consumer") for kind in MODERN_KINDS]


class Heard(ConsumerRebalanceListener):
    """Records the calls of the rebalance listener, except for assignments of nothing.

    In the newer protocol, a member's first assignment has no partitions if Kafka's group
    coordinator has not heard of the new topic yet. A later heartbeat's response has them.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(each.partition for each in revoked)))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if partitions := sorted(each.partition for each in assigned):
            self.events.append(("assigned", partitions))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.events.append(("lost", sorted(each.partition for each in lost)))


class Group:
    """Consumers of one group and topic, polled in turn by the test's thread."""

    def __init__(self, broker: Broker, clients: Clients, protocol: str = "classic") -> None:
        self.broker, self.clients, self.protocol = broker, clients, protocol
        self.topic = broker.create_topic("grouped", PARTITIONS)
        self.members: list[KafkaConsumer[Any, Any]] = []
        self.records: list[Any] = []

    def join(self, listener: Any = None, **configs: Any) -> KafkaConsumer[Any, Any]:
        member = self.consumer(**configs)
        member.subscribe([self.topic], listener=listener)
        self.members.append(member)
        return member

    def consumer(self, **configs: Any) -> KafkaConsumer[Any, Any]:
        given = {"auto_offset_reset": "earliest", "group_id": self.topic, **configs}
        given["group_protocol"] = self.protocol
        return self.clients.consumer(self.broker, **given)

    def leave(self, member: KafkaConsumer[Any, Any]) -> None:
        self.members.remove(member)
        member.close()

    def poll(self) -> None:
        for member in self.members:
            for batch in member.poll(20).values():
                self.records += batch

    def poll_until(self, condition: Callable[[], object], limit: float = 40) -> None:
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, [each.assignment() for each in self.members]
            self.poll()

    def settle(self) -> list[set[int]]:
        """Polls until every partition has one owner, and returns the partitions of each member."""
        self.poll_until(self.is_settled)
        return [{each.partition for each in member.assignment()} for member in self.members]

    def is_settled(self) -> bool:
        owned = [each for member in self.members for each in member.assignment()]
        everyone = all(member.assignment() for member in self.members)
        return everyone and sorted(each.partition for each in owned) == list(range(PARTITIONS))

    def send(self, numbers: Iterable[int]) -> None:
        producer = self.clients.producer(self.broker)
        for number in numbers:
            producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(30)

    def values(self) -> list[int]:
        return sorted(int(each.value) for each in self.records)
