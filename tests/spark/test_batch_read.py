"""Batch reads: columns, choice of partitions and offsets, tasks, and records that are gone."""

from __future__ import annotations

import datetime
import json
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.spark.conftest import Source, Topics, first
from tests.support.scale import scaled
from thalweg.range_reader import OffsetRange
from thalweg.spark.options import parse_source
from thalweg.spark.reader import read_ranges

COLUMNS = [
    StructField("key", BinaryType(), True),
    StructField("value", BinaryType(), True),
    StructField("topic", StringType(), True),
    StructField("partition", IntegerType(), True),
    StructField("offset", LongType(), True),
    StructField("timestamp", TimestampType(), True),
    StructField("timestampType", IntegerType(), True),
]
HEADERS = StructField(
    "headers",
    ArrayType(
        StructType(
            [StructField("key", StringType(), True), StructField("value", BinaryType(), True)]
        ),
        True,
    ),
    True,
)


def json_of(topic: str, **offsets: int) -> str:
    """Offsets by partition: ``json_of("t", p0=3, p1=-2)``."""
    return json.dumps({topic: {name[1:]: offset for name, offset in offsets.items()}})


def test_the_columns_are_the_connectors(source: Source, topics: Topics) -> None:
    topic = topics.create()
    assert source.read(topics, subscribe=topic).schema == StructType(COLUMNS)
    with_headers = source.read(topics, subscribe=topic, INCLUDEHEADERS="TRUE")
    assert with_headers.schema == StructType([*COLUMNS, HEADERS])


def test_every_field_of_a_record_arrives(source: Source, both: Topics) -> None:
    topic = both.create(2)
    both.send(
        topic,
        [b"one"],
        partition=1,
        key=b"\x00\xff",
        timestamp_ms=1_700_000_000_123,
        headers=[("a", b"1"), ("a", None), ("", b"")],
    )
    both.send(topic, [None, b""], partition=1, key=b"", timestamp_ms=0)
    both.send(topic, [b"keyless"], partition=1, timestamp_ms=0)
    frame = source.read(both, subscribe=topic, includeHeaders="true")
    rows = [tuple(row) for row in frame.orderBy("offset").collect()]
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000)
    headers = [("a", b"1"), ("a", None), ("", b"")]
    assert rows[0][:7] == (b"\x00\xff", b"one", topic, 1, 0, moment, 0)
    assert [tuple(header) for header in rows[0][7]] == headers
    epoch = datetime.datetime(1970, 1, 1)
    assert rows[1:] == [
        (b"", None, topic, 1, 1, epoch, 0, None),
        (b"", b"", topic, 1, 2, epoch, 0, None),
        (None, b"keyless", topic, 1, 3, epoch, 0, None),
    ]


def test_broker_time_is_marked(source: Source, both: Topics) -> None:
    topic = both.broker.create_topic(
        "log-time", configs={"message.timestamp.type": "LogAppendTime"}
    )
    both.send(topic, ["a"], timestamp_ms=5)
    row = first(source.read(both, subscribe=topic).select("timestamp", "timestampType"))
    assert row.timestampType == 1
    assert row.timestamp.year > 1970


def test_all_records_arrive_once_on_every_broker(source: Source, broker) -> None:
    topics = Topics(broker)
    topic = topics.create(3)
    count = scaled(1_000_000)
    topics.send(topic, [b"%d" % number for number in range(count)])
    frame = source.read(topics, subscribe=topic)
    found = frame.selectExpr("cast(cast(value as string) as long) as n")
    total = found.selectExpr("count(n)", "count(distinct n)", "min(n)", "max(n)")
    assert tuple(first(total)) == (count, count, 0, count - 1)


def test_three_ways_to_name_partitions(source: Source, topics: Topics) -> None:
    one, two = topics.create(2, "way-one"), topics.create(2, "way-two")
    for topic in (one, two):
        for partition in (0, 1):
            topics.send(topic, [f"{topic}:{partition}"], partition=partition)
    everything = sorted(f"{t}:{p}" for t in (one, two) for p in (0, 1))
    assigned = json.dumps({one: [1], two: [0, 1]})
    assert source.values(topics, assign=assigned) == sorted([f"{one}:1", f"{two}:0", f"{two}:1"])
    assert source.values(topics, subscribe=f" {one} ,{two}") == everything
    assert source.values(topics, subscribePattern=r"way-(one|two)-\d+") == everything
    # A pattern must match the complete name. A pattern that matches no topic reads nothing.
    assert source.values(topics, subscribePattern="way-") == []


