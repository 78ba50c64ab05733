"""One group with members of several clients, which join, leave and are killed.

Every record is read, and not again after a commit that covers it was acknowledged. No partition has
two owners in one generation, or at one time.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.interop.members import LEAVE_LIMIT_S, Crew, MakeCrew, MixedHistory
from tests.support.brokers import Broker
from tests.support.clients.member import CONSUMER
from tests.support.groups import checks
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import KafkaProducer

PARTITIONS = 12
RECORDS = 1_000_000
STEPS = 5
STEP_LIMIT_S, LIMIT_S = 60, 300
# Of the five that share the stream, the test kills the first and third, and the second leaves.
CLASSIC = ("thalweg", "confluent-kafka", "kafka-python", "java", "thalweg")
KIP_848 = ("thalweg", "confluent-kafka", "java", "confluent-kafka", "thalweg")
MIXED = ("thalweg", "confluent-kafka", "kafka-python", "java", "aiokafka")

# A wait that fails says what it waited for, so the test's limit must be longer than all waits: two
# for each step, the joins, the last flush and read, four members that leave, and a minute more.
pytestmark = pytest.mark.timeout((2 * STEPS + 3) * STEP_LIMIT_S + LIMIT_S + 4 * LEAVE_LIMIT_S)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_of_four_clients_share_a_stream(
    modern_broker: Broker, strategy: str, crew: MakeCrew
) -> None:
    share(modern_broker, strategy, CLASSIC, crew)


def test_members_of_the_newer_protocol_share_a_stream(
    modern_broker: Broker, crew: MakeCrew
) -> None:
    """Uses KIP-848's protocol, with the clients that support it."""
    share(modern_broker, CONSUMER, KIP_848, crew)


def test_classic_members_share_a_stream_with_those_of_the_newer_protocol(
    kafka: Broker, crew: MakeCrew
) -> None:
    """As during the migration of a group to KIP-848, when the broker translates.

    Real Kafka does this (`group.consumer.migration.policy` is bidirectional since 4.0). The
    embedded broker keeps the protocols apart.
    """
    share(kafka, CONSUMER, MIXED, crew)


def share(broker: Broker, strategy: str, clients: tuple[str, ...], crew: MakeCrew) -> None:
    topic = broker.create_topic("mixed", PARTITIONS)
    group = crew(broker, topic, PARTITIONS, strategy)
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
        come_and_go(group, clients, producer, topic)
    for member in group.living():
        group.leave(member)
    check(group.look(), broker.wire.end_offsets(topic))


def come_and_go(
    group: Crew, clients: tuple[str, ...], producer: KafkaProducer[Any, Any], topic: str
) -> None:
    count = scaled(RECORDS)
    step = count // (STEPS + 3)
    numbers = iter(range(count))

    def send(some: int) -> None:
        for number in itertools.islice(numbers, some):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(STEP_LIMIT_S)

    def goes_on() -> None:
        before = group.count()
        send(step)
        enough = before + step // 2
        wait_until(lambda: group.count() >= enough, STEP_LIMIT_S, every=0.2, what="reading")

    first = group.join(clients[0])
    goes_on()
    second, third, *_ = [group.join(client) for client in clients[1:]]
    wait_until(group.have_joined, STEP_LIMIT_S, every=0.2, what="all joined")
    goes_on()
    group.kill(first)
    goes_on()
    group.leave(second)
    goes_on()
    group.join("thalweg")
    group.kill(third)
    goes_on()
    send(count)
    wait_until(lambda: group.count() >= count, LIMIT_S, every=0.5, what=lambda: str(group.count()))


def check(history: MixedHistory, ends: dict[int, int]) -> None:
    assert history.read_counts() == ends
    checks.check_owners(history)
    checks.check_commits(history)


# What is wrong: (events "time member kind numbers...", part of the failure's message).
WRONG = {
    "two owners in a generation": ("0 1 A 5 0, 1 1 V -1 0, 2 2 A 5 0", "(5, 0): {1, 2}"),
    "two owners at a time": ("0 1 A 5 0, 2 2 A 6 0, 3 1 V -1 0", "while"),
    "two owners of unknown generation": ("0 1 A -1 0, 2 2 A -1 0, 3 1 V -1 0", "while"),
    "what is lost being read": ("0 1 A 5 0, 3 1 C 0 9, 4 1 L -1 0, 2 2 A 6 0", "while"),
    "an owner before the other was killed": ("0 1 A 5 0, 2 2 A 6 0, 3 1 K", "while"),
    "a record read after its commit": (
        "0 1 A 5 0, 1 1 R 0 0 9 0, 2 1 C 0 10, 3 1 V -1 0, 4 2 A 6 0, 5 2 R 0 9 9 0",
        "10 was committed",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_seen(what: str) -> None:
    rows, message = WRONG[what]
    history = told(rows)
    with pytest.raises(AssertionError) as caught:
        check(history, history.read_counts())
    assert message in str(caught.value)


def test_what_others_tell_late_or_not_at_all_is_not_wrong() -> None:
    """Other clients may report a loss after the new owner has begun, or may not report it."""
    late = told("0 1 A 5 0, 1 1 C 0 9, 2 2 A 6 0, 3 1 L -1 0, 4 2 X, 5 3 A 7 0, 6 2 E, 7 3 K")
    late.tell(4, 8, "A", 8, 0)
    check(late, {0: 0})


def told(rows: str) -> MixedHistory:
    history = MixedHistory(1)
    for row in rows.split(", "):
        at, member, kind, *numbers = row.split()
        history.tell(int(member), float(at), kind, *map(int, numbers))
    return history
