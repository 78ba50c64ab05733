"""Committed offsets of assigned partitions: commit, committed, auto-commit."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read, within
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, OffsetAndMetadata, TopicPartition
from thalweg.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)

# No auto-commit is due before the close, however slow the machine is.
ON_CLOSE = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}


def _group(topic: str) -> str:
    return f"group-of-{topic}"


def _reader(clients: Clients, broker: Any, topic: str, **options: Any) -> Any:
    options = {"group_id": _group(topic), "enable_auto_commit": False, **options}
    return clients.consumer(broker, topic, **options)


def test_another_consumer_goes_on_from_the_committed_offset(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("goeson")
    fill(clients, broker, topic, 100)
    where = TopicPartition(topic, 0)
    with _reader(clients, broker, topic) as first:
        assert first.committed(where) is None
        first.poll(20_000, max_records=40)
        first.commit()
        assert first.committed(where) == 40
        assert first.committed(where, metadata=True) == OffsetAndMetadata(40, "", 0)
    second = _reader(clients, broker, topic)
    assert second.position(where) == 40
    assert read(second, 60)[0].offset == 40


def test_offsets_and_metadata_may_be_chosen(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("chosen", 2)
    both = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = _reader(clients, broker, topic)
    chosen = {both[0]: OffsetAndMetadata(7, "größe"), both[1]: OffsetAndMetadata(9)}
    consumer.commit(chosen)
    assert consumer.committed(both[0], metadata=True) == OffsetAndMetadata(7, "größe", -1)
    assert consumer.committed(both[1]) == 9


def test_without_committed_offset_the_policy_counts(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("nothing")
    fill(clients, broker, topic, 10)
    where = TopicPartition(topic, 0)
    assert _reader(clients, broker, topic).position(where) == 0
    assert _reader(clients, broker, topic, auto_offset_reset="latest").position(where) == 10


def test_commit_async_tells_its_outcome_from_a_later_call(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("async")
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic)
    calls: list[Any] = []
    futures = []
    for offset in (1, 2, 3):
        chosen = {where: OffsetAndMetadata(offset)}
        futures.append(
            consumer.commit_async(
                chosen, lambda offsets, response: calls.append((offsets, response))
            )
        )
    wait_until(lambda: consumer.poll(50) == {} and len(calls) == 3, 60)
    assert [offsets[where].offset for offsets, _ in calls] == [1, 2, 3]
    assert not any(isinstance(response, Exception) for _, response in calls)
    assert all(each.succeeded() for each in futures)
    assert consumer.committed(where) == 3


def test_auto_commit_commits_what_was_polled(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("auto")
    fill(clients, broker, topic, 50)
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic, enable_auto_commit=True, auto_commit_interval_ms=200)
    read(consumer, 50)
    other = _reader(clients, broker, topic)
    wait_until(lambda: consumer.poll(50) == {} and other.committed(where) == 50, 60)


def test_asking_for_a_position_does_not_commit_what_is_in_work(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("inwork")
    fill(clients, broker, topic, 10)
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic, enable_auto_commit=True, auto_commit_interval_ms=100)
    ((*_, last),) = consumer.poll(20_000).values()
    time.sleep(0.2)  # the application's work, during which the next commit is due
    assert consumer.position(where) == last.offset + 1
    consumer.close(autocommit=False)  # waits for a commit in flight
    # 0: the commit made while the poll waited for its first record.
    assert _reader(clients, broker, topic).committed(where) in (None, 0)


@pytest.mark.parametrize("autocommit", [True, False])
def test_close_commits_only_if_it_is_to(broker: Broker, clients: Clients, autocommit: bool) -> None:
    topic = broker.create_topic("onclose")
    fill(clients, broker, topic, 10)
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic, **ON_CLOSE)
    read(consumer, 10)
    consumer.close(autocommit=autocommit)
    assert _reader(clients, broker, topic).committed(where) == (10 if autocommit else None)


def test_an_exception_in_a_with_block_commits_nothing(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("exception")
    fill(clients, broker, topic, 10)
    reader = _reader(clients, broker, topic, **ON_CLOSE)

    def read_and_fail() -> None:
        with reader:
            read(reader, 10)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        read_and_fail()
    assert _reader(clients, broker, topic).committed(TopicPartition(topic, 0)) is None


def test_seek_to_committed(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("tocommitted")
    fill(clients, broker, topic, 20)
    where = TopicPartition(topic, 0)
    consumer = _reader(clients, broker, topic)
    read(consumer, 20)
    consumer.commit({where: OffsetAndMetadata(12)})
    consumer.seek_to_committed()
    assert consumer.position(where) == 12


def test_a_seek_wins_over_the_committed_offset(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("seekwins")
    fill(clients, broker, topic, 20)
    where = TopicPartition(topic, 0)
    _reader(clients, broker, topic).commit({where: OffsetAndMetadata(5)})
    consumer = _reader(clients, broker, topic)
    consumer.seek(where, 17)
    assert [each.offset for each in read(consumer, 3)] == [17, 18, 19]


def test_without_a_group_there_is_nothing_to_commit_to(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("groupless")
    where = TopicPartition(topic, 0)
    consumer = clients.consumer(broker, topic)
    for call in (consumer.commit, consumer.commit_async, lambda: consumer.committed(where)):
        with pytest.raises(IllegalStateError):
            call()


@pytest.mark.parametrize(
    "offsets, error",
    [
        ({("t", 0): OffsetAndMetadata(1)}, TypeError),
        ({TopicPartition("t", 0): "5"}, TypeError),
        ({TopicPartition("t", 0): OffsetAndMetadata(-1)}, ValueError),
    ],
)
def test_impossible_commits_are_refused(
    embedded: Broker, clients: Clients, offsets: Any, error: type[Exception]
) -> None:
    consumer = _reader(clients, embedded, embedded.create_topic("impossible"))
    with pytest.raises(error):
        consumer.commit(offsets)


@pytest.mark.parametrize(
    "api, error",
    [
        ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetCommit", "NOT_COORDINATOR"),
        ("OffsetCommit", "REQUEST_TIMED_OUT"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("OffsetFetch", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_passing_errors_of_the_coordinator_are_tried_again(
    start_embedded: Any, clients: Clients, api: str, error: str
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("passing")
    fill(clients, broker, "passing", 10)
    where = TopicPartition("passing", 0)
    with broker.faults.on(api).then_fail(error, times=2) as fault:
        consumer = _reader(clients, broker, "passing")
        read(consumer, 10)
        consumer.commit()
        assert consumer.committed(where) == 10
        assert fault.hits == 2


def test_a_commit_that_is_refused_raises(start_embedded: Any, clients: Clients) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("refusing")
    consumer = _reader(clients, broker, "refusing")
    with (
        broker.faults.on("OffsetCommit").then_fail("GROUP_AUTHORIZATION_FAILED"),
        pytest.raises(KafkaError) as caught,
    ):
        consumer.commit({TopicPartition("refusing", 0): OffsetAndMetadata(1)})
    assert type(caught.value).__name__ == "GroupAuthorizationFailedError"


def test_a_commit_for_a_partition_that_does_not_exist_says_so(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """The client retries until the timeout, as in Java, but logs a warning."""
    topic = broker.create_topic("absent")
    consumer = _reader(clients, broker, topic)
    assert consumer.committed(TopicPartition(topic, 0)) is None  # the coordinator is there
    absent = {TopicPartition(topic, 7): OffsetAndMetadata(1)}
    reason = f"committing the offset of {topic}-7: This server does not host"
    with (
        caplog.at_level(logging.WARNING, "thalweg.coordinator"),
        within(30, at_least_s=1),
        pytest.raises(KafkaTimeoutError, match=reason) as caught,
    ):
        consumer.commit(absent, timeout_ms=6000)
    assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)
    told = [each.getMessage() for each in caplog.records if each.name == "thalweg.coordinator"]
    assert [reason in each for each in told] == [True]


def test_a_commit_succeeds_once_its_partition_is_there(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("appears")
    consumer = _reader(clients, broker, topic)
    late = TopicPartition(topic, 1)
    making = threading.Timer(0.5, clients.admin(broker).create_partitions, [{topic: 2}])
    making.start()
    consumer.commit({late: OffsetAndMetadata(1)}, timeout_ms=60_000)
    making.join()
    assert consumer.committed(late) == 1


def test_a_lost_connection_to_the_coordinator_is_made_again(
    start_embedded: Any, clients: Clients
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("reconnected")
    where = TopicPartition("reconnected", 0)
    consumer = _reader(clients, broker, "reconnected")
    consumer.commit({where: OffsetAndMetadata(1)})
    with broker.faults.on("OffsetCommit").then_disconnect():
        consumer.commit({where: OffsetAndMetadata(2)})
    assert consumer.committed(where) == 2
