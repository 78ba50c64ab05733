"""The option `taskMemory`: its values, and the memory that a task really uses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import Topics
from tests.support.scale import scaled
from thalweg import KafkaProducer
from thalweg.spark.options import parse_sink, parse_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20
BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
SINK = {"kafka.bootstrap.servers": "a:1", "topic": "t"}


def reads(**options: str) -> tuple[int, int, int]:
    """Returns the fetch buffer, the largest fetch of a partition, and the size of Arrow batches."""
    parsed = parse_source({**BASE, **options}, "batch")
    client = parsed.client_config
    buffer = int(client.get("fetch.buffer.memory", 64 * MIB))
    return buffer, int(client["max.partition.fetch.bytes"]), parsed.batch_bytes


@pytest.mark.parametrize(
    "value, total",
    [("67108864", 64), ("64m", 64), (" 64 MB ", 64), ("65536k", 64), ("1g", 1024), ("16M", 16)],
)
def test_the_parts_of_a_read_fit_into_the_option(value: str, total: int) -> None:
    buffer, fetch, batch = reads(taskMemory=value)
    assert total * MIB * 0.7 < buffer + 4 * batch < total * MIB
    assert fetch * 4 <= buffer
    assert batch <= 16 * MIB


def test_without_the_option_nothing_changes() -> None:
    assert reads() == (64 * MIB, 8 * MIB, 16 * MIB)
    assert "buffer.memory" not in parse_sink(SINK).client_config


def test_the_buffer_of_a_write_is_half_of_the_option() -> None:
    for mode in (SINK, {**SINK, "kafka.batch.size": "1000"}):
        client = parse_sink({**mode, "taskMemory": "24m"}).client_config
        assert int(client["buffer.memory"]) == 12 * MIB


def refused_by_both(value: str, error: str) -> None:
    """Checks that a read and a write refuse a value."""
    with pytest.raises(ValueError, match=error):
        parse_source({**BASE, "taskMemory": value}, "stream")
    with pytest.raises(ValueError, match=error):
        parse_sink({**SINK, "taskMemory": value})


@pytest.mark.parametrize("value", ["", "64x", "-1", "1.5g", "lots", "64 m b"])
def test_wrong_values_are_refused(value: str) -> None:
    refused_by_both(value, r"'taskMemory' must be a number of bytes.*such as 64m")


@pytest.mark.parametrize("value", ["0", "15m", "1000"])
def test_too_little_is_refused(value: str) -> None:
    refused_by_both(value, f"'taskMemory' must be at least 16m, got '{value}'")


@pytest.mark.parametrize(
    "other",
    [
        "kafka.fetch.buffer.memory",
        "kafka.fetch_buffer_memory",
        "kafka.max.partition.fetch.bytes",
        "kafka.fetch.message.max.bytes",
    ],
)
def test_an_option_that_sets_the_same_limit_is_refused(other: str) -> None:
    with pytest.raises(ValueError, match=f"'taskMemory' sets '{other}', too: omit one of them"):
        reads(taskMemory="64m", **{other: "1000000"})
    with pytest.raises(ValueError, match=r"sets 'kafka\.buffer\.memory', too"):
        parse_sink({**SINK, "taskMemory": "64m", "kafka.buffer.memory": "1000000"})


def peaks_in_a_task(spark: SparkSession, works: list[Callable[[], object]]) -> list[int]:
    """Returns how far the resident memory of a worker rises while each function runs, in bytes.

    They run one after the other in the same task. The first one also counts what it imports.
    """

    # A nested function is pickled by value, so the worker does not import this module.
    def measured(_: object) -> list[int]:
        import ctypes
        import gc
        from pathlib import Path

        def status(field: str) -> int:
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

        peaks = []
        for work in works:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # what earlier work has freed
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins at the current size
            before = status("VmRSS")
            work()
            peaks.append(status("VmHWM") - before)
        return peaks

    [peaks] = spark.sparkContext.parallelize([None], 1).map(measured).collect()
    return list(peaks)


def reading(kafka: dict[str, str], topic: str, ends: dict[int, int]) -> Callable[[], object]:
    """Returns a function that reads a topic as a task does."""

    def work() -> None:
        from thalweg.range_reader import OffsetRange
        from thalweg.spark.options import parse_source
        from thalweg.spark.reader import BatchReader, RangePartition

        reader = BatchReader(parse_source({**kafka, "subscribe": topic}, "batch"))
        ranges = [OffsetRange(topic, partition, 0, end) for partition, end in ends.items()]
        # Spark's worker sends each batch to the JVM, and drops it.
        rows = sum(batch.num_rows for batch in reader.read(RangePartition(ranges)))
        assert rows == sum(ends.values()), rows

    return work


def writing(kafka: dict[str, str], topic: str, rows: int) -> Callable[[], object]:
    """Returns a function that writes rows of 1 KiB as a task does."""

    def work() -> None:
        import pyarrow as pa

        from thalweg.spark.options import parse_sink
        from thalweg.spark.writer import write_batches

        batches = (
            pa.record_batch({"value": pa.array([b"v" * 1024] * 1_000, pa.binary())})
            for _ in range(rows // 1_000)
        )
        write_batches(parse_sink({**kafka, "topic": topic}), batches)

    return work


SIZES = (16, 32, 64)


def test_the_memory_of_a_task_that_reads_follows_the_option(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.create(8)
    kafka = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    rows = scaled(200_000, minimum=100_000)
    with KafkaProducer(bootstrap_servers=kafka["kafka.bootstrap.servers"]) as producer:
        values = [random.randbytes(1024) for _ in range(1_000)]
        for _ in range(rows // 1_000):
            producer.send_many(topic, values)
    ends = topics.broker.wire.end_offsets(topic)
    options = [{"taskMemory": f"{size}m"} for size in SIZES]
    works = [reading({**kafka, **each}, topic, ends) for each in (*options, {})]
    _, *peaks, default = peaks_in_a_task(spark, [reading(kafka, topic, {0: 1}), *works])
    for size, peak in zip(SIZES, peaks, strict=True):
        assert peak < size * MIB, (size, peaks)
    assert peaks[-1] > SIZES[0] * MIB, peaks
    assert default > 64 * MIB, (default, peaks)


def test_the_memory_of_a_task_that_writes_follows_the_option(
    spark: SparkSession, topics: Topics
) -> None:
    kafka = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    topic, rows = topics.create(), scaled(200_000, minimum=100_000)
    works = [writing({**kafka, "taskMemory": f"{size}m"}, topic, rows) for size in SIZES]
    _, *peaks = peaks_in_a_task(spark, [writing(kafka, topic, 1_000), *works])
    for size, peak in zip(SIZES, peaks, strict=True):
        assert peak < size * MIB, (size, peaks)
    assert peaks[-1] > SIZES[0] * MIB, peaks
