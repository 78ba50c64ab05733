"""Groups of other clients on the embedded broker, with one client or with two.

The members join, share partitions, read all records, commit and leave, each with its own protocol.
The next member starts at the offsets that they committed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any, Literal

import pytest

from tests.integration.support.clients import within
from tests.interop.members import Crew, MakeCrew, group_of
from tests.support.brokers import Broker
from tests.support.clients.member import CONSUMER
from tests.support.groups import checks
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

PARTITIONS = 4
LIMIT_S = 60
# For classic members, far longer than they take to leave. KIP-848's members have the broker's 45 s.
SESSION_MS = 30_000
SPEAKERS = {
    CONSUMER: ("java", "confluent-kafka"),
    "range": ("java", "confluent-kafka", "kafka-python", "aiokafka"),
}
GROUPS = [
    (strategy, members)
    for strategy, clients in SPEAKERS.items()
    for size in (1, 2)
    for members in itertools.combinations(clients, size)
]


@pytest.mark.timeout(6 * LIMIT_S)
@pytest.mark.parametrize(
    ("strategy", "clients"),
    GROUPS,
    ids=lambda each: "+".join(each) if isinstance(each, tuple) else each,
)
def test_other_clients_are_served_as_a_group(
    strategy: str,
    clients: tuple[str, ...],
    embedded: Broker,
    crew: MakeCrew,
) -> None:
    topic = embedded.create_topic("served", PARTITIONS)
    group = crew(embedded, topic, PARTITIONS, strategy, session_ms=SESSION_MS)
    with KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, linger_ms=5) as producer:
        read_as_they_come(group, clients, producer, topic)
        # All members say that they leave: no session has to end first.
        with within(SESSION_MS / 1000 - 4):
            for member in group.living():
                group.leave(member)
            wait_until(lambda: state_of(embedded, topic) == "Empty", what="empty")
        found = group.look()
        assert found.read_counts() == embedded.wire.end_offsets(topic)
        checks.check_owners(found)
        checks.check_commits(found)
        send(producer, topic, range(PARTITIONS))
    protocol: Literal["classic", "consumer"] = "consumer" if strategy == CONSUMER else "classic"
    seen, first = goes_on_from(embedded, topic, protocol)
    assert seen == first == found.committed()


def read_as_they_come(
    group: Crew, clients: Iterable[str], producer: KafkaProducer[Any, Any], topic: str
) -> None:
    step = scaled(100_000, minimum=1000)
    for number, client in enumerate(clients, 1):
        group.join(client)
        wait_until(
            group.is_settled,
            LIMIT_S,
            every=0.1,
            what=functools.partial(no_share, group, client),
        )
        send(producer, topic, range(step))
        wait_until(
            functools.partial(has_read, group, number * step),
            LIMIT_S,
            every=0.1,
            what=lambda: f"all read, after {group.count()} and {group.tell()}",
        )


def no_share(group: Crew, client: str) -> str:
    return f"{client} with its share, after {group.tell()}"


def has_read(group: Crew, count: int) -> bool:
    return group.count() == count


def send(producer: KafkaProducer[Any, Any], topic: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(60)


def state_of(broker: Broker, topic: str) -> str:
    """Returns the state of the topic's group that the broker reports."""
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        states = {each["group_id"]: each["group_state"] for each in admin.list_groups()}
    return str(states[group_of(topic)])


def goes_on_from(
    broker: Broker, topic: str, protocol: Literal["classic", "consumer"]
) -> tuple[dict[int, Any], dict[int, int]]:
    """Returns the committed offsets, and the first offsets that our next member reads."""
    first: dict[int, int] = {}
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group_of(topic),
        group_protocol=protocol,
    ) as consumer:
        seen = {
            partition: consumer.committed(TopicPartition(topic, partition))
            for partition in range(PARTITIONS)
        }
        consumer.subscribe([topic])

        def has_all() -> bool:
            for where, records in consumer.poll(100).items():
                first.setdefault(where.partition, records[0].offset)
            return len(first) == PARTITIONS

        wait_until(has_all, LIMIT_S, what=lambda: f"a record of each partition, after {first}")
    return seen, first
