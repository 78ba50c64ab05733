"""Stream reads: where a query starts, what a batch reads, restarts, and a crash in batch 0."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.conftest import Source, Stream, Topics
from tests.support.brokers import Broker
from tests.support.spark_queries import begun, finish
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.broker import Fault
from thalweg.range_reader import OffsetRange
from thalweg.spark.data_loss import DataLossError
from thalweg.spark.options import parse_source
from thalweg.spark.reader import read_ranges
from thalweg.spark.stream_reader import StreamReader

StreamOf = Callable[..., Stream]


def logged(stream: Stream, batch_id: int) -> dict[str, object]:
    """Returns the source's offset of a batch in the checkpoint."""
    lines = (stream.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return json.loads(lines[2])


def replace_logged(stream: Stream, batch_id: int, end: dict[str, object]) -> None:
    """Replaces a batch's end in the checkpoint, and removes the old checksum file."""
    file = stream.checkpoint / "offsets" / str(batch_id)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], json.dumps(end)]))
    file.with_name(f".{batch_id}.crc").unlink(missing_ok=True)


def test_a_query_restarts_where_it_ended(
    source: Source, every_broker: Topics, stream_of: StreamOf
) -> None:
    topic = every_broker.create(2)
    stream = stream_of(
        lambda: source.stream(every_broker, subscribe=topic, startingOffsets="earliest")
    )
    every_broker.send(topic, ["a", "b", "c"])
    stream.run()
    assert stream.values() == ["a", "b", "c"]
    every_broker.send(topic, ["d"])
    stream.run()
    assert stream.batches[1] == ["d"]
    stream.run()  # no new records: no batch
    assert sorted(stream.batches) == [0, 1]


