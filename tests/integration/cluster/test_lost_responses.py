"""Real brokers are restarted after they wrote batches whose responses were lost.

A restarted broker remembers only the last batch of each producer, and refuses the others if they
are sent again. An idempotent producer must neither duplicate them nor report them as failed. A
broker that was killed reads its log again and remembers more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.integration.support.clients import Clients, by_partition, read, read_more
from tests.support.kafka.cluster import RealKafka
from tests.support.kafka.proxy import Proxies
from tests.support.waiting import wait_until
from tests.support.wire import Wire
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.errors import OutOfOrderSequenceNumberError

# The maximum number of unanswered batches of a partition, and of requests on a connection.
UNANSWERED = 5
# More records are sent meanwhile, and wait.
NUMBERS = range(UNANSWERED + 4)
TOPICS = 2
_names = itertools.count(1)

pytestmark = pytest.mark.timeout(600)  # three nodes start one after another


@pytest.fixture(scope="module")
def three() -> Iterator[RealKafka]:
    """Three nodes for the tests that restart all of them."""
    with RealKafka("4.3", nodes=3, proxied=True, heap="512m") as kafka:
        yield kafka


def _in_turn(kafka: RealKafka) -> None:
    for node in kafka.nodes:
        kafka.stop_node(node.node_id)
        kafka.start_node(node.node_id)


def _at_once(kafka: RealKafka) -> None:
    kafka.restart_all()


@pytest.mark.parametrize("version", ["4.3", "3.9"])
def test_batches_written_without_a_response_are_not_doubled_by_a_restart(
    start_kafka: Callable[..., RealKafka], clients: Clients, version: str
) -> None:
    """Scenario 13."""
    _responses_are_lost(start_kafka(version, proxied=True), clients, _in_turn)


@pytest.mark.parametrize("restart", [_in_turn, _at_once])
def test_batches_written_without_a_response_are_not_doubled_by_restarts_of_all_nodes(
    three: RealKafka, clients: Clients, restart: Callable[[RealKafka], None]
) -> None:
    """The nodes restart one after another, with a handover, or are all killed. Scenario 13."""
    _responses_are_lost(three, clients, restart)


def _responses_are_lost(
    kafka: RealKafka, clients: Clients, restart: Callable[[RealKafka], None]
) -> None:
    nodes = len(kafka.nodes)
    # Each node leads a partition of each topic, and each request has batches of all topics.
    topics = [f"t-{next(_names)}" for _ in range(TOPICS)]
    partitions = [TopicPartition(topic, each) for topic in topics for each in range(nodes)]
    for topic in topics:
        kafka.create_topic(topic, nodes, replication_factor=nodes)
    wire = Wire(kafka.bootstrap_servers)

    def has_ends(offset: int) -> bool:
        ends = dict.fromkeys(range(nodes), offset)
        return all(wire.end_offsets(topic) == ends for topic in topics)

    with Proxies(kafka) as proxies:
        # The linger puts all batches for a node into one request, also if this thread is slow. All
        # nodes may need minutes to restart.
        limits = {"request_timeout_ms": 60_000, "delivery_timeout_ms": 600_000}
        producer = clients.producer(proxies, acks="all", linger_ms=250, **limits)
        sent = []
        for number in NUMBERS:
            sent += [
                (number, producer.send(each.topic, b"%d" % number, partition=each.partition))
                for each in partitions
            ]
            if number == 0:
                producer.flush(30)
                proxies.lose_responses()
            elif number <= UNANSWERED:
                # Each number is a batch of its own, and is written.
                wait_until(partial(has_ends, number + 1), 60)
        assert not any(future.is_done for number, future in sent if number > 0)
        restart(kafka)
        proxies.pass_on()
        for number, future in sent:
            # The broker may no longer know the offsets of batches without a response.
            forgotten = (-1,) if 0 < number <= UNANSWERED else ()
            assert future.get(180).offset in (number, *forgotten)

    for topic in topics:
        consumer = clients.consumer(kafka, topic, range(nodes))
        found = by_partition([*read(consumer, nodes * len(NUMBERS)), *read_more(consumer)])
        for partition in range(nodes):
            assert [int(record.value) for record in found[partition]] == list(NUMBERS)


# A partition forgets a producer that has not sent for this long. Kafka's default is a day.
FORGETS = {
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
}


def _wait_forgotten(clients: Clients, kafka: RealKafka, where: TopicPartition) -> None:
    admin = clients.admin(kafka)
    wait_until(lambda: not admin.describe_producers([where])[where].active_producers, 60, every=0.2)


@pytest.mark.parametrize("version", ["4.3", "3.9"])
def test_a_producer_goes_on_after_its_partition_forgot_it(
    start_kafka: Callable[..., RealKafka], clients: Clients, version: str
) -> None:
    """Its next sequence number is not the first, and the partition has none to compare it with."""
    kafka = start_kafka(version, configs=FORGETS)
    kafka.create_topic("t")
    where = TopicPartition("t", 0)
    idempotent = clients.producer(kafka, acks="all")
    transactional = clients.producer(kafka, transactional_id="forgotten")
    transactional.init_transactions()
    for _ in range(2):
        for _ in range(3):
            idempotent.send("t", b"idempotent").get(30)
        with transactional.transaction():
            transactional.send("t", b"transactional")
        _wait_forgotten(clients, kafka, where)
    consumer = clients.consumer(kafka, "t", isolation_level="read_committed")
    values = [each.value for each in [*read(consumer, 8), *read_more(consumer)]]
    assert values == ([b"idempotent"] * 3 + [b"transactional"]) * 2


@pytest.mark.parametrize("written", [False, True])
def test_a_broker_that_does_not_know_the_producer_gets_a_new_epoch(
    start_embedded: Callable[..., EmbeddedBroker], clients: Clients, written: bool
) -> None:
    """UNKNOWN_PRODUCER_ID comes from Kafka before 2.5. Newer brokers accept any sequence number.

    A batch that is possibly written fails with an error that says so. Each record is written once.
    Scenario 13.
    """
    broker = start_embedded()
    broker.create_topic("t")
    producer = clients.producer(broker)
    producer.send("t", b"0").get(20)
    if written:
        broker.faults.on("Produce").apply_then_disconnect()
    unknown = broker.faults.on("Produce").then_fail("UNKNOWN_PRODUCER_ID")
    refused = producer.send("t", b"1")
    wait_until(lambda: unknown.hits == 1, 20)
    later = [producer.send("t", b"%d" % number) for number in (2, 3)]
    assert all(each.get(20) for each in later)
    if written:
        with pytest.raises(OutOfOrderSequenceNumberError, match="possibly written") as caught:
            refused.get(20)
        assert caught.value.possibly_written
    else:
        refused.get(20)
    consumer = clients.consumer(broker, "t")
    found = [*read(consumer, 4), *read_more(consumer)]
    assert [each.value for each in found] == [b"0", b"1", b"2", b"3"]
