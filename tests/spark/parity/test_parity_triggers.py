"""The connector's scenarios about triggers: limits, delays, and Trigger.AvailableNow.

The number in a test's name is that of the scenario in docs/spark-parity.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.conftest import Source, Stream, Topics
from tests.spark.parity.engine import Engine
from tests.support.spark_queries import begun
from tests.support.waiting import wait_until
from thalweg.errors import UnknownTopicOrPartitionError
from thalweg.spark import offset_reader, stream_reader
from thalweg.spark.data_loss import DataLossError, PartitionsChangedError
from thalweg.spark.options import parse_source
from thalweg.spark.reader import BatchReader
from thalweg.spark.trigger_delay import TriggerDelay

StreamOf = Callable[..., Stream]

INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"


def earliest(topics: Topics, topic: str, **options: str) -> Engine:
    return Engine(topics, subscribe=topic, startingOffsets="earliest", **options)


def numbers(first: int, count: int) -> list[str]:
    return [f"{n:03d}" for n in range(first, first + count)]


@pytest.fixture
def often_reported(source: Source) -> Iterator[None]:
    """Triggers without new data also report their progress, every 50 ms."""
    source.spark.conf.set(INTERVAL, "50ms")
    yield
    source.spark.conf.unset(INTERVAL)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The seconds of the source's clock, which stands still until the test sets it."""
    now = SimpleNamespace(seconds=1_000.0)
    stopped = SimpleNamespace(monotonic=lambda: now.seconds, sleep=lambda _: None)
    monkeypatch.setattr(stream_reader, "time", stopped)
    return now


# ---------------------------------------------------------------- limits and delays


def test_parity_40_a_small_backlog_waits_for_more_records_or_for_the_delay(
    both: Topics, clock: SimpleNamespace
) -> None:
    topic = both.create(2)
    query = earliest(both, topic, minOffsetsPerTrigger="5", maxTriggerDelay="60s")
    both.send(topic, numbers(0, 2))
    query.start()
    assert query.trigger()  # the first trigger never waits
    both.send(topic, numbers(2, 4))
    clock.seconds += 59
    assert not query.trigger()
    both.send(topic, numbers(6, 1))
    assert query.trigger()  # five offsets
    both.send(topic, numbers(7, 1))
    clock.seconds += 59
    assert not query.trigger()
    clock.seconds += 1
    assert query.trigger()  # the delay is over
    assert [len(query.batches[n]) for n in range(3)] == [2, 5, 1]
    both.send(topic, numbers(8, 1))
    assert not query.trigger()
    query.start()  # after a restart, the first trigger does not wait either
    assert query.trigger()
    query.stop()
    assert query.values() == numbers(0, 9)


def test_parity_40_a_single_batch_and_available_now_do_not_wait(both: Topics) -> None:
    topic = both.create()
    both.send(topic, numbers(0, 7))
    limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "5"}
    query = earliest(both, topic, **limits)
    query.run()
    # Two offsets remain for the second batch, fewer than the minimum. The query reads them.
    assert [len(batch) for batch in query.batches.values()] == [5, 2]
    once = earliest(both, topic, **limits)
    once.start()
    once.trigger(single=True)
    both.send(topic, numbers(7, 1))
    once.trigger(single=True)
    once.stop()
    assert [len(batch) for batch in once.batches.values()] == [7, 1]


