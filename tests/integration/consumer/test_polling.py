"""poll() and iteration: limits, leftovers, pauses, wake-ups."""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, by_partition, fill, read, read_more, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.coordinator.driver import Driver
from thalweg.errors import IllegalStateError, WakeupError


def test_poll_gives_at_most_max_poll_records(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("limits", 3)
    for partition in range(3):
        fill(clients, broker, topic, 100, partition=partition)
    consumer = clients.consumer(broker, topic, range(3), max_poll_records=7)
    sizes: list[int] = []
    while sum(sizes) < 300:
        found = consumer.poll(20_000)
        sizes.append(sum(map(len, found.values())))
        assert 1 <= sizes[-1] <= 7
        assert all(records for records in found.values())
    assert sum(sizes) == 300
    assert consumer.poll(0, max_records=1000) == {}


def test_leftovers_come_before_anything_newer_and_nothing_is_lost(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("leftovers", 2)
    values = fill(clients, broker, topic, 1000), fill(clients, broker, topic, 1000, partition=1)
    consumer = clients.consumer(broker, topic, (0, 1), fetch_max_bytes=5000)
    found: list[Any] = []
    step = 0
    while len(found) < 2000:
        step += 1
        for where, records in consumer.poll(20_000, max_records=1 + step % 13).items():
            found += records
            assert consumer.position(where) == records[-1].offset + 1
    split = by_partition(found)
    for partition in (0, 1):
        assert [each.offset for each in split[partition]] == list(range(1000))
        assert [each.value for each in split[partition]] == values[partition]


@one_real_broker
def test_records_and_futures_cost_no_garbage_collections(broker: Broker, clients: Clients) -> None:
    """No reference cycle contains them, so the collector need not visit hundreds of thousands."""
    topic = broker.create_topic("untracked")
    producer = clients.producer(broker)
    futures = [producer.send(topic, b"%d" % n) for n in range(3)]
    assert not any(gc.is_tracked(each) for each in futures)
    assert [each.get(30).offset for each in futures] == [0, 1, 2]
    consumer = clients.consumer(broker, topic)
    records = read(consumer, 3)
    assert not any(gc.is_tracked(each) for each in records)
    consumer.seek_to_beginning()
    assert not gc.is_tracked(next(consumer))


def test_polling_takes_turns_between_partitions(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("turns", 4)
    for partition in range(4):
        fill(clients, broker, topic, 400, partition=partition, batch_size=500)
    consumer = clients.consumer(
        broker, topic, range(4), max_partition_fetch_bytes=2000, max_poll_records=50
    )
    found = by_partition(read(consumer, 800))
    assert len(found) == 4


@one_real_broker
def test_what_comes_while_the_coordinator_is_at_work_is_looked_at_at_once(
    broker: Broker, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def before_poll(driver: Driver, left_ms: int | None, polls: bool = True) -> None:
        times.append(time.monotonic())
        if len(times) < 5:
            driver.reenter()  # as a response does that arrives now
        elif len(times) == 5:
            consumer.wakeup()

    monkeypatch.setattr(Driver, "before_poll", before_poll)
    # Otherwise the responses to fetches, every 500 ms, could end the waits, too.
    consumer = clients.consumer(broker, broker.create_topic("news"), fetch_max_wait_ms=25_000)
    with within(15), pytest.raises(WakeupError):
        consumer.poll(60_000)
    assert len(times) >= 5


def test_an_empty_poll_waits_for_its_time(broker: Broker, clients: Clients) -> None:
    consumer = clients.consumer(broker, broker.create_topic("empty"))
    with within(15, at_least_s=0.35):
        assert consumer.poll(400) == {}
    with within(15):
        assert consumer.poll() == {}


def test_a_waiting_poll_gives_a_record_as_soon_as_it_is_there(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("asap")
    consumer = clients.consumer(broker, topic, fetch_max_wait_ms=25_000)
    producer = clients.producer(broker)
    consumer.poll(200)
    with within(12, at_least_s=0.3):
        threading.Timer(0.5, producer.send, (topic, b"late")).start()
        ((record,),) = consumer.poll(20_000).values()
    assert record.value == b"late"


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"timeout_ms": -1}, ValueError),
        ({"max_records": 0}, ValueError),
        ({"max_records": -5}, ValueError),
        ({"max_records": "ten"}, TypeError),
        ({"update_offsets": False}, ValueError),
    ],
)
def test_arguments_out_of_range_are_refused(
    embedded: Broker, clients: Clients, arguments: dict[str, Any], error: type[Exception]
) -> None:
    consumer = clients.consumer(embedded, embedded.create_topic("arguments"))
    with pytest.raises(error):
        consumer.poll(**arguments)


@pytest.mark.parametrize(
    "read_on",
    [
        lambda consumer: consumer.poll(60_000),
        lambda consumer: consumer.poll(),
        lambda consumer: consumer.poll_arrow(60_000),
        next,
        list,
    ],
    ids=["poll", "poll at once", "poll_arrow", "next", "iteration"],
)
@pytest.mark.parametrize("options", [{}, {"consumer_timeout_ms": 60_000}])
def test_reading_nothing_is_refused_at_once(
    embedded: Broker, clients: Clients, options: dict[str, Any], read_on: Callable[[Any], Any]
) -> None:
    consumer = clients.consumer(embedded, **options)
    message = "^IllegalStateError: Consumer is not subscribed to any topics or assigned any part"
    for _ in range(2):
        with within(20), pytest.raises(IllegalStateError, match=message):
            read_on(consumer)
    consumer.subscribe([embedded.create_topic("then")])
    assert consumer.poll(100) == {}
    consumer.unsubscribe()
    with within(20), pytest.raises(IllegalStateError, match=message):
        read_on(consumer)


def test_a_subscription_without_partitions_yet_is_polled(
    embedded: Broker, clients: Clients
) -> None:
    consumer = clients.consumer(embedded, consumer_timeout_ms=100, allow_auto_create_topics=False)
    consumer.subscribe(["comes-later"])
    assert consumer.poll(100) == {}
    assert consumer.poll_arrow(100).num_rows == 0
    assert list(consumer) == []


def _iterated(consumer: Any, count: int) -> list[Any]:
    """Iterates to the end, once or, if the machine pauses, until there are `count` records."""
    found: list[Any] = []

    def enough() -> bool:
        found.extend(consumer)
        return len(found) >= count

    wait_until(enough)
    return found


@one_real_broker
def test_iteration_moves_the_position_record_by_record(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("iteration")
    values = fill(clients, broker, topic, 100)
    consumer = clients.consumer(broker, topic)
    for number, record in enumerate(consumer):
        assert record.value == values[number]
        assert consumer.position(TopicPartition(topic, 0)) == number + 1
        if number == 49:
            break
    assert [next(consumer).offset for _ in range(50)] == list(range(50, 100))


@one_real_broker
def test_iteration_ends_after_consumer_timeout_ms(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("timeout")
    values = fill(clients, broker, topic, 10)
    consumer = clients.consumer(broker, topic, consumer_timeout_ms=4000)
    with within(30, at_least_s=3.9):
        assert [record.value for record in _iterated(consumer, 10)] == values
    fill(clients, broker, topic, 2)
    # The consumer works again.
    assert [record.offset for record in _iterated(consumer, 2)] == [10, 11]


@one_real_broker
def test_iteration_and_poll_may_be_mixed(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("mixture")
    values = fill(clients, broker, topic, 60)
    consumer = clients.consumer(broker, topic)
    found = [next(consumer).value for _ in range(20)]
    found += [each.value for each in read(consumer, 20)][:40]
    while len(found) < 60:
        found.append(next(consumer).value)
    assert found == values


def test_a_paused_partition_keeps_what_is_buffered(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("pausing", 2)
    for partition in (0, 1):
        fill(clients, broker, topic, 200, partition=partition)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = clients.consumer(broker, topic, (0, 1), max_poll_records=10)
    wait_until(lambda: first in consumer.poll(1000), 20)
    consumer.pause(first)
    assert consumer.paused() == {first}
    before = consumer.position(first)
    assert before < 200
    assert {each.partition for each in read_more(consumer, 1.0)} <= {1}
    assert consumer.position(first) == before
    consumer.resume(first)
    assert consumer.paused() == set()
    rest: list[Any] = []
    while consumer.position(first) < 200:
        rest += consumer.poll(20_000).get(first, [])
    assert [each.offset for each in rest] == list(range(before, 200))
    wait_until(lambda: consumer.poll(100) == {} and consumer.position(second) == 200, 20)


@one_real_broker
def test_pausing_within_iteration_hands_out_nothing_more(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("pauseiter", 2)
    for partition in (0, 1):
        fill(clients, broker, topic, 50, partition=partition)
    consumer = clients.consumer(broker, topic, (0, 1), consumer_timeout_ms=4000)
    paused = TopicPartition(topic, next(consumer).partition)
    consumer.pause(paused)
    assert {each.partition for each in _iterated(consumer, 50)} == {1 - paused.partition}
    consumer.resume(paused)
    assert [each.offset for each in _iterated(consumer, 49)] == list(range(1, 50))


def test_only_assigned_partitions_can_be_paused(embedded: Broker, clients: Clients) -> None:
    consumer = clients.consumer(embedded, embedded.create_topic("assigned"))
    with pytest.raises(IllegalStateError):
        consumer.pause(TopicPartition("other", 0))
    with pytest.raises(TypeError):
        consumer.pause(("other", 0))  # type: ignore[arg-type]


@one_real_broker
def test_wakeup_ends_a_waiting_poll(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("wakeup")
    consumer = clients.consumer(broker, topic)
    with within(15, at_least_s=0.4):
        threading.Timer(0.5, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            consumer.poll(30_000)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(consumer)
    values = fill(clients, broker, topic, 3)  # the consumer continues to work
    assert [each.value for each in read(consumer, 3)] == values


@one_real_broker
def test_wakeup_ends_the_next_step_of_an_iteration_too(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("wakeup")
    fill(clients, broker, topic, 50, linger_ms=60_000)  # one batch
    consumer = clients.consumer(broker, topic)
    assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(consumer)
    assert [next(consumer).offset for _ in range(3)] == [3, 4, 5]


def _poll_elsewhere(consumer: Any) -> threading.Thread:
    """Polls in a thread, for up to a minute."""

    def poll() -> None:
        while True:
            try:
                consumer.poll(60_000)
            except IllegalStateError as error:
                if "thread" in str(error):  # the test's thread was in a call
                    continue
            return

    thread = threading.Thread(target=poll)
    thread.start()
    return thread


@one_real_broker
def test_a_second_thread_is_turned_away(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("second")
    consumer = clients.consumer(broker, topic)
    waiting = _poll_elsewhere(consumer)
    caught: list[Exception] = []

    def turned_away() -> bool:
        try:
            consumer.poll(0)
        except IllegalStateError as error:
            caught.append(error)
        return bool(caught)

    with within(20):
        wait_until(turned_away, 20)
    assert "thread" in str(caught[0])
    with pytest.raises(IllegalStateError):
        consumer.poll_arrow(0)
    with pytest.raises(IllegalStateError):
        next(consumer)
    fill(clients, broker, topic, 1)
    waiting.join(30)
    assert consumer.poll(0) == {}


CALLS: dict[str, Callable[[Any, TopicPartition], object]] = {
    "commit": lambda consumer, _: consumer.commit(),
    "commit_async": lambda consumer, _: consumer.commit_async(),
    "commit_marked": lambda consumer, _: consumer.commit_marked(),
    "committed": lambda consumer, where: consumer.committed(where),
    "subscribe": lambda consumer, where: consumer.subscribe([where.topic]),
    "unsubscribe": lambda consumer, _: consumer.unsubscribe(),
    "assign": lambda consumer, where: consumer.assign([where]),
    "seek_to_committed": lambda consumer, _: consumer.seek_to_committed(),
    "allow_rebalance": lambda consumer, _: consumer.allow_rebalance(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_second_thread_may_not_work_with_the_group_either(
    embedded: Broker, clients: Clients, call: str
) -> None:
    topic = embedded.create_topic("second-calls")
    consumer = clients.consumer(embedded, topic, group_id=topic)
    waiting = _poll_elsewhere(consumer)

    def turned_away(does: Callable[[], object]) -> bool:
        try:
            does()
        except IllegalStateError as error:
            return "thread" in str(error)
        return False

    def works() -> object:
        return CALLS[call](consumer, TopicPartition(topic, 0))

    # First until the other thread is in its poll. Before that, the call could end its assignment.
    wait_until(lambda: turned_away(lambda: consumer.poll(0)), 20)
    assert turned_away(works)
    fill(clients, embedded, topic, 1)
    waiting.join(30)
    assert not turned_away(works)


@one_real_broker
def test_a_wait_does_not_hold_the_interpreter(broker: Broker, clients: Clients) -> None:
    consumer = clients.consumer(broker, broker.create_topic("released"))
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.005)

    def turns_during_a_poll() -> int:
        before = turns
        consumer.poll(800)
        return turns - before

    counter = threading.Thread(target=count)
    counter.start()
    try:
        wait_until(lambda: turns_during_a_poll() > 20)
    finally:
        stop.set()
        counter.join()


def test_the_next_fetch_is_in_flight_while_records_are_handled(
    start_embedded: Any, clients: Clients
) -> None:
    """The application's own work hides slow responses."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("pipelined")
    fill(clients, broker, "pipelined", 1000, batch_size=1000)
    consumer = clients.consumer(broker, "pipelined", max_partition_fetch_bytes=1000)
    read(consumer, 1)
    with broker.faults.on("Fetch").then_delay(600, times=None):
        waits = []
        for _ in range(5):
            time.sleep(0.9)  # the application's work
            start = time.monotonic()
            assert consumer.poll(20_000)
            waits.append(time.monotonic() - start)
    assert statistics.median(waits) < 0.3, waits


@one_real_broker
def test_a_closed_consumer_says_so(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("closed")
    with clients.consumer(broker, topic) as consumer:
        assert consumer.poll(0) == {}
    where = TopicPartition(topic, 0)
    for call in (
        lambda: consumer.poll(0),
        lambda: consumer.poll_arrow(0),
        lambda: consumer.position(where),
        lambda: consumer.end_offsets([where]),
        lambda: consumer.assign([where]),
    ):
        with pytest.raises(IllegalStateError):
            call()
    with pytest.raises(StopIteration):  # as in kafka-python, close() ends a for loop
        next(consumer)
    consumer.close()


@one_real_broker
def test_metrics_count_what_was_read(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("figures")
    fill(clients, broker, topic, 30)
    consumer = clients.consumer(broker, topic)
    read(consumer, 30)
    figures = consumer.metrics(raw=True)
    totals = {name.name: figure.value() for name, figure in figures.items()}
    assert totals["records-consumed-total"] == 30
