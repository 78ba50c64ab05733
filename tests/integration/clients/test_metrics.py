"""Metrics of real clients: what they count, reporters, and the statistics callback."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read
from tests.integration.support.scripts import run
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import BufferExhaustedError, KafkaTimeoutError
from thalweg.metrics import KafkaMetric, MetricsReporter


@one_real_broker
def test_a_producer_counts_what_it_sends(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("counted", 2)
    producer = clients.producer(broker, linger_ms=20)
    for row in range(50):
        producer.send(topic, b"x" * 100, partition=row % 2)
    producer.flush(30)
    groups = producer.metrics()
    mine, of_topic = groups["producer-metrics"], groups[f"producer-topic-metrics.{topic}"]
    assert mine["record-send-total"] == of_topic["record-send-total"] == 50
    assert of_topic["byte-total"] > 5000
    assert mine["record-error-total"] == mine["requests-in-flight"] == 0
    assert 0 < mine["request-latency-avg"] <= mine["request-latency-max"]
    assert 1.0 < mine["record-send-rate"] <= 50 / 30 + 0.01
    assert mine["connection-count"] >= 1
    assert mine["flush-time-ns-total"] > 0
    assert mine["metadata-wait-time-ns-total"] > 0
    assert mine["metadata-age"] < 60
    nodes = {name: rows for name, rows in groups.items() if "-node-metrics." in name}
    assert sum(rows["request-total"] for rows in nodes.values()) == mine["request-total"]
    produced = [rows for rows in nodes.values() if not math.isnan(rows["request-latency-avg"])]
    assert produced
    assert groups["kafka-metrics-count"]["count"] == sum(len(rows) for rows in groups.values())
    producer.close()
    assert producer.metrics()["producer-metrics"]["connection-count"] == 0


def test_records_dropped_for_want_of_memory_are_counted(
    start_embedded: Any, clients: Clients
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("full")
    broker.faults.on("Produce").then_silence(times=None)
    producer = clients.producer(broker, buffer_memory=40_000, max_block_ms=50)

    def is_known() -> bool:
        try:
            return bool(producer.partitions_for("full"))
        except KafkaTimeoutError:  # 50 ms may be too short for metadata
            return False

    wait_until(is_known, 20)

    def fill_up() -> None:
        for _ in range(1000):
            producer.send("full", bytes(1000))

    with pytest.raises(BufferExhaustedError):
        fill_up()
    figures = producer.metrics()["producer-metrics"]
    assert figures["buffer-exhausted-total"] == 1
    assert figures["bufferpool-wait-time-ns-total"] >= 40e6
    assert figures["buffer-total-bytes"] == 40_000
    producer.close(timeout=0)


@one_real_broker
def test_a_consumer_counts_what_it_reads(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("read")
    fill(clients, broker, topic, 30)
    consumer = clients.consumer(broker, topic)
    read(consumer, 30)
    groups = consumer.metrics()
    fetches = groups["consumer-fetch-manager-metrics"]
    assert fetches["records-consumed-total"] == 30
    assert fetches["fetch-total"] >= 1
    assert fetches["fetch-latency-avg"] <= fetches["fetch-latency-max"]
    assert fetches["records-consumed-rate"] > 0
    of_partition = groups[f"consumer-fetch-manager-metrics.{topic}-0"]
    assert (of_partition["records-lag"], of_partition["records-lead"]) == (0, 30)
    assert (fetches["records-lag-max"], fetches["records-lead-min"]) == (0, 30)
    assert groups["consumer-metrics"]["response-total"] >= 2
    assert any(name.startswith("consumer-node-metrics.node-") for name in groups)
    consumer.close()
    closed = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert closed["records-consumed-total"] == 30


@one_real_broker
def test_a_partitions_figures_follow_its_position(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("followed")
    producer = clients.producer(broker, linger_ms=60_000)  # otherwise a list may become two batches
    producer.send_many(topic, [b"x"] * 30)
    producer.flush(30)
    consumer = clients.consumer(broker, topic)

    def of_partition() -> dict[str, float]:
        figures = consumer.metrics()[f"consumer-fetch-manager-metrics.{topic}-0"]
        assert figures.pop("preferred-read-replica") == -1, "the leader"
        return figures

    assert of_partition().keys() <= {"records-lag", "records-lead"}
    for _ in range(3):
        wait_until(lambda: consumer.poll(100, max_records=10), 30)
    # 20, 10, 0 records before the end and 10, 20, 30 after the start.
    assert of_partition() == {
        "records-lag": 0,
        "records-lag-avg": 10,
        "records-lag-max": 20,
        "records-lead": 30,
        "records-lead-avg": 20,
        "records-lead-min": 10,
    }
    consumer.seek(TopicPartition(topic, 0), 5)
    for _ in range(25):
        next(consumer)
    # Each poll counts, and so does the step of an iteration that ends a batch, but no other step.
    assert of_partition()["records-lag-avg"] == 30 / 4


@one_real_broker
def test_polls_are_dated_and_compared_with_the_time_between(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("polled")
    consumer = clients.consumer(broker, topic)

    def figures() -> dict[str, float]:
        return consumer.metrics()["consumer-metrics"]

    assert figures()["last-poll-seconds-ago"] == -1
    assert math.isnan(figures()["time-between-poll-avg"])
    assert math.isnan(figures()["poll-idle-ratio-avg"])

    def polled(timeout_ms: int, name: str) -> float:
        """Polls, and returns a figure. A pause of the machine between the two may spoil it."""
        consumer.poll(timeout_ms)
        return figures()[name]

    consumer.poll(0)
    # It does nothing but poll.
    wait_until(lambda: polled(300, "poll-idle-ratio-avg") > 0.6)
    time.sleep(0.5)
    before = figures()["last-poll-seconds-ago"]
    assert before >= 0.45
    time.sleep(1)
    wait_until(lambda: polled(0, "last-poll-seconds-ago") < before + 1)
    assert figures()["time-between-poll-max"] >= 800
    # These polls are idle for no time at all.
    wait_until(lambda: polled(0, "poll-idle-ratio-avg") < 0.6)


@one_real_broker
def test_an_iteration_counts_as_a_poll_once_a_batch(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("iterated")
    producer = clients.producer(broker, linger_ms=60_000)  # otherwise a list may become two batches
    for _ in range(10):
        producer.send_many(topic, [b"x"] * 10)
        producer.flush(30)
    consumer = clients.consumer(broker, topic)

    def ago() -> float:
        found: float = consumer.metrics()["consumer-metrics"]["last-poll-seconds-ago"]
        return found

    next(consumer)
    time.sleep(0.3)
    for _ in range(9):
        next(consumer)
    assert ago() >= 0.3, "the same batch"

    def is_dated() -> bool:
        """Reads a batch, whose first step is a poll. A pause of the machine may hide it."""
        before = ago()
        time.sleep(0.3)
        next(consumer)
        after = ago()
        for _ in range(9):
            next(consumer)
        return after < before + 0.2

    assert any(is_dated() for _ in range(9))


@one_real_broker
def test_asyncio_consumers_polls_are_dated(broker: Broker) -> None:
    topic = broker.create_topic("asyncio-polls")

    async def ago(call: Callable[[AIOKafkaConsumer[Any, Any]], Awaitable[Any]]) -> list[float]:
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            figures = lambda: consumer.metrics()["consumer-metrics"]  # noqa: E731
            before = figures()["last-poll-seconds-ago"]
            await call(consumer)
            return [before, figures()["last-poll-seconds-ago"]]

    async def program() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"x")
        calls: list[Callable[[AIOKafkaConsumer[Any, Any]], Awaitable[Any]]] = [
            lambda consumer: consumer.getone(),
            lambda consumer: consumer.getmany(timeout_ms=10),
            lambda consumer: consumer.poll_arrow(10),
        ]
        for call in calls:
            before, after = await ago(call)
            assert before == -1
            assert 0 <= after < 30

    asyncio.run(asyncio.wait_for(program(), 60))


@one_real_broker
def test_windows_are_as_long_as_asked_for(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("windows")
    producer = clients.producer(broker, metrics_num_samples=1, metrics_sample_window_ms=200)
    sent = itertools.count(1)

    def measured() -> int:
        """Sends a record. Returns how many there are, or 0 if the window has ended meanwhile."""
        count = next(sent)
        producer.send(topic, b"x").get(30)
        return count if producer.metrics()["producer-metrics"]["batch-size-avg"] > 0 else 0

    count = wait_until(measured, 30)
    wait_until(lambda: math.isnan(producer.metrics()["producer-metrics"]["batch-size-avg"]), 10)
    assert producer.metrics()["producer-metrics"]["record-send-total"] == count


@one_real_broker
def test_statistics_come_on_the_callback_thread_until_the_client_is_closed(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create_topic("statistics")
    told: list[tuple[str, dict[str, Any]]] = []

    def stats(figures: dict[str, Any]) -> None:
        told.append((threading.current_thread().name, figures))
        if len(told) == 1:
            raise ValueError("the first one raises")

    producer = clients.producer(broker, stats_cb=stats, statistics_interval_ms=20)
    callbacks: list[str] = []
    record = producer.send(topic, b"x")
    record.add_callback(lambda _: callbacks.append(threading.current_thread().name))
    record.get(30)
    wait_until(lambda: told and told[-1][1]["txmsgs"] == 1 and len(told) > 3, 10)
    assert "the first one raises" in caplog.text
    wait_until(lambda: bool(callbacks), 10)
    assert threading.current_thread().name not in {name for name, _ in told}
    assert told[-1][1]["metrics"]["producer-metrics"]["record-send-total"] == 1
    producer.close()
    count = len(told)
    again = clients.producer(broker, stats_cb=stats, statistics_interval_ms=20)
    wait_until(lambda: told[-1][1]["client_id"] == again.config["client_id"], 10)
    closed = producer.config["client_id"]
    late = [each for _, each in told[count + 1 :] if each["client_id"] == closed]
    assert late == [], "at most a call that had begun"
    again.close()


@one_real_broker
def test_a_reporter_hears_of_new_nodes_and_topics(broker: Broker, clients: Clients) -> None:
    class Kept(MetricsReporter):
        def __init__(self) -> None:
            self.metrics: list[KafkaMetric] = []
            self.closed = False

        def init(self, metrics: list[KafkaMetric]) -> None:
            self.metrics += metrics

        def metric_change(self, metric: KafkaMetric) -> None:
            self.metrics.append(metric)

        def close(self) -> None:
            self.closed = True

    reporter = Kept()
    topic = broker.create_topic("reported")
    producer = clients.producer(broker, metric_reporters=[reporter])
    producer.send(topic, b"x").get(30)

    def of_topic() -> list[KafkaMetric]:
        tag = ("topic", topic)
        return [each for each in reporter.metrics if tag in each.metric_name.tags]

    wait_until(lambda: len(of_topic()) == 9, 10)
    values = {each.metric_name.name: each.value() for each in of_topic()}
    assert values["record-send-total"] == 1.0
    producer.close()
    assert reporter.closed


LEFT_OPEN = """
    told = []
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1], stats_cb=told.append, statistics_interval_ms=1
    )
    while len(told) < 3:
        producer.send("t", b"x").get(30)
    child = os.fork()
    if not child:
        before = len(told)
        with KafkaProducer(bootstrap_servers=sys.argv[1]) as own:
            own.send("t", b"x").get(30)
        os._exit(len(told) - before)
    assert os.waitpid(child, 0)[1] == 0
    print("left open at exit")
