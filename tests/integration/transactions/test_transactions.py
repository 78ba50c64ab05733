"""Transactions: commits are visible, aborts are not, older producers are fenced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.clients import Clients, committed, read, read_more, within
from tests.support.brokers import KINDS, Broker
from tests.support.waiting import wait_until
from thalweg import KafkaProducer, TopicPartition
from thalweg.errors import (
    AbortableTransactionError,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
)
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata


def has_version_2(broker: Broker) -> bool:
    """Whether the broker has the protocol's second version. Kafka 3.9 has only the first."""
    return broker.kind != "kafka-3.9"


def transactional(
    clients: Clients, broker: Broker, transactional_id: str | None = None, **options: Any
) -> KafkaProducer[Any, Any]:
    """Makes a producer and initializes its transactions."""
    name = transactional_id or uuid.uuid4().hex
    producer = clients.producer(broker, transactional_id=name, **options)
    producer.init_transactions()
    return producer


def test_commits_are_seen_and_aborts_are_not(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("commits")
    producer = transactional(clients, broker)
    expected = []
    for number in range(6):
        producer.begin_transaction()
        for each in (b"%d a" % number, b"%d b" % number):
            producer.send(topic, each, partition=0)
            if number % 2 == 0:
                expected.append(each)
        if number % 2 == 0:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    assert committed(clients, broker, topic, len(expected)) == expected
    everything = clients.consumer(broker, topic)
    assert len(read(everything, 12)) == 12


def test_nothing_of_an_open_transaction_is_seen(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("open")
    producer = transactional(clients, broker)
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0).get(20)
    assert committed(clients, broker, topic, 0) == []
    producer.commit_transaction()
    assert committed(clients, broker, topic, 1) == [b"a"]


def test_batches_carry_what_transactions_want(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("batches")
    producer = transactional(clients, broker)
    for _ in range(2):
        producer.begin_transaction()
        producer.send(topic, b"a", partition=0).get(20)
        producer.commit_transaction()
    batches = broker.wire.batches(topic, 0)
    data = [batch for batch in batches if batch.base_sequence >= 0]
    assert len(data) == 2
    epochs = [batch.producer_epoch for batch in data]
    sequences = [batch.base_sequence for batch in data]
    if has_version_2(broker):
        assert epochs[1] == epochs[0] + 1
        assert sequences == [0, 0]
    else:
        assert epochs[0] == epochs[1]
        assert sequences == [0, 1]


def test_a_transaction_spans_partitions_topics_and_columns(
    broker: Broker, clients: Clients
) -> None:
    first, second = broker.create_topic("wide", 3), broker.create_topic("wide")
    producer = transactional(clients, broker, linger_ms=50)
    with producer.transaction():
        producer.send_many(first, [b"%d" % n for n in range(300)], partition=[0, 1, 2] * 100)
        producer.send(second, b"last", partition=0)
    consumer = clients.consumer(broker, first, range(3), isolation_level="read_committed")
    assert len(read(consumer, 300)) == 300
    assert committed(clients, broker, second, 1) == [b"last"]


def test_records_not_sent_yet_fail_with_the_abort(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("dropped")
    producer = transactional(clients, broker, linger_ms=60_000)
    producer.begin_transaction()
    future = producer.send(topic, b"a", partition=0)
    producer.abort_transaction()
    assert isinstance(future.exception, TransactionAbortedError)
    assert read_more(clients.consumer(broker, topic)) == []


def test_calls_in_the_wrong_state_name_it(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("states")
    producer = clients.producer(broker, transactional_id=uuid.uuid4().hex)
    with pytest.raises(IllegalStateError, match="UNINITIALIZED"):
        producer.begin_transaction()
    producer.init_transactions()
    for call in (
        lambda: producer.send(topic, b"a"),
        lambda: producer.send_many(topic, [b"a"]),
        producer.commit_transaction,
        producer.abort_transaction,
        producer.init_transactions,
        lambda: producer.send_offsets_to_transaction({}, "g"),
    ):
        with pytest.raises(IllegalStateError, match="READY"):
            call()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="IN_TRANSACTION"):
        producer.begin_transaction()
    plain = clients.producer(broker)
    with pytest.raises(IllegalStateError, match="transactional_id"):
        plain.init_transactions()


def test_a_second_producer_fences_the_first(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("fencing")
    name = uuid.uuid4().hex
    first = transactional(clients, broker, name)
    first.begin_transaction()
    first.send(topic, b"first", partition=0).get(20)
    second = transactional(clients, broker, name)
    with second.transaction():
        second.send(topic, b"second", partition=0)
    future = first.send(topic, b"late", partition=0)
    wait_until(lambda: future.is_done, 20)
    with pytest.raises((AbortableTransactionError, ProducerFencedError)) as caught:
        first.commit_transaction()
    if isinstance(caught.value, AbortableTransactionError):
        # A partition cannot distinguish a newer producer from a transaction that timed out.
        with pytest.raises(ProducerFencedError):
            first.abort_transaction()
    for call in (first.begin_transaction, first.commit_transaction, first.abort_transaction):
        with pytest.raises(ProducerFencedError):
            call()
    with pytest.raises(ProducerFencedError):
        first.send(topic, b"later", partition=0)
    assert committed(clients, broker, topic, 1) == [b"second"]


@pytest.mark.parametrize("sent_before", [True, False])
def test_a_fenced_block_raises_that_it_was_fenced(
    broker: Broker, clients: Clients, sent_before: bool
) -> None:
    """The first sign may be a record, the commit, or the abort that follows."""
    topic = broker.create_topic("fenced-block", 2)
    name = uuid.uuid4().hex
    first = transactional(clients, broker, name)

    def block() -> None:
        with first.transaction():
            if sent_before:
                first.send(topic, b"first", partition=0).get(20)
            transactional(clients, broker, name)
            first.send(topic, b"late", partition=1)

    for _ in range(2):
        with pytest.raises(ProducerFencedError):
            block()


def test_a_record_may_be_the_first_to_meet_a_newer_producer(
    broker: Broker, clients: Clients
) -> None:
    """As docs/transactions.md describes."""
    topic = broker.create_topic("fenced-record")
    name = uuid.uuid4().hex
    first = transactional(clients, broker, name)
    first.begin_transaction()
    first.send(topic, b"first", partition=0).get(20)
    transactional(clients, broker, name)
    with pytest.raises(InvalidProducerEpochError):
        first.send(topic, b"late", partition=0).get(20)
    with pytest.raises(AbortableTransactionError) as caught:
        first.commit_transaction()
    assert isinstance(caught.value.__cause__, InvalidProducerEpochError)
    with pytest.raises(ProducerFencedError):
        first.abort_transaction()
    with pytest.raises(ProducerFencedError):
        first.begin_transaction()


def test_what_an_earlier_producer_left_open_is_aborted(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("left")
    name = uuid.uuid4().hex
    first = transactional(clients, broker, name)
    first.begin_transaction()
    first.send(topic, b"left", partition=0).get(20)
    second = transactional(clients, broker, name)
    with second.transaction():
        second.send(topic, b"next", partition=0)
    assert committed(clients, broker, topic, 1) == [b"next"]


def test_offsets_are_committed_with_the_records(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("offsets")
    group = f"g-{uuid.uuid4().hex}"
    where = TopicPartition(topic, 0)
    producer = transactional(clients, broker)
    reader = clients.consumer(broker, group_id=group, enable_auto_commit=False)
    reader.assign([where])
    for offset, commits in ((3, True), (8, False), (5, True)):
        producer.begin_transaction()
        producer.send(topic, b"%d" % offset, partition=0)
        metadata = reader.group_metadata() if offset == 5 else ConsumerGroupMetadata(group)
        producer.send_offsets_to_transaction({where: OffsetAndMetadata(offset, "note")}, metadata)
        if commits:
            producer.commit_transaction()
            assert reader.committed(where) == offset
        else:
            producer.abort_transaction()
            assert reader.committed(where) == 3
    found = reader.committed(where, metadata=True)
    assert isinstance(found, OffsetAndMetadata)
    assert found.metadata == "note"
    assert committed(clients, broker, topic, 2) == [b"3", b"5"]


def test_offsets_alone_make_a_transaction(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("alone")
    group = f"g-{uuid.uuid4().hex}"
    where = TopicPartition(topic, 0)
    producer = transactional(clients, broker)
    with producer.transaction():
        producer.send_offsets_to_transaction({where: OffsetAndMetadata(4)}, group)
    reader = clients.consumer(broker, group_id=group, enable_auto_commit=False)
    assert reader.committed(where) == 4


def test_a_block_that_raises_commits_nothing(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("block")
    producer = transactional(clients, broker)

    def fail() -> None:
        producer.send(topic, b"a", partition=0).get(20)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), producer.transaction():
        fail()
    with producer.transaction():
        producer.send(topic, b"b", partition=0)
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_a_record_that_fails_costs_the_transaction(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("failing", configs={"max.message.bytes": "2000"})
    producer = transactional(clients, broker)
    producer.begin_transaction()
    future = producer.send(topic, b"x" * 5000, partition=0)
    with pytest.raises(AbortableTransactionError, match="abort_transaction") as caught:
        producer.commit_transaction()
    assert isinstance(future.exception, MessageSizeTooLargeError)
    assert isinstance(caught.value.__cause__, MessageSizeTooLargeError)
    with pytest.raises(AbortableTransactionError):
        producer.send(topic, b"a", partition=0)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"b", partition=0)
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_a_commit_that_ran_out_of_time_is_called_again(
    start_embedded: Any, clients: Clients
) -> None:
    started = start_embedded()
    # Without it the broker might respond before the test looks.
    loading = started.faults.on("EndTxn").then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None)
    broker = Broker("embedded", started.bootstrap_servers)
    producer, topic = impatient(broker, clients)
    with pytest.raises(KafkaTimeoutError, match="call it again"):
        producer.commit_transaction()
    loading.remove()
    # Whether or not the commit has ended by now: nothing has returned its result.
    for call in (producer.abort_transaction, producer.begin_transaction):
        with pytest.raises(IllegalStateError, match="commit_transaction was called before"):
            call()
    until_it_ends(producer.commit_transaction)
    assert committed(clients, broker, topic, 1) == [b"a"]
    producer.begin_transaction()
    until_it_ends(producer.commit_transaction)


def test_a_transaction_without_patience_ends_on_every_broker(
    broker: Broker, clients: Clients
) -> None:
    producer, topic = impatient(broker, clients)
    until_it_ends(producer.commit_transaction)
    assert committed(clients, broker, topic, 1) == [b"a"]
    producer.begin_transaction()
    producer.send(topic, b"b", partition=0).get(20)
    until_it_ends(producer.abort_transaction)
    producer.begin_transaction()
    until_it_ends(producer.commit_transaction)
    assert committed(clients, broker, topic, 1) == [b"a"]


def impatient(broker: Broker, clients: Clients) -> tuple[Any, str]:
    """A producer in a transaction with one acknowledged record. Its calls do not wait."""
    topic = broker.create_topic("again")
    producer = clients.producer(broker, transactional_id=uuid.uuid4().hex, max_block_ms=0)
    until_it_ends(producer.init_transactions)
    until_it_ends(lambda: producer.partitions_for(topic))
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0).get(20)
    return producer, topic


def until_it_ends(call: Callable[[], object]) -> None:
    """Repeats a call that times out until it succeeds."""

    def ends() -> bool:
        try:
            call()
        except KafkaTimeoutError:
            return False
        return True

    wait_until(ends, 30)


def test_ctrl_c_ends_a_commit_that_waits(start_kafka: Any, tmp_path: Path) -> None:
    kafka = start_kafka("4.3")
    kafka.create_topic("paused", 1)
    program = tmp_path / "commit.py"
    program.write_text(COMMITTER)
    command = [sys.executable, str(program), kafka.bootstrap_servers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    node = kafka.node(1).process
    try:
        assert process.stdout.readline() == "open\n"
        node.send_signal(signal.SIGSTOP)
        # Until the node is stopped, its threads may respond.
        os.waitid(os.P_PID, node.pid, os.WSTOPPED)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "commits\n"
        # There is nothing to poll for: the commit must be inside a system call by then.
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        with within(30):  # max_block_ms would allow 60 s
            assert process.stdout.readline() == "KeyboardInterrupt\n"
    finally:
        node.send_signal(signal.SIGCONT)
        process.stdin.close()
        rest = process.stdout.read()
        process.stdout.close()
        process.wait(60)
    # The interrupted call continued, and the next call returned its result.
    assert rest == "committed\n"


COMMITTER = """
import signal, sys
from thalweg import KafkaProducer

# A shell's background jobs ignore SIGINT, and so do the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
with KafkaProducer(bootstrap_servers=sys.argv[1], transactional_id="paused") as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("paused", b"a", partition=0).get(60)
    print("open", flush=True)
    sys.stdin.readline()
    try:
        print("commits", flush=True)
        producer.commit_transaction()
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    producer.commit_transaction()
    print("committed", flush=True)
"""


def test_a_producer_that_is_closed_aborts(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("closing")
    producer = transactional(clients, broker)
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0).get(20)
    with within(30):
        producer.close()
    # The marker is written: records after it can be read at once.
    clients.producer(broker).send(topic, b"b", partition=0).get(20)
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_threads_send_into_one_transaction(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("threads", 4)
    producer = transactional(clients, broker, linger_ms=5)
    for number in range(3):
        producer.begin_transaction()

        def send(number: int = number) -> None:
            for _ in range(200):
                producer.send(topic, b"%d" % number)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if number == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    consumer = clients.consumer(broker, topic, range(4), isolation_level="read_committed")
    values = [record.value for record in [*read(consumer, 1600), *read_more(consumer)]]
    assert sorted(values) == [b"0"] * 800 + [b"2"] * 800


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_that_ran_out_of_time_is_aborted_by_the_broker(
    kind: str, start_kafka: Any, start_embedded: Any, clients: Clients
) -> None:
    if kind == "embedded":
        broker = Broker(kind, start_embedded().bootstrap_servers)
    else:
        quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
        kafka = start_kafka(kind.removeprefix("kafka-"), configs=quick)
        broker = Broker(kind, kafka.bootstrap_servers, kafka.logs)
    topic = broker.create_topic("slow")

    def begun() -> KafkaProducer[Any, Any] | None:
        producer = transactional(clients, broker, transaction_timeout_ms=1000)
        began = time.monotonic()
        producer.begin_transaction()
        try:
            producer.send(topic, b"slow", partition=0).get(60)
        except KafkaError:
            if time.monotonic() - began < 1:
                raise
            return None  # the machine was busy for longer than the timeout
        return producer

    producer = wait_until(begun, 60)
    assert producer is not None
    reader = clients.consumer(broker, topic, isolation_level="read_committed")
    after = clients.producer(broker).send(topic, b"after", partition=0).get(20)
    # Readable once the broker has written its marker.
    assert [record.offset for record in read(reader, 1)] == [after.offset]
    failed = producer.send(topic, b"late", partition=0)
    wait_until(lambda: failed.is_done, 20)
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    if not has_version_2(broker):
        # Version 1: the coordinator has fenced the epoch and no longer accepts its abort.
        with pytest.raises(ProducerFencedError):
            producer.abort_transaction()
        return
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"next", partition=0)
    assert [record.value for record in read(reader, 1)] == [b"next"]