def test_a_missing_topic_is_an_error_that_names_it(source: Source, both: Topics) -> None:
    with pytest.raises(PySparkException, match=r"Topic 'no-such-topic' does not exist"):
        source.read(both, subscribe="no-such-topic").count()


def test_an_empty_topic_has_no_rows(source: Source, both: Topics) -> None:
    topic = both.create(2)
    assert source.read(both, subscribe=topic).collect() == []


def test_offsets_by_partition_and_their_words(source: Source, topics: Topics) -> None:
    topic = topics.create(2)
    for partition in (0, 1):
        topics.send(topic, [f"{partition}:{n}" for n in range(5)], partition=partition)
    assert source.values(
        topics,
        subscribe=topic,
        startingOffsets=json_of(topic, p0=3, p1=-2),
        endingOffsets=json_of(topic, p0=-1, p1=2),
    ) == ["0:3", "0:4", "1:0", "1:1"]
    assert (
        len(
            source.values(
                topics, subscribe=topic, startingOffsets="earLiEst", endingOffsets="LATEST"
            )
        )
        == 10
    )


def test_offsets_are_resolved_once_for_each_load(source: Source, both: Topics) -> None:
    # Spark keeps the partitions that a Python source planned for the lifetime of the frame.
    topic = both.create()
    both.send(topic, ["a"])
    frame = source.read(both, subscribe=topic)
    assert frame.count() == 1
    both.send(topic, ["b", "c"])
    assert frame.count() == 1
    assert frame.union(source.read(both, subscribe=topic)).count() == 4


def test_times_in_place_of_offsets(source: Source, both: Topics) -> None:
    topic = both.create()
    for at in (1_000, 2_000, 3_000):
        both.send(topic, [str(at)], timestamp_ms=at)
    assert source.values(both, subscribe=topic, startingTimestamp="2000") == ["2000", "3000"]
    assert source.values(
        both,
        subscribe=topic,
        startingOffsetsByTimestamp=json_of(topic, p0=1_500),
        endingOffsetsByTimestamp=json_of(topic, p0=2_500),
    ) == ["2000"]
    # No offset has a time after the last record: an error for a start, the log's end for an end.
    assert source.values(both, subscribe=topic, endingTimestamp="9000") == ["1000", "2000", "3000"]
    with pytest.raises(
        PySparkException, match=r"No offset matched from request of topic-partition"
    ):
        source.values(both, subscribe=topic, startingTimestamp="9000")
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert source.values(both, subscribe=topic, startingTimestamp="9000", **latest) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        ({"assign": "{}", "subscribe": "t"}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        (
            {"subscribe": "t", "startingOffsets": "latest"},
            "starting offset can't be latest for batch",
        ),
        (
            {"subscribe": "t", "endingOffsets": "earliest"},
            "ending offset can't be earliest for batch",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'},
            "startingOffsets for t-0 can't be latest",
        ),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions must be positive"),
        (
            {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
            "Kafka option 'auto.offset.reset' is not supported",
        ),
        (
            {"subscribe": "t", "failOnDataLoss": "maybe"},
            "Option 'failOnDataLoss' must be true or false",
        ),
        ({"subscribe": "t", "kafka.no.such.option": "1"}, "no.such.option"),
    ],
)
def test_bad_options_are_refused_with_the_connectors_words(
    source: Source, topics: Topics, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=re.escape(message)):
        source.read(topics, **options).count()


def test_the_address_is_required(source: Source) -> None:
    with pytest.raises(PySparkException, match=r"'kafka\.bootstrap\.servers' must be specified"):
        source.spark.read.format("thalweg").option("subscribe", "t").load().count()


