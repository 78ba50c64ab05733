"""Requests of transactions: the embedded broker responds like Kafka 4.3.

Each test runs on both brokers, so it asserts what a real Kafka does. Kafka 3.9 does not have
KIP-890, which most of this file tests. The embedded broker is faster, because all is in one
process. `TransactionRequests` waits for the real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.integration.transactions.transaction_requests import Producer, TransactionRequests
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

_numbers = itertools.count(1)
Speak = Callable[[], TransactionRequests]


@pytest.fixture
def speak(modern_broker: Broker) -> Iterator[Speak]:
    """Uses a new transactional ID at each call."""
    made: list[TransactionRequests] = []

    def make() -> TransactionRequests:
        name = modern_broker.unused_name("requests")
        made.append(TransactionRequests(modern_broker.bootstrap_servers, name))
        return made[-1]

    yield make
    for each in made:
        each.close()


def begun(speaker: TransactionRequests, topic: str) -> Producer:
    """Makes a producer with a record in an open transaction."""
    error, producer = speaker.init()
    assert (error, speaker.produce(producer, topic)) == ("NONE", "NONE")
    return producer


def test_a_producer_that_recovers_is_told_its_epoch_again(speak: Speak) -> None:
    speaker = speak()
    _, first = speaker.init()
    assert speaker.init() == ("NONE", first.newer())
    second = first.newer()
    assert speaker.init(second) == ("NONE", second.newer())
    assert speaker.init(second) == ("NONE", second.newer())
    assert speaker.init(first)[0] == "PRODUCER_FENCED"
    assert speaker.init(Producer(first.id + 1000, 0))[0] == "PRODUCER_FENCED"
    assert speaker.init(Producer(first.id + 1000, 0), version=3)[0] == "INVALID_PRODUCER_EPOCH"
    assert speaker.init(timeout_ms=900_001)[0] == "INVALID_TRANSACTION_TIMEOUT"
    assert speaker.init(timeout_ms=0)[0] == "INVALID_TRANSACTION_TIMEOUT"


def test_a_fenced_producer_is_refused_everywhere(modern_broker: Broker, speak: Speak) -> None:
    topic, speaker = modern_broker.create_topic("fenced"), speak()
    old = begun(speaker, topic)
    speaker.init()
    assert speaker.produce(old, topic) == "INVALID_PRODUCER_EPOCH"
    assert speaker.produce(old, topic, version=11) == "INVALID_PRODUCER_EPOCH"
    assert speaker.add(old, topic) == "PRODUCER_FENCED"
    assert speaker.add(old, topic, version=1) == "INVALID_PRODUCER_EPOCH"
    assert speaker.add_offsets(old, "g") == "PRODUCER_FENCED"
    assert speaker.commit_offset(old, "g", topic, 1) == "INVALID_PRODUCER_EPOCH"
    assert speaker.end(old, commit=True)[0] == "PRODUCER_FENCED"
    assert speaker.end(old, commit=False)[0] == "PRODUCER_FENCED"
    assert speaker.end(old, commit=True, version=1)[0] == "INVALID_PRODUCER_EPOCH"
    assert speaker.end_offset(topic, read_committed=True) == 2


def test_an_end_gets_a_response_again_but_never_ends_the_next(
    modern_broker: Broker, speak: Speak
) -> None:
    topic, speaker = modern_broker.create_topic("ends"), speak()
    producer = begun(speaker, topic)
    _, later = speaker.end(producer, commit=True)
    assert later == producer.newer()
    assert speaker.end(producer, commit=True) == ("NONE", later)
    assert speaker.end(producer, commit=False)[0] == "INVALID_TXN_STATE"
    assert speaker.produce(later, topic) == "NONE"
    assert speaker.end(producer, commit=True)[0] == "PRODUCER_FENCED"
    assert speaker.end(producer, commit=False)[0] == "PRODUCER_FENCED"
    assert speaker.end(later.newer(), commit=True)[0] == "PRODUCER_FENCED"
    stranger = Producer(later.id + 1000, 0)
    assert speaker.end(stranger, commit=True)[0] == "INVALID_PRODUCER_ID_MAPPING"
    assert speaker.end(later, commit=False) == ("NONE", later.newer())
    assert speaker.settled_state() == "CompleteAbort"
    assert speaker.end(later, commit=False) == ("NONE", later.newer())
    assert speaker.end(later, commit=True)[0] == "INVALID_TXN_STATE"


def test_an_empty_transaction_can_be_aborted_only(speak: Speak) -> None:
    speaker = speak()
    _, producer = speaker.init()
    assert speaker.end(producer, commit=True)[0] == "INVALID_TXN_STATE"
    assert speaker.end(producer, commit=False) == ("NONE", producer.newer())
    assert speaker.end(producer, commit=False) == ("NONE", producer.newer())
    assert speaker.end(producer, commit=True)[0] == "INVALID_TXN_STATE"


def test_older_clients_add_partitions_first(modern_broker: Broker, speak: Speak) -> None:
    topic, speaker = modern_broker.create_topic("older", 2), speak()
    _, producer = speaker.init()
    assert speaker.produce(producer, topic, version=11) == "TRANSACTION_ABORTABLE"
    assert speaker.produce(producer, topic, version=10) == "INVALID_TXN_STATE"
    assert speaker.describe()["TransactionState"] == "Empty"
    assert speaker.add(producer, "unknown-topic") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert speaker.add(producer, "__consumer_offsets") == "TOPIC_AUTHORIZATION_FAILED"
    assert speaker.add(producer, topic) == "NONE"
    assert speaker.produce(producer, topic, version=11) == "NONE"
    assert speaker.produce(producer, topic, 1, version=11) == "TRANSACTION_ABORTABLE"
    assert speaker.end(producer, commit=True, version=4)[0] == "NONE"
    assert speaker.settled_state() == "CompleteCommit"
    assert speaker.end(producer, commit=True, version=4)[0] == "NONE"
    assert speaker.end(producer, commit=False, version=4)[0] == "INVALID_TXN_STATE"
    assert speaker.add(producer, topic) == "NONE"
    assert speaker.produce(producer, topic, version=11) == "NONE"
    assert speaker.end(producer, commit=False, version=4)[0] == "NONE"


def test_batches_that_do_not_belong_are_refused(modern_broker: Broker, speak: Speak) -> None:
    topic, speaker = modern_broker.create_topic("strangers", 2), speak()
    producer = begun(speaker, topic)
    refused = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert speaker.produce(producer, topic, transactional_id=None) == refused
    assert speaker.produce(producer, topic, transactional=False) == "INVALID_TXN_STATE"
    assert speaker.produce(producer, topic, sequence=0) == "NONE"  # written once
    assert speaker.produce(producer, topic, 1, sequence=5) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    other = speak()
    assert other.produce(producer, topic, 1) == "INVALID_PRODUCER_ID_MAPPING"
    assert other.produce(producer, topic, 1, version=9) == "INVALID_PRODUCER_ID_MAPPING"
    assert other.end(producer, commit=True)[0] == "INVALID_PRODUCER_ID_MAPPING"
    assert speaker.end_offset(topic, read_committed=False) == 1


def test_offsets_wait_for_the_end_of_their_transaction(modern_broker: Broker, speak: Speak) -> None:
    topic, speaker = modern_broker.create_topic("offsets"), speak()
    group = f"group-{next(_numbers)}-{topic}"
    _, producer = speaker.init()
    assert speaker.commit_offset(producer, group, topic, 5, version=4) == "TRANSACTION_ABORTABLE"
    assert speaker.commit_offset(producer, group, topic, 5, version=2) == "INVALID_TXN_STATE"
    assert speaker.commit_offset(producer, group, topic, 5) == "NONE"
    assert speaker.describe()["Topics"][0]["Topic"] == "__consumer_offsets"
    assert speaker.offset(group, topic, stable=True)[0] == "UNSTABLE_OFFSET_COMMIT"
    assert speaker.offset(group, topic, stable=False) == ("NONE", -1)
    unknown = speaker.commit_offset(producer, group, "unknown-topic", 5)
    assert unknown == "UNKNOWN_TOPIC_OR_PARTITION"
    member = speaker.commit_offset(producer, group, topic, 5, generation=3, member="m")
    assert member == "UNKNOWN_MEMBER_ID"
    stranger = speaker.commit_offset(producer, group + "-x", topic, 5, generation=3, member="m")
    assert stranger == "ILLEGAL_GENERATION"
    _, producer = speaker.end(producer, commit=True)
    assert speaker.settled_state() == "CompleteCommit"
    assert speaker.offset(group, topic, stable=True) == ("NONE", 5)
    assert speaker.commit_offset(producer, group, topic, 9) == "NONE"
    speaker.end(producer, commit=False)
    assert speaker.settled_state() == "CompleteAbort"
    assert speaker.offset(group, topic, stable=True) == ("NONE", 5)


def test_the_last_stable_offset_and_aborted_transactions(
    modern_broker: Broker, speak: Speak
) -> None:
    topic, one, two = modern_broker.create_topic("stable"), speak(), speak()
    first, second = begun(one, topic), begun(two, topic)
    assert one.produce(first, topic) == "NONE"
    assert one.aborted(topic) == (0, [])
    one.end(first, commit=False)
    one.settled_state()
    assert one.aborted(topic) == (1, [(first.id, 0)])
    two.end(second, commit=True)
    two.settled_state()
    assert one.aborted(topic) == (5, [(first.id, 0)])
    assert one.aborted(topic, 3) == (5, [(first.id, 0)])
    assert one.aborted(topic, 4) == (5, [])
    assert one.end_offset(topic, read_committed=True) == 5


def test_a_transaction_older_than_its_timeout_is_rolled_back(
    modern_broker: Broker, speak: Speak
) -> None:
    topic, speaker = modern_broker.create_topic("timeout"), speak()
    _, producer = speaker.init(timeout_ms=500)
    assert speaker.produce(producer, topic) == "NONE"

    def over() -> bool:
        return bool(speaker.describe()["TransactionState"] == "CompleteAbort")

    wait_until(over, 60, what="the coordinator rolls back")
    assert speaker.aborted(topic)[1] == [(producer.id, 0)]
    assert speaker.produce(producer, topic) == "INVALID_PRODUCER_EPOCH"
    assert speaker.add(producer, topic) == "PRODUCER_FENCED"
    assert speaker.end(producer, commit=True)[0] == "INVALID_TXN_STATE"
    assert speaker.end(producer, commit=True, version=4)[0] == "PRODUCER_FENCED"
    # The response to an abort has the epoch to continue with.
    assert speaker.end(producer, commit=False) == ("NONE", producer.newer())
    assert speaker.produce(producer.newer(), topic) == "NONE"


def test_an_administrator_ends_what_hangs(modern_broker: Broker, speak: Speak) -> None:
    topic, speaker = modern_broker.create_topic("hangs"), speak()
    speaker.init()
    producer = begun(speaker, topic)
    assert speaker.mark(producer.older(), topic) == "INVALID_PRODUCER_EPOCH"
    assert speaker.end_offset(topic, read_committed=True) == 0
    assert speaker.mark(producer, topic, coordinator_epoch=0) == "NONE"
    assert speaker.end_offset(topic, read_committed=True) == 2
    late = speaker.mark(producer, topic, coordinator_epoch=-1)
    assert late == "TRANSACTION_COORDINATOR_FENCED"
    assert speaker.end(producer, commit=True) == ("NONE", producer.newer())
