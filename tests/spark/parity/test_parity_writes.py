"""The connector's scenarios about writes. Spark's own connector runs most of them, too.

The number in a test's name is that of the scenario in docs/spark-parity.md.
"""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics, texts
from tests.support.spark_queries import finish

CONNECTORS = ("thalweg", "kafka")
each_connector = pytest.mark.parametrize("connector", CONNECTORS)
# One try each: without the topic, no other can succeed.
IMPATIENT = {"kafka.max.block.ms": "5000", "kafka.delivery.timeout.ms": "5000"}
IMPATIENT |= {"kafka.request.timeout.ms": "4000", "kafka.linger.ms": "0"}


def test_parity_88_to_90_rows_of_both_connectors(source: Source, both: Topics) -> None:
    """Topics, keys, headers, partitions and JSON: each connector writes, and the logs are equal."""
    rows = source.spark.createDataFrame(
        [
            (0, "k", "a", [("h", b"1"), ("h", b"2"), ("n", None)], 2),
            (1, None, "b", None, 1),
            (2, "", "", [("", b"")], 0),
            (3, "k", None, None, None),  # by the hash of its key
            (4, "another key", "c", None, None),
        ],
        "id int, key string, value string, headers array<struct<key: string, value: binary>>,"
        "partition int",
    ).orderBy("id")
    ones = rows.coalesce(1).withColumn("ignored", f.lit(1.5))
    json_rows = source.spark.range(3).select(f.to_json(f.struct("*")).alias("value")).coalesce(1)
    found = {}
    for connector in CONNECTORS:
        by_column, by_option, unused = (both.create(3) for _ in range(3))
        source.write(ones.withColumn("topic", f.lit(by_column)), both, connector=connector)
        overridden = json_rows.withColumn("topic", f.lit(unused)).withColumn("partition", f.lit(0))
        source.write(overridden, both, connector=connector, topic=by_option)
        columns = ["key", "value", "partition", "offset", "headers"]
        read = source.read(both, subscribe=by_column, includeHeaders="true").select(columns)
        found[connector] = [
            sorted(map(str, read.collect())),
            texts(source.read(both, subscribe=by_option)),
            both.broker.wire.end_offsets(unused),
        ]
    assert found["thalweg"] == found["kafka"]
    assert found["thalweg"][1:] == [['{"id":0}', '{"id":1}', '{"id":2}'], {0: 0, 1: 0, 2: 0}]


@each_connector
def test_parity_93_a_topic_that_does_not_exist(
    source: Source, both: Topics, connector: str
) -> None:
    # A broker creates a missing topic, unless its name is invalid.
    missing = f"{both.broker.unused_name('missing')}!"
    rows = source.spark.createDataFrame([("x",)], "value string")
    with pytest.raises((PySparkException, Py4JJavaError), match=missing):
        source.write(rows, both, connector=connector, topic=missing, **IMPATIENT)


def test_parity_95_the_progress_counts_the_written_rows(
    source: Source, both: Topics, tmp_path
) -> None:
    origin, target = both.create(), both.create()
    both.send(origin, [str(n) for n in range(7)])
    frame = source.stream(
        both, subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger="4"
    )
    writer = frame.select("value").writeStream.format("thalweg").option("topic", target)
    writer = (
        writer.option("kafka.bootstrap.servers", both.broker.bootstrap_servers)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    # A trigger that has nothing to read reports its progress, too, if it is late.
    batches = [each for each in finish(writer.start).recentProgress if each.numInputRows]
    assert [each.sink.numOutputRows for each in batches] == [4, 3]
    assert [each.numInputRows for each in batches] == [4, 3]
    assert sum(both.broker.wire.end_offsets(target).values()) == 7


def test_parity_97_the_partition_column_overrides_the_partitioner(
    source: Source, both: Topics
) -> None:
    rows = [("a", "k", 3), ("b", "k", 0), *(("c", "k", None) for _ in range(8))]
    frame = source.spark.createDataFrame(rows, "value string, key string, partition int")
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    for connector in CONNECTORS:
        topic = both.create(4)
        options = {"topic": topic, "kafka.partitioner.class": name}
        source.write(frame.coalesce(1), both, connector=connector, **options)
        read = source.read(both, subscribe=topic).selectExpr("cast(value as string)", "partition")
        found = [(row.value, row.partition) for row in read.collect()]
        assert [each for each in sorted(found) if each[0] != "c"] == [("a", 3), ("b", 0)]
        # By their key, all of them would be in one partition.
        assert len({partition for value, partition in found if value == "c"}) > 1