def test_offsets_must_cover_the_partitions_and_be_in_order(source: Source, topics: Topics) -> None:
    topic = topics.create(2)
    with pytest.raises(PySparkException, match="you must specify all TopicPartitions"):
        source.values(topics, subscribe=topic, startingOffsets=json_of(topic, p0=0))
    with pytest.raises(PySparkException, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        source.values(
            topics,
            subscribe=topic,
            startingOffsets=json_of(topic, p0=5, p1=0),
            endingOffsets=json_of(topic, p0=2, p1=0),
        )


@pytest.mark.parametrize("schema", ["value string", "value binary not null", "size long"])
def test_a_schema_of_other_types_or_columns_is_refused(
    source: Source, topics: Topics, schema: str
) -> None:
    reader = source.spark.read.format("thalweg").schema(schema)
    reader = reader.option("kafka.bootstrap.servers", topics.broker.bootstrap_servers)
    with pytest.raises(PySparkException, match="Kafka source has a fixed schema"):
        reader.option("subscribe", "t").load().count()


def test_a_read_of_some_columns(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, [b"a", b"b"], key=b"k", headers=[("h", b"1")])
    frame = source.read(both, subscribe=topic, columns="offset,headers,value")
    assert frame.columns == ["offset", "headers", "value"]
    rows = [
        (row.offset, bytes(row.value), [tuple(h) for h in row.headers]) for row in frame.collect()
    ]
    assert rows == [(0, b"a", [("h", b"1")]), (1, b"b", [("h", b"1")])]
    # A schema chooses columns, too. It takes precedence over the option.
    reader = source.spark.read.format("thalweg").schema("partition int, offset long")
    reader = reader.option("kafka.bootstrap.servers", both.broker.bootstrap_servers)
    chosen = reader.option("subscribe", topic).option("columns", "key").load()
    assert sorted(map(tuple, chosen.collect())) == [(0, 0), (0, 1)]


def test_columns_that_are_not_read_are_not_decoded(topics: Topics) -> None:
    # Nothing that the fetched batches hold of a value of 100 kB reaches the Arrow batches.
    topic = topics.create()
    topics.send(topic, [b"x" * 100_000])
    given = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, "subscribe": topic}
    sizes = {}
    for columns in ("value", "offset,timestamp"):
        options = parse_source({**given, "columns": columns}, "batch")
        [rows] = read_ranges(options, [OffsetRange(topic, 0, 0, 1)])
        assert rows.schema.names == columns.split(",")
        sizes[columns] = rows.nbytes
    assert sizes["value"] >= 100_000
    assert sizes["offset,timestamp"] <= 100


def test_min_partitions_splits_the_large_ones(source: Source, both: Topics) -> None:
    topic = both.create(3)
    for partition, count in ((0, 10), (1, 10), (2, 1)):
        both.send(topic, [f"{partition}:{n}" for n in range(count)], partition=partition)
    whole = source.read(both, subscribe=topic)
    split = source.read(both, subscribe=topic, minPartitions="6")
    shared = source.read(both, subscribe=topic, maxPartitions="1")
    capped = source.read(both, subscribe=topic, maxRecordsPerPartition="4")
    assert whole.rdd.getNumPartitions() == 3
    assert shared.rdd.getNumPartitions() == 1
    assert split.rdd.getNumPartitions() >= 6
    assert capped.rdd.getNumPartitions() == 7
    expected = sorted(tuple(row) for row in whole.select("partition", "offset").collect())
    assert len(expected) == 21
    for frame in (split, shared, capped):
        assert sorted(map(tuple, frame.select("partition", "offset").collect())) == expected


def test_deleted_records_fail_a_read_that_wants_them(source: Source, both: Topics) -> None:
    topic = both.create()
    both.send(topic, [str(n) for n in range(6)])
    both.delete_before(topic, {0: 4})
    options = {"subscribe": topic, "startingOffsets": json_of(topic, p0=1)}
    with pytest.raises(PySparkException, match=r"DataLossError.*KAFKA_DATA_LOSS"):
        source.values(both, **options)
    assert source.values(both, **options, failOnDataLoss="false") == ["4", "5"]
    # The complete range is gone: nothing to read, and no error without failOnDataLoss.
    gone = {**options, "endingOffsets": json_of(topic, p0=3)}
    with pytest.raises(PySparkException, match="KAFKA_DATA_LOSS"):
        source.values(both, **gone)
    assert source.values(both, **gone, failOnDataLoss="false") == []
    # From "earliest" no record is missing.
    assert source.values(both, subscribe=topic) == ["4", "5"]


def test_an_end_beyond_the_log_is_bounded_in_time(source: Source, topics: Topics) -> None:
    topic = topics.create()
    topics.send(topic, ["a"])
    options = {
        "subscribe": topic,
        "endingOffsets": json_of(topic, p0=5),
        # Long enough for the record that is there, although the machine is busy.
        "kafkaConsumer.pollTimeoutMs": "3000",
    }
    with pytest.raises(PySparkException, match=r"DataLossError.*the log ends before them"):
        source.values(topics, **options)
    assert source.values(topics, **options, failOnDataLoss="false") == ["a"]


def test_client_options_reach_the_client(source: Source, topics: Topics) -> None:
    topic = topics.create()
    topics.send(topic, ["a"])
    options = {
        "kafka.fetch.max.bytes": "1024",
        "kafka.client.id": "mine",
        "kafka.check.crcs": "false",
    }
    assert source.values(topics, subscribe=topic, **options) == ["a"]
    with pytest.raises(PySparkException, match="fetch_max_bytes must be a whole number"):
        source.values(topics, subscribe=topic, **{"kafka.fetch.max.bytes": "many"})