def test_parity_41_both_limits_together(both: Topics, clock: SimpleNamespace) -> None:
    topic = both.create()
    limits = {"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "10"}
    query = earliest(both, topic, **limits, maxTriggerDelay="1m")
    both.send(topic, numbers(0, 16))
    query.start()
    assert query.trigger()
    assert not query.trigger()  # six of the backlog remain
    both.send(topic, numbers(16, 14))
    assert query.trigger()
    assert query.trigger()  # ten remain, at least the minimum
    assert not query.trigger()
    query.stop()
    assert [len(batch) for batch in query.batches.values()] == [10, 10, 10]


def test_parity_41_new_partitions_count_from_their_first_offset(
    both: Topics, clock: SimpleNamespace
) -> None:
    topic = both.create()
    query = earliest(both, topic, minOffsetsPerTrigger="4")
    query.start()
    query.trigger()
    both.add_partitions(topic, 2)
    both.send(topic, numbers(0, 3), partition=1)
    assert not query.trigger()
    both.send(topic, numbers(3, 1), partition=0)
    assert query.trigger()
    query.stop()
    assert query.values() == numbers(0, 4)


def test_parity_40_spark_returns_the_limit_and_keeps_the_reader_between_triggers(
    source: Source, both: Topics, stream_of: StreamOf, often_reported: None
) -> None:
    topic = both.create()
    stream = stream_of(
        lambda: source.stream(
            both,
            subscribe=topic,
            startingOffsets="earliest",
            minOffsetsPerTrigger="5",
            maxTriggerDelay="1h",
        )
    )
    both.send(topic, numbers(0, 2))
    query = begun(
        lambda: stream.start(processingTime="50 milliseconds"), lambda query: stream.batches
    )

    def reported() -> int:
        progress = query.lastProgress
        latest = progress and json.loads(progress.sources[0].latestOffset or "null")
        return latest[topic]["0"] if latest else 0

    both.send(topic, numbers(2, 4))
    wait_until(lambda: reported() == 6, 60, what="a trigger that sees the new records")
    assert sorted(stream.batches) == [0]
    both.send(topic, numbers(6, 1))
    wait_until(lambda: 1 in stream.batches, 60, what="the second batch")
    query.stop()
    assert stream.batches == {0: numbers(0, 2), 1: numbers(2, 5)}


def test_the_delay_counts_from_the_last_trigger_that_did_not_wait() -> None:
    delay = TriggerDelay(10, 1_000)
    assert not delay.waits(0, 50_000)  # the first trigger, also without records
    assert delay.waits(9, 50_999)
    assert not delay.waits(10, 50_999)
    assert delay.waits(9, 51_500)
    assert not delay.waits(1, 51_999)


# ---------------------------------------------------------------- offsets by topic


def test_parity_32_a_topic_starts_and_ends_at_a_word(source: Source, both: Topics) -> None:
    one, two = both.create(2), both.create()
    both.send(one, ["old-one"], partition=1)
    both.send(two, ["old-two"])
    start = json.dumps({one: "earliest", two: "LATEST"})
    query = Engine(both, subscribe=f"{one},{two}", startingOffsets=start)
    query.start()
    query.trigger()
    both.send(one, ["new-one"], partition=0)
    both.send(two, ["new-two"])
    query.trigger()
    query.stop()
    assert query.values() == ["new-one", "new-two", "old-one"]
    # Words and numbers in one option, in a batch.
    assert source.values(
        both,
        subscribe=f"{one},{two}",
        startingOffsets=json.dumps({one: "earliest", two: {"0": 1}}),
        endingOffsets=json.dumps({one: {"0": 0, "1": 1}, two: "latest"}),
    ) == ["new-two", "old-one"]
    assigned = Engine(
        both, assign=json.dumps({one: [1]}), startingOffsets=f'{{"{one}":"earliest"}}'
    )
    assigned.run()
    assert assigned.values() == ["old-one"]


def test_parity_32_a_topic_that_is_not_read_or_not_named_is_refused(both: Topics) -> None:
    one, two = both.create(), both.create()
    for start, message in (
        ({one: "earliest"}, "you must specify all TopicPartitions"),
        ({one: "earliest", two: "latest", "other": "latest"}, "topic 'other', which the query"),
    ):
        query = Engine(both, subscribe=f"{one},{two}", startingOffsets=json.dumps(start))
        with pytest.raises(ValueError, match=message):
            query.run()
        query.stop()


# ---------------------------------------------------------------- AvailableNow


def test_parity_35_available_now_and_a_topic_that_comes_back_with_fewer_partitions(
    both: Topics,
) -> None:
    topic = both.create(3)
    for partition in range(3):
        both.send(topic, numbers(partition * 10, 5), partition=partition)
    query = earliest(both, topic, maxOffsetsPerTrigger="6", failOnDataLoss="false")
    query.start(available_now=True)
    query.trigger()
    both.recreate(topic, 1)
    with pytest.raises(
        PartitionsChangedError,
        match="LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
    ):
        query.trigger()
    query.stop()
    assert len(query.values()) == 6


def test_parity_36_available_now_and_offsets_that_shrink(both: Topics) -> None:
    topic = both.create()
    both.send(topic, numbers(0, 15))
    query = earliest(both, topic, maxOffsetsPerTrigger="5", failOnDataLoss="false")
    query.start(available_now=True)
    query.trigger()
    both.recreate(topic)
    both.send(topic, ["new"])
    with pytest.raises(
        PartitionsChangedError,
        match=r"THAN_LATEST_WITH_TRIGGER_AVAILABLENOW.*0 at 1, end .*0 at 10",
    ):
        query.trigger()
    query.stop()
    assert query.values() == numbers(0, 5)


def test_parity_37_a_failed_batch_and_new_partitions_do_not_stop_available_now(
    both: Topics,
) -> None:
    topic = both.create()
    both.send(topic, ["a"])
    query = earliest(both, topic)
    query.start(available_now=True)
    query.trigger(fail=True)
    both.add_partitions(topic, 3)
    both.send(topic, ["b"], partition=2)
    query.run()
    assert query.batches == {0: ["a"], 1: ["b"]}


def test_available_now_in_spark_fails_if_the_topic_changes_and_recovers_after_a_restart(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create()
    topics.send(topic, numbers(0, 9))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
    lax = {**options, "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "5000"}
    stream = stream_of(lambda: source.stream(topics, subscribe=topic, **lax))

    def change(batch_id: int) -> None:
        topics.recreate(topic)
        topics.send(topic, numbers(20, 6))

    stream.after = change
    with pytest.raises(StreamingQueryException, match="THAN_LATEST_WITH_TRIGGER_AVAILABLENOW"):
        stream.run()
    stream.after = lambda batch_id: None
    stream.run()
    # The second batch is planned for the offsets 5 to 8. The new topic has the offsets 0 to 5.
    assert stream.values() == [*numbers(0, 5), *numbers(25, 1)]


# ---------------------------------------------------------------- topics that go


@pytest.mark.parametrize("fail", ["true", "false"])
def test_parity_44_without_any_topic_no_empty_offset_is_logged(both: Topics, fail: str) -> None:
    name = both.broker.unused_name("emptied")
    both.broker.wire.create_topic(name, 1)
    both.send(name, ["a"])
    query = Engine(both, subscribePattern=name, startingOffsets="earliest", failOnDataLoss=fail)
    query.start()
    query.trigger()
    both.delete(name)
    assert not query.trigger()
    assert "{}" not in query.ends
    both.broker.wire.create_topic(name, 1)
    both.send(name, ["b", "c"])
    if fail == "false":
        query.trigger()
        # The new topic's first record has the offset of a record that was read before.
        assert query.values() == ["a", "c"]
    query.stop()


def test_parity_48_a_topic_created_again_while_a_batch_runs(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    topic = both.create()
    both.send(topic, numbers(0, 10))
    stream = stream_of(
        lambda: source.stream(
            both,
            subscribe=topic,
            startingOffsets="earliest",
            failOnDataLoss="false",
            # Long enough for the records of the second batch, although the machine is busy.
            **{"kafkaConsumer.pollTimeoutMs": "5000"},
        )
    )
    stream.before = lambda batch_id: both.recreate(topic) if batch_id == 0 else None
    # Before the next trigger: it would see that the new topic is shorter than the old one.
    stream.after = lambda batch_id: both.send(topic, numbers(20, 12)) if batch_id == 0 else None
    query = begun(
        lambda: stream.start(processingTime="50 milliseconds"),
        lambda query: len(stream.batches) > 1,
    )
    assert query.exception() is None
    query.stop()
    assert stream.values() == numbers(30, 2)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_deleted_while_its_first_batch_is_planned(
    topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_reader, "_PATIENCE_MS", 300)
    prefix = topics.broker.unused_name("planned")
    kept, gone = f"{prefix}-kept", f"{prefix}-gone"
    topics.broker.wire.create_topic(kept)
    given = {
        "kafka.bootstrap.servers": topics.broker.bootstrap_servers,
        "subscribePattern": f"{prefix}-.*",
        "startingOffsets": "earliest",
        "failOnDataLoss": fail,
    }
    reader = stream_reader.StreamReader(parse_source(given, "stream"))
    try:
        start = reader.initialOffset()
        topics.broker.wire.create_topic(gone)
        for topic in (kept, gone):
            topics.send(topic, [topic])
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        topics.delete(gone)
        if fail == "true":
            with pytest.raises(DataLossError, match=f"INITIAL_OFFSET_NOT_FOUND.*{gone}-0"):
                reader.partitions(start, end)
        else:
            [part] = reader.partitions(start, end)
            assert [each.topic for each in part.value] == [kept]
    finally:
        reader.stop()


@pytest.mark.parametrize("missing", ["other topic", "other partition"])
def test_a_named_partition_that_does_not_exist_is_an_error_that_names_it(
    both: Topics, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_reader, "_PATIENCE_MS", 300)
    topic = both.create()
    named = {topic: [0, 7]} if missing == "other partition" else {topic: [0], f"{topic}-x": [0]}
    given = {
        "kafka.bootstrap.servers": both.broker.bootstrap_servers,
        "assign": json.dumps(named),
        "fetchOffset.numRetries": "1",
    }
    place = f"{topic}-7" if missing == "other partition" else f"{topic}-x-0"
    with pytest.raises(UnknownTopicOrPartitionError, match=f"Partition {place} does not exist"):
        BatchReader(parse_source(given, "batch")).partitions()
