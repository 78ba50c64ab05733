"""The connector's scenarios about batch reads. Spark's own connector runs them in the same session.

The number in a test's name is that of the scenario in docs/spark-parity.md.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics, texts
from thalweg.spark.options import parse_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONNECTORS = ("thalweg", "kafka")
Rows = dict[str, list[str]]


def read_all(
    source: Source, topics: Topics, cases: dict[str, dict[str, str]], connector: str
) -> Rows:
    """Reads all cases in one job. Returns the values by case."""

    def frame(name: str, options: dict[str, str]) -> DataFrame:
        read = source.read(topics, connector=connector, **options)
        return read.select(f.lit(name).alias("case"), f.col("value").cast("string").alias("v"))

    found: Rows = {name: [] for name in cases}
    frames = [frame(name, options) for name, options in cases.items()]
    for row in reduce(lambda one, other: one.union(other), frames).collect():
        found[row.case].append(row.v)
    return {name: sorted(values) for name, values in found.items()}


def offsets(topic: str, **numbers: int) -> str:
    """Numbers by partition: ``offsets("t", p0=3)``."""
    return json.dumps({topic: {name[1:]: number for name, number in numbers.items()}})


def test_parity_67_to_78_starts_and_ends(source: Source, both: Topics) -> None:
    topic = both.create(2)
    for at in (1_000, 2_000, 3_000):
        for p in (0, 1):
            both.send(topic, [f"{p}-{at}"], partition=p, timestamp_ms=at)
    everything = [f"{p}-{at}" for p in (0, 1) for at in (1_000, 2_000, 3_000)]
    middle = ["0-2000", "1-2000"]
    cases = {
        "defaults": {},
        "words": {"startingOffsets": "earliest", "endingOffsets": "latest"},
        "offsets": {
            "startingOffsets": offsets(topic, p0=-2, p1=1),
            "endingOffsets": offsets(topic, p0=2, p1=-1),
        },
        "one time": {"startingTimestamp": "2000", "endingTimestamp": "2001"},
        "times": {
            "startingOffsetsByTimestamp": offsets(topic, p0=1_500, p1=2_000),
            "endingOffsetsByTimestamp": offsets(topic, p0=3_000, p1=2_500),
        },
        "one time, times": {
            "startingTimestamp": "1001",
            "endingOffsetsByTimestamp": offsets(topic, p0=2_001, p1=2_001),
        },
        "times, one time": {
            "startingOffsetsByTimestamp": offsets(topic, p0=2_000, p1=2_000),
            "endingTimestamp": "3000",
        },
        "time, offsets": {
            "startingTimestamp": "2000",
            "endingOffsets": offsets(topic, p0=2, p1=2),
        },
        "offsets, time": {
            "startingOffsets": offsets(topic, p0=1, p1=1),
            "endingTimestamp": "2500",
        },
        "no end": {"startingTimestamp": "2000", "endingTimestamp": "9000"},
        "precedence": {
            "startingTimestamp": "2000",
            "startingOffsetsByTimestamp": offsets(topic, p0=1, p1=1),
            "startingOffsets": offsets(topic, p0=0, p1=0),
            "endingOffsetsByTimestamp": offsets(topic, p0=2_500, p1=2_500),
            "endingOffsets": offsets(topic, p0=0, p1=0),
        },
    }
    expected = {
        **dict.fromkeys(cases, middle),
        "defaults": everything,
        "words": everything,
        "offsets": ["0-1000", "0-2000", "1-2000", "1-3000"],
        "no end": [*middle[:1], "0-3000", *middle[1:], "1-3000"],
    }
    named = {name: {"subscribe": topic, **options} for name, options in cases.items()}
    for connector in CONNECTORS:
        assert read_all(source, both, named, connector) == expected, connector


def test_parity_70_headers_of_both_connectors(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, ["none"])
    both.send(topic, ["some"], headers=[("a", b"1"), ("a", None), ("", b"")], key=b"k")
    both.send(topic, [None, b""], key=b"", timestamp_ms=0)
    options = {"subscribe": topic, "includeHeaders": "true"}
    frames = [source.read(both, connector=each, **options) for each in CONNECTORS]
    ours, theirs = (frame.orderBy("offset").collect() for frame in frames)
    assert ours == theirs
    assert [row.headers is None for row in ours] == [True, False, True, True]
    assert frames[0].schema == frames[1].schema


def test_parity_76_a_start_without_a_record_is_an_error(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, ["old"], timestamp_ms=1_000)
    for connector in CONNECTORS:
        frame = source.read(both, connector=connector, subscribe=topic, startingTimestamp="9000")
        with pytest.raises(
            (PySparkException, Py4JJavaError),
            match="No offset matched from request of topic-partition",
        ):
            frame.collect()


def test_parity_79_a_read_from_earliest_after_retention(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, ["0", "1", "2", "3"])
    frames = {each: source.read(both, connector=each, subscribe=topic) for each in CONNECTORS}
    for frame in frames.values():
        assert texts(frame) == ["0", "1", "2", "3"]
    both.delete_before(topic, {0: 2})
    both.send(topic, ["4"])
    # Spark's connector looks up the offsets for each action. This source has planned the frame.
    assert texts(frames["kafka"]) == ["2", "3", "4"]
    with pytest.raises(PySparkException, match="KAFKA_DATA_LOSS"):
        texts(frames["thalweg"])
    lax = {"subscribe": topic, "failOnDataLoss": "false"}
    assert texts(source.read(both, **lax)) == ["2", "3", "4"]
    assert texts(source.read(both, subscribe=topic)) == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (
            {"startingOffsets": offsets("t", p0=0)},
            {"endingOffsets": offsets("t", p0=5, p1=5)},
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
        ),
        (
            {"startingOffsetsByTimestamp": offsets("t", p0=0)},
            {"endingOffsetsByTimestamp": offsets("u", p0=5)},
            r"MISMATCHED_TOPIC_PARTITIONS.*start offset: \[t-0\], .* end offset: \[u-0\]",
        ),
        (
            {"startingOffsets": offsets("t", p0=0, p1=5)},
            {"endingOffsets": offsets("t", p0=5, p1=4)},
            "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET.* start 5 of t-1 .* end 4",
        ),
        (
            {"startingOffsetsByTimestamp": offsets("t", p0=9)},
            {"endingOffsetsByTimestamp": offsets("t", p0=8)},
            "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        ),
        (
            {"startingTimestamp": "9"},
            {"endingTimestamp": "8"},
            "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET.* start 9 of all partitions",
        ),
    ],
)
def test_parity_83_to_84_a_start_and_an_end_that_contradict_each_other(
    start: dict[str, str], end: dict[str, str], message: str
) -> None:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", **start, **end}
    with pytest.raises(ValueError, match=message):
        parse_source(given, "batch")


def test_parity_84_a_start_after_the_end_of_the_log(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, ["a"])
    frame = source.read(both, subscribe=topic, startingOffsets=offsets(topic, p0=5))
    with pytest.raises(
        PySparkException, match=r"\[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET\].*5.*1"
    ):
        frame.collect()


def test_parity_66_a_timestamp_that_spark_cannot_represent(source: Source, both: Topics) -> None:
    topic = both.broker.create_topic(
        "far", configs={"message.timestamp.after.max.ms": str(2**63 - 1)}
    )
    both.send(topic, ["now"])
    both.send(topic, ["far"], timestamp_ms=2**62)
    message = {
        "thalweg": rf"KAFKA_MALFORMED_RECORD_TIMESTAMP.*{topic}-0.*offset 1.*{2**62}",
        "kafka": "long overflow",
    }
    for connector in CONNECTORS:
        # Spark's connector raises an error of Java.
        with pytest.raises((PySparkException, Py4JJavaError), match=message[connector]):
            source.read(both, connector=connector, subscribe=topic).collect()
    only_first = {"subscribe": topic, "endingOffsets": offsets(topic, p0=1)}
    assert texts(source.read(both, **only_first)) == ["now"]