"""


def test_timers_do_not_run_in_a_forked_child_and_harm_no_exit(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    ended = run(LEFT_OPEN, broker.bootstrap_servers)
    assert (ended.code, ended.lines) == (0, ["left open at exit"]), ended.err


@one_real_broker
def test_asyncio_producers_tell_the_same(broker: Broker) -> None:
    topic = broker.create_topic("asyncio")
    told: list[dict[str, Any]] = []
    heard: list[KafkaMetric] = []

    class Kept(MetricsReporter):
        def init(self, metrics: list[KafkaMetric]) -> None:
            heard.extend(metrics)

    async def run_it() -> Any:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            stats_cb=told.append,
            statistics_interval_ms=20,
            metric_reporters=[Kept],
        ) as producer:
            await producer.send_and_wait(topic, b"x")
            while not told or not told[-1]["txmsgs"]:
                await asyncio.sleep(0.01)
            return producer.metrics()[f"producer-topic-metrics.{topic}"]

    figures = asyncio.run(asyncio.wait_for(run_it(), 30))
    assert figures["record-send-total"] == 1
    assert heard


def test_a_members_figures_tell_of_rebalances_and_commits(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("figures-of-members", 2)
    producer = clients.producer(broker)
    producer.send(topic, b"x", partition=0)
    producer.flush(30)

    def member() -> Any:
        made = clients.consumer(broker, group_id=topic, enable_auto_commit=False)
        made.subscribe([topic])
        return made

    def of(consumer: Any) -> dict[str, float]:
        found: dict[str, float] = consumer.metrics()["consumer-coordinator-metrics"]
        return found

    # The group's coordinator has loaded its offsets, so it refuses no join for that reason.
    clients.consumer(broker, group_id=topic).committed(TopicPartition(topic, 0))
    first = member()
    assert of(first)["last-rebalance-seconds-ago"] == -1
    wait_until(lambda: first.poll(100), 60)
    alone = of(first)
    for name in ("rebalance-total", "join-total", "sync-total"):
        assert alone[name] == 1
    for name in ("rebalance-latency-avg", "join-time-max", "sync-time-avg"):
        assert 0 < alone[name] < 30_000
    assert alone["assigned-partitions"] == 2
    assert 0 <= alone["last-rebalance-seconds-ago"] < 30
    # A coordinator that is loading refuses, and the offsets topic may have just been created.
    assert alone["failed-rebalance-total"] <= 3
    assert alone["commit-total"] == 0
    assert math.isnan(alone["partition-revoked-latency-avg"])
    first.commit()
    first.commit_async()
    second = member()
    wait_until(lambda: not first.poll(20) and not second.poll(20) and second.assignment(), 60)
    wait_until(lambda: not first.poll(20) and of(first)["rebalance-total"] == 2, 60)
    shared = of(first)
    assert shared["assigned-partitions"] == 1
    assert shared["commit-total"] == 2
    assert shared["commit-latency-avg"] > 0
    assert not math.isnan(shared["partition-revoked-latency-avg"])
    everything = first.metrics()
    assert everything["consumer-metrics"]["commit-sync-time-ns-total"] > 0
    counted = everything["kafka-metrics-count"]["count"]
    assert counted == sum(map(len, everything.values()))