def test_the_checkpoint_has_the_connectors_offsets_and_the_start_of_batch_0(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create(2)
    topics.send(topic, ["a", "b"], partition=1)
    stream = stream_of(lambda: source.stream(topics, subscribe=topic, startingOffsets="earliest"))
    stream.run()
    topics.send(topic, ["c"], partition=0)
    stream.run()
    assert logged(stream, 0) == {
        topic: {"0": 0, "1": 2},
        "@start": {topic: {"0": 0, "1": 0}},
    }
    assert logged(stream, 1) == {topic: {"0": 1, "1": 2}}


def test_latest_is_the_default_start(
    source: Source, every_broker: Topics, stream_of: StreamOf
) -> None:
    topic = every_broker.create()
    every_broker.send(topic, ["before"])
    stream = stream_of(lambda: source.stream(every_broker, subscribe=topic))
    # When the query waits for data, its first request to the broker is done.
    query = begun(
        lambda: stream.start(processingTime="100 milliseconds"),
        lambda query: "Waiting for data" in query.status["message"],
    )
    every_broker.send(topic, ["after"])
    wait_until(lambda: stream.values() == ["after"], 120, what=lambda: str(stream.batches))
    query.stop()


def test_a_crash_in_an_empty_batch_0_of_latest_loses_and_doubles_nothing(
    source: Source, every_broker: Topics, stream_of: StreamOf
) -> None:
    topic = every_broker.create(2)
    every_broker.send(topic, ["before"], partition=0)
    stream = stream_of(lambda: source.stream(every_broker, subscribe=topic))
    # Spark runs batch 0 even if it is empty.
    stream.fail_next = True
    with pytest.raises(StreamingQueryException, match="the batch fails on purpose"):
        stream.run()
    assert (stream.checkpoint / "offsets" / "0").exists()
    assert not (stream.checkpoint / "commits" / "0").exists()
    # After the crash, before the restart: "latest" is now a later offset.
    every_broker.send(topic, ["one", "two"], partition=0)
    every_broker.send(topic, ["three"], partition=1)
    stream.run()
    assert stream.batches[0] == []
    assert stream.values() == ["one", "three", "two"]


def test_a_crash_in_batch_0_of_latest_replays_what_it_had_planned(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create(2)
    topics.send(topic, ["before"], partition=0)
    stream = stream_of(lambda: source.stream(topics, subscribe=topic))
    stream.fail_next = True
    with pytest.raises(StreamingQueryException, match="on purpose"):
        stream.run()
    # As if records had arrived between Spark's two calls: the end that the source then returns.
    options = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, "subscribe": topic}
    reader = StreamReader(parse_source(options, "stream"))
    start = reader.initialOffset()
    topics.send(topic, ["one", "two"], partition=0)
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.stop()
    replace_logged(stream, 0, end)
    topics.send(topic, ["three"], partition=0)
    topics.send(topic, ["four"], partition=1)
    stream.run()
    assert stream.batches == {0: ["one", "two"], 1: ["four", "three"]}


def test_a_stream_without_records_beside_another_survives_a_crash_in_batch_0(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    wet, dry = both.create(), both.create()
    both.send(wet, ["w"])
    both.send(dry, ["before"])

    def union():
        first = source.stream(both, subscribe=wet, startingOffsets="earliest")
        return first.union(source.stream(both, subscribe=dry))

    stream = stream_of(union)
    stream.fail_next = True
    with pytest.raises(StreamingQueryException, match="on purpose"):
        stream.run()
    both.send(dry, ["d"])
    stream.run()
    assert stream.values() == ["d", "w"]


def test_available_now_takes_batches_of_the_limit(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    topic = both.create()
    both.send(topic, [f"{n:02d}" for n in range(15)])
    stream = stream_of(
        lambda: source.stream(
            both, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="5"
        )
    )
    query = stream.run()
    assert [len(stream.batches[n]) for n in sorted(stream.batches)] == [5, 5, 5]
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [5, 5, 5]


def test_the_limit_is_shared_by_backlog_and_kept_over_a_restart(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create(3)
    for partition, count in ((0, 101), (1, 11), (2, 1)):
        topics.send(topic, [f"{partition}-{n}" for n in range(count)], partition=partition)
    stream = stream_of(
        lambda: source.stream(
            topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="10"
        )
    )
    begun(
        lambda: stream.start(processingTime="100 milliseconds"),
        lambda query: len(stream.batches) >= 2,
    ).stop()
    shares = [
        [sum(v.startswith(f"{p}-") for v in stream.batches[n]) for p in range(3)] for n in (0, 1)
    ]
    assert shares == [[8, 1, 1], [9, 1, 0]]
    stream.run()
    assert len(stream.values()) == len(set(stream.values())) == 113
    assert max(len(batch) for batch in stream.batches.values()) <= 12


def test_a_single_batch_ignores_the_limit(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create()
    topics.send(topic, [str(n) for n in range(20)])
    stream = stream_of(
        lambda: source.stream(
            topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="5"
        )
    )
    finish(lambda: stream.start(once=True))
    assert [len(batch) for batch in stream.batches.values()] == [20]


def test_new_partitions_are_read_from_their_first_record(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create()
    topics.send(topic, ["old"])
    stream = stream_of(lambda: source.stream(topics, subscribe=topic, startingOffsets="earliest"))
    stream.run()
    topics.add_partitions(topic, 3)
    topics.send(topic, ["new"], partition=2)
    stream.run()
    assert stream.values() == ["new", "old"]


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_a_running_stream_sees_new_partitions_with_its_next_batch(
    topics: Topics, option: str
) -> None:
    topic = topics.create(prefix="growing")
    given = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, option: topic}
    reader = StreamReader(parse_source({**given, "startingOffsets": "earliest"}, "stream"))
    try:
        start = reader.initialOffset()
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        topics.add_partitions(topic, 3)
        topics.send(topic, ["new"], partition=2)
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end[topic] == {"0": 0, "1": 0, "2": 1}
    finally:
        reader.stop()


def test_partitions_that_come_while_the_limit_counts_are_read_once_and_whole(
    topics: Topics,
) -> None:
    topic, empty = topics.create(prefix="limited"), topics.create(prefix="limited")
    topics.send(topic, [f"0-{n}" for n in range(10)])
    given = {
        "kafka.bootstrap.servers": topics.broker.bootstrap_servers,
        "subscribe": f"{topic},{empty}",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
    }
    options = parse_source(given, "stream")
    reader = StreamReader(options)
    found: list[bytes] = []
    try:
        start = reader.initialOffset()
        for batch in range(20):
            if batch == 1:
                topics.add_partitions(topic, 3)
                topics.send(topic, [f"1-{n}" for n in range(5)], partition=1)
                topics.send(topic, ["2-0"], partition=2)
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if end == start:
                break
            before = len(found)
            for each in reader.partitions(start, end):
                for rows in read_ranges(options, each.value):
                    found += rows.column("value").to_pylist()
            assert 0 < len(found) - before <= 4 + 2  # a small share is rounded up
            start = end
    finally:
        reader.stop()
    wanted = [*(f"0-{n}" for n in range(10)), *(f"1-{n}" for n in range(5)), "2-0"]
    assert sorted(value.decode() for value in found) == sorted(wanted)
    assert start == {topic: {"0": 10, "1": 5, "2": 1}, empty: {"0": 0}}


def test_the_offsets_for_the_progress_never_fail_a_query() -> None:
    broker = EmbeddedBroker().start()
    broker.create_topic("t")
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.bootstrap.timeout.ms": "500",
        "kafka.default.api.timeout.ms": "500",
        "kafka.request.timeout.ms": "1000",
        "fetchOffset.retryIntervalMs": "10",
        "subscribe": "t",
    }
    reader = StreamReader(parse_source(given, "stream"))
    try:
        # The short timeouts are for the second part. A busy machine may need several tries here.
        wait_until(lambda: reader.reportLatestOffset() == {"t": {"0": 0}}, 60)
        broker.close()
        assert reader.reportLatestOffset() is None
    finally:
        broker.close()
        reader.stop()


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """A broker with faults of its own."""
    with EmbeddedBroker() as broker:
        yield broker


def fetches_of(broker: EmbeddedBroker, *topics: str) -> list[Fault]:
    """Returns a fault for each topic, which changes nothing and counts its fetches."""
    return [broker.faults.on("Fetch", topic=each).then_delay(0, times=None) for each in topics]


def wait_for_records(fetches: list[Fault]) -> None:
    """Waits until the task of each topic has got its records, after which it fetches again."""
    wait_until(lambda: all(each.hits >= 2 for each in fetches), 60, what="the second fetches")


def test_a_topic_that_is_deleted_while_a_task_reads_it(own_broker: EmbeddedBroker) -> None:
    """The query fails with a clear error or skips it, within seconds and not after two minutes."""
    topics = Topics(Broker("embedded", own_broker.bootstrap_servers))

    def delete(topic: str, fetches: list[Fault]) -> float:
        wait_for_records(fetches)
        topics.broker.wire.delete_topic(topic)
        return time.monotonic()

    for fail in ("true", "false"):
        topic = topics.create(prefix="vanishing")
        topics.send(topic, ["a", "b"])
        given = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, "subscribe": topic}
        options = parse_source({**given, "failOnDataLoss": fail}, "batch")
        with ThreadPoolExecutor(1) as other:
            deleting = other.submit(delete, topic, fetches_of(own_broker, topic))
            batches = read_ranges(options, [OffsetRange(topic, 0, 0, 5)])
            if fail == "true":
                with pytest.raises(DataLossError, match=rf"{topic}-0.*the topic was deleted"):
                    list(batches)
            else:
                assert sum(each.num_rows for each in batches) == 2
            assert time.monotonic() - deleting.result(60) < 60


def test_topics_that_are_deleted_at_once_while_tasks_read_them(own_broker: EmbeddedBroker) -> None:
    """The remaining topic, planned between the others, is read to its end."""
    topics = Topics(Broker("embedded", own_broker.bootstrap_servers))
    gone, kept, too = (topics.create(prefix="vanishing") for _ in range(3))
    for topic in (gone, kept, too):
        topics.send(topic, ["a", "b"])
    fetches = fetches_of(own_broker, gone, kept, too)
    given = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, "failOnDataLoss": "false"}
    options = parse_source({**given, "subscribe": f"{gone},{kept},{too}"}, "batch")

    def rows_of(topic: str) -> int:
        return sum(each.num_rows for each in read_ranges(options, [OffsetRange(topic, 0, 0, 5)]))

    with ThreadPoolExecutor(3) as tasks:
        reading = {topic: tasks.submit(rows_of, topic) for topic in (gone, kept, too)}
        wait_for_records(fetches)
        began = time.monotonic()
        for topic in (gone, too):
            topics.broker.wire.delete_topic(topic)
        topics.send(kept, ["c", "d", "e"])
        counts = {topic: each.result(100) for topic, each in reading.items()}
    assert counts == {gone: 2, kept: 5, too: 2}
    assert time.monotonic() - began < 60


def test_new_topics_of_a_pattern_are_read_from_their_first_record(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    first = topics.create(prefix="grown")
    topics.send(first, ["old"])
    stream = stream_of(
        lambda: source.stream(
            topics, subscribePattern="grown-.*", startingOffsets="earliest", minPartitions="2"
        )
    )
    stream.run()
    topics.send(topics.create(prefix="grown"), ["new"])
    stream.run()
    assert stream.values() == ["new", "old"]


def test_deleted_records_fail_a_stream_unless_fail_on_data_loss_is_false(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    topic = both.create()

    def stream(name: str, **options: str) -> Stream:
        return stream_of(
            lambda: source.stream(both, subscribe=topic, startingOffsets="earliest", **options),
            name,
        )

    strict, lax = stream("strict"), stream("lax", failOnDataLoss="false")
    both.send(topic, ["0", "1"])
    strict.run()
    lax.run()
    both.send(topic, ["2", "3", "4", "5"])
    both.delete_before(topic, {0: 4})
    with pytest.raises(StreamingQueryException, match="KAFKA_DATA_LOSS"):
        strict.run()
    lax.run()
    assert lax.values() == ["0", "1", "4", "5"]


def test_a_topic_created_again_is_data_loss(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    topic = topics.create()
    stream = stream_of(lambda: source.stream(topics, subscribe=topic, startingOffsets="earliest"))
    topics.send(topic, ["a", "b"])
    stream.run()
    topics.broker.wire.delete_topic(topic)
    topics.broker.wire.create_topic(topic, 1, configs={"retention.ms": "-1"})
    topics.send(topic, ["c"])
    with pytest.raises(StreamingQueryException, match="was changed from 2 to 1"):
        stream.run()


def test_a_deleted_topic_is_data_loss_or_skipped(
    source: Source, topics: Topics, stream_of: StreamOf
) -> None:
    kept, gone = topics.create(prefix="gone"), topics.create(prefix="gone")

    def stream(name: str, **options: str) -> Stream:
        frame = {"subscribePattern": f"{kept}|{gone}", "startingOffsets": "earliest", **options}
        return stream_of(lambda: source.stream(topics, **frame), name)

    strict, lax = stream("strict"), stream("lax", failOnDataLoss="false")
    for topic in (kept, gone):
        topics.send(topic, [topic])
    strict.run()
    lax.run()
    topics.broker.wire.delete_topic(gone)
    topics.send(kept, ["more"])
    with pytest.raises(StreamingQueryException, match=r"PARTITIONS_DELETED"):
        strict.run()
    lax.run()
    assert lax.values() == sorted([kept, gone, "more"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be positive"),
    ],
)
def test_bad_stream_options_are_refused(
    source: Source, topics: Topics, stream_of: StreamOf, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        stream_of(lambda: source.stream(topics, subscribe="t", **options)).run()


def test_a_watermark_and_windows_of_the_records_time(
    source: Source, both: Topics, spark, tmp_path
) -> None:
    from pyspark.sql import functions as f

    topic = both.create()
    for minute in (0, 1, 2, 30):
        both.send(topic, ["x"], timestamp_ms=1_700_000_000_000 + minute * 60_000)
    frame = source.stream(both, subscribe=topic, startingOffsets="earliest")
    counted = (
        frame.withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "10 minutes"))
        .count()
    )
    writer = (
        counted.writeStream.format("memory")
        .queryName("windowed")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    finish(writer.start)
    assert sorted(row["count"] for row in spark.sql("select * from windowed").collect()) == [1, 3]
