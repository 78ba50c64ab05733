"""Faults of the embedded broker during sends: no record lost or duplicated, all in order."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, read_more, within
from tests.integration.support.load import RECORDS, Load, Numbers
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.errors import KafkaConnectionError, KafkaTimeoutError, NotLeaderForPartitionError

PARTITIONS = 4
# The number of faults in a run. A share of the records is sent before and after each.
TURNS = scaled(4, minimum=2)
SHARE = RECORDS // (TURNS + 1)
# This broker handles many more records than a real one, and keeps them in memory. A small run uses
# a lower rate, because other tests' brokers are starting at the same time.
RATE_PER_S = scaled(100_000, minimum=30_000)
VALUE_BYTES = 20


@pytest.fixture
def broker(start_embedded: Any) -> EmbeddedBroker:
    """Three nodes; the topic t."""
    found: EmbeddedBroker = start_embedded(nodes=3)
    found.create_topic("t", PARTITIONS, replication_factor=3)
    return found


def _sender(clients: Clients, broker: EmbeddedBroker, **options: Any) -> Any:
    options = {"linger_ms": 2, "request_timeout_ms": 1000, **options}
    return clients.producer(broker, **options)


def _load(producer: Any) -> Load:
    return Load(producer, "t", PARTITIONS, size=VALUE_BYTES, rate_per_s=RATE_PER_S)


FAULTS: dict[str, Any] = {
    "apply then disconnect": lambda rule: rule.apply_then_disconnect(times=5),
    "disconnect": lambda rule: rule.then_disconnect(times=5),
    "delay": lambda rule: rule.then_delay(300, times=5),
    "delay over the request's time": lambda rule: rule.then_delay(1500, times=3),
    "silence": lambda rule: rule.then_silence(times=3),
    "not leader": lambda rule: rule.then_fail("NOT_LEADER_OR_FOLLOWER", times=10),
    "unknown topic": lambda rule: rule.then_fail("UNKNOWN_TOPIC_OR_PARTITION", times=10),
    "fenced epoch": lambda rule: rule.then_fail("FENCED_LEADER_EPOCH", times=5),
    "corrupt on the way": lambda rule: rule.then_fail("CORRUPT_MESSAGE", times=5),
    "replicas": lambda rule: rule.then_fail("NOT_ENOUGH_REPLICAS", times=10),
    "replicas after append": lambda rule: rule.then_fail(
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND", times=10
    ),
    "storage": lambda rule: rule.then_fail("KAFKA_STORAGE_ERROR", times=5),
    "timed out": lambda rule: rule.then_fail("REQUEST_TIMED_OUT", times=5),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_under_load_loses_and_doubles_nothing(
    broker: EmbeddedBroker, clients: Clients, name: str
) -> None:
    with _load(_sender(clients, broker)) as load:
        _again_and_again(load, lambda: _strike(broker, name))
    load.check(clients.consumer(broker))


def _again_and_again(load: Load, strike: Callable[[], None]) -> None:
    """Sends all records of a run, with a fault before each share except the first."""
    load.wait_for(SHARE)
    for _ in range(TURNS):
        strike()
        load.wait_for(SHARE)


def _strike(broker: EmbeddedBroker, name: str) -> None:
    fault = FAULTS[name](broker.faults.on("Produce"))
    wait_until(lambda: fault.hits >= 3, 30, what=lambda: f"3 hits, not {fault.hits}")


@pytest.mark.parametrize("name", ["apply then disconnect", "not leader", "disconnect"])
def test_with_one_request_in_flight_order_is_kept_too(
    broker: EmbeddedBroker, clients: Clients, name: str
) -> None:
    sender = _sender(clients, broker, max_in_flight_requests_per_connection=1)
    with _load(sender) as load:
        _again_and_again(load, lambda: _strike(broker, name))
    load.check(clients.consumer(broker))


def test_leaders_that_move_under_load_lose_and_double_nothing(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    moves = 16
    with _load(_sender(clients, broker)) as load:
        for turn in range(moves):
            where = ("t", turn % PARTITIONS)
            broker.move_leader(where, broker.leader(where) % 3 + 1)
            load.wait_for(RECORDS // moves)
    load.check(clients.consumer(broker))


def test_nodes_stopped_and_started_under_load_lose_and_double_nothing(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    nodes = (1, 2, 3, 1)
    share = RECORDS // (2 * len(nodes))
    with _load(_sender(clients, broker)) as load:
        for node in nodes:
            broker.stop_node(node)
            load.wait_for(share)
            broker.start_node(node)
            load.wait_for(share)
    load.check(clients.consumer(broker))


def test_a_whole_cluster_stopped_and_started_loses_and_doubles_nothing(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    with _load(_sender(clients, broker)) as load:

        def strike() -> None:
            for node in broker.nodes:
                broker.stop_node(node)
            already = load.sent
            wait_until(lambda: load.sent > already + 200, 30)
            for node in broker.nodes:
                broker.start_node(node)

        _again_and_again(load, strike)
    load.check(clients.consumer(broker))


def test_metadata_that_fails_for_a_while_loses_nothing(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    def strike() -> None:
        fault = broker.faults.on("Metadata").then_disconnect(times=5)
        broker.move_leader(("t", 0), broker.leader(("t", 0)) % 3 + 1)
        wait_until(lambda: fault.hits == 5, 30)

    with _load(_sender(clients, broker, metadata_max_age_ms=100)) as load:
        _again_and_again(load, strike)
    load.check(clients.consumer(broker))


def test_a_lost_response_is_requested_again_and_names_the_offset(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    producer = _sender(clients, broker)
    producer.send("t", b"first", partition=0).get(20)
    with broker.faults.on("Produce").apply_then_disconnect() as fault, within(15):
        assert producer.send("t", b"second", partition=0).get(20).offset == 1
        assert fault.hits == 1
    assert producer.send("t", b"third", partition=0).get(20).offset == 2
    records = read(clients.consumer(broker, "t"), 3)
    assert [each.value for each in records] == [b"first", b"second", b"third"]


def test_a_moved_leader_is_found_without_an_error(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _sender(clients, broker)
    consumer = clients.consumer(broker, "t")
    for offset in range(6):
        broker.move_leader(("t", 0), offset % 3 + 1)
        with within(30):
            assert producer.send("t", b"%d" % offset, partition=0).get(20).offset == offset
            assert [each.offset for each in read(consumer, 1)] == [offset]


def test_without_retries_the_first_error_is_the_last(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    # Without retries, a pause of the machine must not time a request out.
    options = {"retries": 0, "request_timeout_ms": 30_000}
    producer = _sender(clients, broker, enable_idempotence=False, **options)
    producer.send("t", b"first", partition=0).get(20)
    broker.faults.on("Produce").then_fail("NOT_LEADER_OR_FOLLOWER")
    failed = producer.send("t", b"second", partition=0)
    with within(20), pytest.raises(NotLeaderForPartitionError):
        failed.get(20)
    assert failed.retriable()
    broker.faults.on("Produce").then_disconnect()
    with within(20), pytest.raises((KafkaConnectionError, KafkaTimeoutError)):
        producer.send("t", b"third", partition=0).get(20)
    assert producer.send("t", b"fourth", partition=0).get(20).offset == 1


@pytest.mark.parametrize(
    "error, name",
    [
        ("TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationFailedError"),
        ("INVALID_REQUIRED_ACKS", "InvalidRequiredAcksError"),
        ("RECORD_LIST_TOO_LARGE", "RecordListTooLargeError"),
        ("INVALID_RECORD", "InvalidRecordError"),
        ("POLICY_VIOLATION", "PolicyViolationError"),
    ],
)
def test_what_no_retry_cures_fails_those_records_and_the_producer_goes_on(
    broker: EmbeddedBroker, clients: Clients, error: str, name: str
) -> None:
    # If the only response with the error came too late, the request would be sent again.
    producer = _sender(clients, broker, request_timeout_ms=30_000)
    producer.send("t", b"first", partition=0).get(20)
    broker.faults.on("Produce").then_fail(error)
    failed = producer.send("t", b"second", partition=0)
    with within(20):
        assert type(_exception(failed)).__name__ == name
    assert producer.send("t", b"third", partition=0).get(20).offset == 1


def _exception(future: Any) -> Any:
    wait_until(lambda: future.is_done, 20)
    return future.exception


def test_delivery_timeout_ends_the_retries(broker: EmbeddedBroker, clients: Clients) -> None:
    producer = _sender(clients, broker, delivery_timeout_ms=6000, request_timeout_ms=5900)
    producer.send("t", b"first", partition=0).get(20)
    with (
        broker.faults.on("Produce").then_fail("NOT_LEADER_OR_FOLLOWER", times=None),
        within(60, at_least_s=5),
        pytest.raises(
            KafkaTimeoutError, match=r"NOT_LEADER|not the leader|delivery_timeout_ms"
        ) as caught,
    ):
        producer.send("t", b"second", partition=0).get(90)
    # The broker refused each attempt, so the record is in no log.
    assert not caught.value.possibly_written
    assert producer.send("t", b"third", partition=0).get(20).offset == 1


@pytest.mark.parametrize("written", [True, False])
def test_an_expired_batch_never_makes_later_ones_double_or_reorder(
    broker: EmbeddedBroker, clients: Clients, written: bool
) -> None:
    """Batch 2 of 4 expires while it is in flight. Batch 3 was sent after it. Scenario 14."""
    producer = _sender(
        clients, broker, delivery_timeout_ms=12_000, request_timeout_ms=3000, linger_ms=0
    )
    producer.send("t", b"0", partition=0).get(20)
    produce = broker.faults.on("Produce")
    if written:
        produce.apply_then_disconnect()
    with produce.then_silence(times=None) as silence:
        expiring = producer.send("t", b"1", partition=0)
        # After about 7 s, so that batch 3 expires much later.
        wait_until(lambda: silence.hits >= 3 or expiring.is_done, 60)
        third = producer.send("t", b"2", partition=0)
        with pytest.raises(KafkaTimeoutError) as caught:
            expiring.get(60)
        assert caught.value.possibly_written
        assert not third.is_done
        fourth = producer.send("t", b"3", partition=0)
    consumer = clients.consumer(broker, "t")
    wanted = [b"0", b"1", b"2", b"3"] if written else [b"0", b"2", b"3"]
    assert [each.get(20).offset for each in (third, fourth)] == [len(wanted) - 2, len(wanted) - 1]
    found = read(consumer, len(wanted)) + read_more(consumer)
    assert [each.value for each in found] == wanted


def test_a_consumer_survives_everything_too(broker: EmbeddedBroker, clients: Clients) -> None:
    values = [b"%d" % number for number in range(RECORDS)]
    clients.producer(broker, linger_ms=5).send_many("t", values, partition=0).get(60)
    consumer = clients.consumer(
        broker, "t", max_partition_fetch_bytes=5000, request_timeout_ms=1500
    )
    faults = broker.faults
    log = Numbers()
    steps = [
        lambda: faults.on("Fetch").then_disconnect(times=2),
        lambda: broker.move_leader(("t", 0), broker.leader(("t", 0)) % 3 + 1),
        lambda: faults.on("Fetch").apply_then_disconnect(times=2),
        lambda: faults.on("Fetch").then_silence(times=1),
        lambda: faults.on("Fetch").then_fail("FENCED_LEADER_EPOCH", times=3),
        lambda: faults.on("Metadata").then_disconnect(times=2),
        lambda: broker.stop_node(broker.leader(("t", 0))),
    ]
    struck: list[Any] = []
    for step in steps:
        struck.append(step())
        log.read(consumer, RECORDS // 20)
    log.read(consumer, RECORDS - len(log))
    assert all(each.hits for each in struck if each is not None), struck
    log.check(0, array("q", range(RECORDS)))
