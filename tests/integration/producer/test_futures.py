"""Futures of send(): callbacks, errbacks, their order and threads."""

from __future__ import annotations

import gc
import logging
import threading
import time
import traceback
import weakref
from typing import Any

import pytest

from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.errors import (
    BatchSendError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from thalweg.structs import RecordMetadata

pytestmark = one_real_broker

TOO_LARGE = b"x" * 2_000_000  # more than max.message.bytes, less than max_request_size


def test_callbacks_get_the_metadata_and_their_own_arguments(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("callbacks")
    sent = clients.producer(broker).send(topic, b"value")
    calls: list[tuple[Any, ...]] = []
    again = sent.add_callback(lambda *args, **more: calls.append((args, more)), 1, 2, three=3)
    assert again is sent
    metadata = sent.get(20)
    wait_until(lambda: calls, 10)
    assert calls == [((1, 2, metadata), {"three": 3})]
    # A normal named tuple, although no Python code made it.
    assert type(metadata) is RecordMetadata
    assert hash(metadata) == hash(tuple(metadata))
    assert metadata == RecordMetadata(*metadata)


def test_a_timeout_that_is_not_a_number_is_refused(clients: Clients, embedded: Broker) -> None:
    topic, producer = embedded.create_topic("nan"), clients.producer(embedded)
    sent = producer.send(topic, b"value")
    batch = producer.send_many(topic, [b"value"])
    for wait in (producer.flush, sent.get, batch.get):
        with pytest.raises(ValueError, match="timeout must be a number of seconds"):
            wait(float("nan"))
    assert sent.get(float("inf")).offset == 0


def test_a_record_is_possibly_written_when_a_wait_for_it_times_out(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded()
    producer = clients.producer(broker, request_timeout_ms=1_500)
    producer.send("t", b"first").get(20)
    with broker.faults.on("Produce").then_silence(times=None):
        one = producer.send("t", b"second")
        many = producer.send_many("t", [b"third", b"fourth"])
        for future in (one, many):
            with pytest.raises(KafkaTimeoutError, match=r"call get\(\) again") as caught:
                future.get(timeout=0.1)
            assert caught.value.possibly_written
    assert one.get(60).offset == 1
    assert list(many.get(60).offsets) == [2, 3]


def test_what_cannot_be_called_is_refused_at_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("uncallable")
    producer = clients.producer(broker)
    batch = producer.send_many(topic, [b"value"])
    for future in (producer.send(topic, b"value"), batch):
        for add in (future.add_callback, future.add_errback, future.add_both):
            with pytest.raises(TypeError, match="3 is not callable"):
                add(3)  # type: ignore[arg-type]
        assert future.get(20)


def test_a_callback_added_late_runs_at_once_in_the_same_thread(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("late")
    sent = clients.producer(broker).send(topic, b"value")
    metadata = sent.get(20)
    calls: list[Any] = []
    sent.add_callback(lambda value: calls.append((value, threading.current_thread())))
    sent.add_errback(lambda error: calls.append(error))
    assert calls == [(metadata, threading.current_thread())]


def test_errbacks_get_the_error_and_callbacks_do_not_run(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("errbacks")
    producer = clients.producer(broker, max_request_size=4_000_000)
    sent = producer.send(topic, TOO_LARGE)
    calls: list[tuple[str, Any]] = []
    sent.add_callback(lambda value: calls.append(("callback", value)))
    sent.add_errback(lambda error: calls.append(("errback", error)))
    sent.add_both(lambda outcome: calls.append(("both", outcome)))
    with pytest.raises(MessageSizeTooLargeError):
        sent.get(20)
    wait_until(lambda: len(calls) == 2, 10)
    assert [name for name, _ in calls] == ["errback", "both"]
    assert calls[0][1] == calls[1][1] == sent.exception
    assert isinstance(sent.exception, MessageSizeTooLargeError)
    assert sent.failed()
    assert not sent.succeeded()
    assert not sent.retriable()


def test_a_callback_that_raises_is_logged_with_where_it_did(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> None:
        raise LookupError("no such thing")

    producer = clients.producer(broker)
    with caplog.at_level(logging.ERROR, "thalweg.callbacks"):
        producer.send(broker.create_topic("broken"), b"x").add_callback(broken).get(20)
        wait_until(lambda: bool(caplog.records), 10)
    error = caplog.records[0].exc_info
    assert error is not None
    assert isinstance(error[1], LookupError)
    assert traceback.extract_tb(error[2])[-1].name == "broken"


def _encoded(value: bytes) -> bytes:
    if value == b"wrong":
        raise ValueError("cannot be encoded")
    return value


def _refused(producer: Any, broker: EmbeddedBroker, held: object) -> None:
    broker.faults.on("Metadata").then_fail(29, times=None)  # TOPIC_AUTHORIZATION_FAILED
    future = producer.send("forbidden", b"v")
    for _ in range(2):
        with pytest.raises(TopicAuthorizationFailedError):
            future.get(10)


def _too_large(producer: Any, broker: EmbeddedBroker, held: object) -> None:
    future = producer.send_many("t", [b"v", TOO_LARGE])
    for _ in range(2):
        with pytest.raises(BatchSendError, match="1 rows were not written, the first is row 1"):
            future.get(10)


def _not_encoded(producer: Any, broker: EmbeddedBroker, held: object) -> None:
    future = producer.send_many("t", [b"v", b"wrong"])
    for _ in range(2):
        with pytest.raises(BatchSendError, match="cannot be encoded"):
            future.get(10)


def _raised_by_row(producer: Any, broker: EmbeddedBroker, held: object) -> None:
    future = producer.send_many("t", [b"v", b"wrong"])
    with pytest.raises(BatchSendError) as caught:
        future.get(10)
    for _, error in caught.value.errors:
        with pytest.raises(ValueError, match="cannot be encoded"):
            raise error


@pytest.mark.parametrize("fails", [_refused, _too_large, _not_encoded, _raised_by_row])
def test_a_future_that_failed_keeps_no_frames(
    start_embedded: Any, clients: Clients, fails: Any
) -> None:
    broker: EmbeddedBroker = start_embedded()
    for topic in ("t", "forbidden"):
        broker.create_topic(topic)
    by_row = {"value_serializer": _encoded} if fails in (_not_encoded, _raised_by_row) else {}
    producer = clients.producer(broker, **by_row)

    class Held:
        """A local object of a function that waits."""

    def waits() -> weakref.ref[Held]:
        held = Held()
        fails(producer, broker, held)
        return weakref.ref(held)

    gone = waits()
    gc.collect()
    assert gone() is None


def test_callbacks_of_a_partition_run_in_the_order_of_the_sends(
    broker: Broker, clients: Clients
) -> None:
    count = scaled(500_000, minimum=2000)
    topic = broker.create_topic("order", 3)
    producer = clients.producer(broker, linger_ms=5)
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    threads: set[threading.Thread] = set()

    def done(number: int, metadata: Any) -> None:
        seen[metadata.partition].append(number)
        threads.add(threading.current_thread())

    for number in range(count):
        producer.send(topic, b"%d" % number, partition=number % 3).add_callback(done, number)
    producer.flush(60)
    wait_until(lambda: sum(map(len, seen.values())) == count, 30)
    assert all(seen[p] == list(range(p, count, 3)) for p in seen)
    # Callbacks added late may run in this thread. All others run in the one callback thread.
    assert len(threads - {threading.current_thread()}) <= 1


def test_a_callback_that_raises_harms_nothing_else(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario 32."""
    topic = broker.create_topic("raising")
    # Longer than the sends take: a callback that is added late may overtake those of others.
    producer = clients.producer(broker, linger_ms=60_000)
    calls: list[int] = []

    def done(number: int, _: Any) -> None:
        calls.append(number)
        if number % 2:
            raise RuntimeError(f"callback {number}")

    with caplog.at_level(logging.ERROR):
        sent = [producer.send(topic, b"v").add_callback(done, number) for number in range(10)]
        producer.flush(20)
        wait_until(lambda: len(calls) == 10, 10)
        assert producer.send(topic, b"v").get(20).offset == 10
        wait_until(lambda: "callback 9" in caplog.text, 10)
    logged = [str(each.exc_info[1]) for each in caplog.records if each.exc_info]
    assert logged == [f"callback {number}" for number in range(1, 10, 2)]
    assert calls == list(range(10))
    assert [each.get(0).offset for each in sent] == list(range(10))


def test_a_callback_may_send(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("chain")
    producer = clients.producer(broker)
    last = threading.Event()

    def next_one(metadata: Any) -> None:
        if metadata.offset == 9:
            last.set()
        else:
            producer.send(topic, b"next").add_callback(next_one)

    producer.send(topic, b"first").add_callback(next_one)
    assert last.wait(60)
    assert broker.wire.end_offsets(topic) == {0: 10}


def test_a_callback_may_flush_without_a_deadlock(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("reentrant")
    producer = clients.producer(broker, linger_ms=50)
    flushed = threading.Event()

    def done(_: Any) -> None:
        producer.send(topic, b"second")
        producer.flush(30)
        flushed.set()

    producer.send(topic, b"first").add_callback(done)
    assert flushed.wait(60)
    assert broker.wire.end_offsets(topic) == {0: 2}


def test_many_threads_wait_for_one_future(start_embedded: Any, clients: Clients) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("shared")
    producer = clients.producer(broker)
    producer.partitions_for("shared")
    with broker.faults.on("Produce").then_delay(500):
        sent = producer.send("shared", b"value")
        offsets: list[int] = []
        threads = [
            threading.Thread(target=lambda: offsets.append(sent.get(20).offset)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert offsets == [0] * 8


def test_a_slow_callback_does_not_hold_up_delivery(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("slow")
    producer = clients.producer(broker)
    release = threading.Event()
    producer.send(topic, b"first").add_callback(lambda _: release.wait(20))
    try:
        for number in range(1, 20):
            assert producer.send(topic, b"next").get(10).offset == number
    finally:
        release.set()


def test_a_wait_does_not_hold_the_interpreter(start_embedded: Any, clients: Clients) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("waiting")
    producer = clients.producer(broker)
    producer.partitions_for("waiting")
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.005)

    counter = threading.Thread(target=count)
    counter.start()
    with broker.faults.on("Produce").then_silence():
        sent = producer.send("waiting", b"value")
        # A busy machine gets more time, but between these waits the other thread has few turns.
        for _ in range(5):
            with pytest.raises(KafkaTimeoutError):
                sent.get(1.0)
            if turns > 20:
                break
    stop.set()
    counter.join()
    assert turns > 20
    producer.close(timeout=0)
