"""Writes, batch and stream: columns, topics, headers, partitions, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Stream, Topics, first, texts
from tests.support.brokers import Broker
from tests.support.kafka.cluster import RealKafka
from tests.support.scale import scaled
from tests.support.scram import add_user
from tests.support.spark_queries import finish
from thalweg.spark.writer import _by_topic


def test_what_is_written_is_read_back(source: Source, both: Topics) -> None:
    origin, target = both.create(2), both.create(3)
    headers = [("h", b"1"), ("h", b"2"), ("n", None)]
    both.send(origin, ["a", "b"], key=b"k", headers=headers)
    both.send(origin, ["c"])
    frame = source.read(both, subscribe=origin, includeHeaders="true")
    source.write(frame.select("key", "value", "headers"), both, topic=target)
    back = source.read(both, subscribe=target, includeHeaders="true")
    columns = ("key", "value", "headers")
    assert sorted(map(str, back.select(*columns).collect())) == sorted(
        map(str, frame.select(*columns).collect())
    )


def test_every_row_is_written_once_on_every_broker(source: Source, every_broker: Topics) -> None:
    topic = every_broker.create(4)
    count = scaled(1_000_000)
    rows = source.spark.range(count).select(f.col("id").cast("string").alias("value"))
    source.write(rows, every_broker, topic=topic)
    assert sum(every_broker.broker.wire.end_offsets(topic).values()) == count
    back = source.read(every_broker, subscribe=topic).select(
        f.col("value").cast("string").cast("long")
    )
    total = back.toDF("n").selectExpr("count(n)", "count(distinct n)", "max(n)")
    assert tuple(first(total)) == (count, count, count - 1)


def test_driver_and_tasks_log_in_with_scram(source: Source, secure_kafka: RealKafka) -> None:
    topic = Topics(Broker("kafka-4.3", secure_kafka.bootstrap_servers)).create(prefix="scram")
    outside = Topics(Broker("kafka-4.3", secure_kafka.bootstrap("SASL_PLAINTEXT")))
    add_user(secure_kafka, "spark", "spark-secret")
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="spark" password="spark-secret";',
    }
    rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
    source.write(rows, outside, topic=topic, **login)
    assert source.values(outside, subscribe=topic, **login) == ["a", "b"]


def test_driver_and_tasks_make_their_token_provider(
    source: Source, secure_kafka: RealKafka
) -> None:
    topic = Topics(Broker("kafka-4.3", secure_kafka.bootstrap_servers)).create(prefix="oauth")
    outside = Topics(Broker("kafka-4.3", secure_kafka.bootstrap("SASL_PLAINTEXT")))
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauth.token.provider": "tests.support.oauth:provider",
    }
    rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
    source.write(rows, outside, topic=topic, **login)
    assert source.values(outside, subscribe=topic, **login) == ["a", "b"]


def test_rows_go_to_the_topic_of_their_column(source: Source, topics: Topics) -> None:
    one, two = topics.create(), topics.create()
    rows = source.spark.createDataFrame(
        [(one, "1"), (two, "2"), (one, "11")], "topic string, value string"
    )
    source.write(rows, topics)
    assert source.values(topics, subscribe=one) == ["1", "11"]
    assert source.values(topics, subscribe=two) == ["2"]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_the_rows_of_each_topic_keep_their_order(count: int) -> None:
    topics = [f"t{number * 7 % count}" for number in range(1_000)]
    values = [b"%d" % number for number in range(1_000)]
    batch = pa.RecordBatch.from_pydict({"other": topics, "value": values, "topic": topics})
    found = dict(_by_topic(batch, None))
    assert sorted(found) == sorted(set(topics))
    for topic, rows in found.items():
        wanted = [value for name, value in zip(topics, values, strict=True) if name == topic]
        assert rows.to_pydict() == {"value": wanted}


def test_the_topic_option_beats_the_column(source: Source, topics: Topics) -> None:
    one, two = topics.create(), topics.create()
    rows = source.spark.createDataFrame([(one, "x"), (None, "y")], "topic string, value string")
    source.write(rows, topics, topic=two)
    assert source.values(topics, subscribe=two) == ["x", "y"]
    assert source.values(topics, subscribe=one) == []


def test_a_row_without_a_topic_is_an_error(source: Source, both: Topics) -> None:
    rows = source.spark.createDataFrame([(None, "x")], "topic string, value string")
    with pytest.raises(PySparkException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        source.write(rows, both)


def test_the_partition_column_beats_the_partitioner(source: Source, topics: Topics) -> None:
    topic = topics.create(3)
    rows = source.spark.createDataFrame(
        [("a", "k", 2), ("b", "k", 1), ("c", "k", None), ("d", "k", None)],
        "value string, key string, partition int",
    )
    source.write(rows, topics, topic=topic)
    back = source.read(topics, subscribe=topic).selectExpr("cast(value as string)", "partition")
    found = {row.value: row.partition for row in back.collect()}
    assert (found["a"], found["b"]) == (2, 1)
    assert found["c"] == found["d"]  # the same partition, by the hash of their key


def test_columns_of_other_names_are_ignored(source: Source, topics: Topics) -> None:
    topic = topics.create()
    rows = source.spark.createDataFrame([("x", 1.5)], "value string, price double")
    source.write(rows, topics, topic=topic)
    assert source.values(topics, subscribe=topic) == ["x"]


def test_null_and_empty_values_stay_apart(source: Source, topics: Topics) -> None:
    topic = topics.create()
    rows = source.spark.createDataFrame([(None, b"k"), (b"", None)], "value binary, key binary")
    source.write(rows.coalesce(1), topics, topic=topic)
    back = source.read(topics, subscribe=topic).select("key", "value").collect()
    assert sorted(map(tuple, back), key=str) == [(None, b""), (b"k", None)]


@pytest.mark.parametrize(
    ("expressions", "options", "message"),
    [
        (["'v' as value"], {}, "topic option required when no 'topic' attribute is present"),
        (["'k' as key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["1 as value"], {"topic": "t"}, "value attribute unsupported type int"),
        (["'v' as value", "1L as key"], {"topic": "t"}, "key attribute unsupported type bigint"),
        (["'v' as value", "1 as topic"], {}, "topic attribute unsupported type int"),
        (
            ["'v' as value", "'1' as partition"],
            {"topic": "t"},
            "partition attribute unsupported type string",
        ),
        (
            ["'v' as value", "map('a', 'b') as headers"],
            {"topic": "t"},
            "headers attribute unsupported type map<string,string>",
        ),
        (
            ["'v' as value"],
            {"topic": "t", "kafka.key.serializer": "x"},
            "Kafka option 'key.serializer' is not supported",
        ),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_sent(
    source: Source, topics: Topics, expressions: list[str], options: dict[str, str], message: str
) -> None:
    rows = source.spark.range(1).selectExpr(*expressions)
    with pytest.raises(PySparkException, match=re.escape(message)):
        source.write(rows, topics, **options)


def test_save_modes_other_than_append_are_refused(source: Source, both: Topics) -> None:
    topic = both.create()
    rows = source.spark.createDataFrame([("x",)], "value string")
    with pytest.raises(PySparkException, match="Save mode Overwrite not allowed for Kafka"):
        source.write(rows, both, mode="overwrite", topic=topic)
    for mode in ("error", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            source.write(rows, both, mode=mode, topic=topic)
    assert both.broker.wire.end_offsets(topic) == {0: 0}


def test_an_error_of_the_broker_fails_the_write(source: Source, kafka) -> None:
    topics = Topics(kafka)
    topic = topics.broker.create_topic("small", configs={"max.message.bytes": "1000"})
    rows = source.spark.range(1).selectExpr("repeat('x', 5000) as value")
    with pytest.raises(PySparkException, match=r"RecordTooLargeError|MessageSizeTooLargeError"):
        source.write(rows, topics, topic=topic)


def test_a_full_buffer_waits_and_does_not_fail(source: Source, both: Topics) -> None:
    topic = both.create(2)
    rows = source.spark.range(1_000).selectExpr("repeat('x', 15000) as value")
    options = {"kafka.buffer.memory": "65536", "kafka.batch.size": "16384"}
    source.write(rows, both, topic=topic, **options)
    assert sum(both.broker.wire.end_offsets(topic).values()) == 1_000


def written(stream_frame, topics: Topics, checkpoint, **options: str):
    writer = stream_frame.writeStream.format("thalweg").options(**options)
    writer = writer.option("kafka.bootstrap.servers", topics.broker.bootstrap_servers)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def test_a_stream_is_written_and_continues_after_a_restart(
    source: Source, every_broker: Topics, tmp_path
) -> None:
    origin, target = every_broker.create(2), every_broker.create(2)
    for values in (["a", "b"], ["c"]):
        every_broker.send(origin, values, headers=[("h", b"1")])
        frame = source.stream(
            every_broker, subscribe=origin, startingOffsets="earliest", includeHeaders="true"
        ).select("key", "value", "headers")
        finish(written(frame, every_broker, tmp_path / "c", topic=target).start)
    back = source.read(every_broker, subscribe=target, includeHeaders="true")
    assert texts(back) == ["a", "b", "c"]
    assert [tuple(h) for h in first(back.limit(1)).headers] == [("h", b"1")]


def test_complete_mode_writes_each_result_and_update_mode_is_sparks_own_error(
    source: Source, topics: Topics, tmp_path
) -> None:
    origin, target = topics.create(), topics.create()
    topics.send(origin, ["a", "b", "a"])
    counts = (
        source.stream(topics, subscribe=origin, startingOffsets="earliest")
        .groupBy("value")
        .count()
        .selectExpr("value as key", "cast(count as string) as value")
    )
    finish(written(counts, topics, tmp_path / "c", topic=target).outputMode("complete").start)
    assert source.values(topics, subscribe=target) == ["1", "2"]
    update = written(counts, topics, tmp_path / "u", topic=target).outputMode("update")
    with pytest.raises(PySparkException, match="does not support Update mode"):
        update.start().awaitTermination(120)


def test_update_mode_by_foreach_batch(
    source: Source, topics: Topics, stream_of: Callable[..., Stream], tmp_path
) -> None:
    origin, target = topics.create(), topics.create()
    topics.send(origin, ["a", "b", "a"])
    counts = (
        source.stream(topics, subscribe=origin, startingOffsets="earliest")
        .groupBy("value")
        .count()
        .selectExpr("value as key", "cast(count as string) as value")
    )

    def append(frame, batch_id: int) -> None:
        source.write(frame, topics, topic=target)

    writer = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "c"))
        .foreachBatch(append)
        .trigger(availableNow=True)
    )
    finish(writer.start)
    assert source.values(topics, subscribe=target) == ["1", "2"]


def test_a_null_topic_fails_a_stream(source: Source, topics: Topics, tmp_path) -> None:
    origin = topics.create()
    topics.send(origin, ["a"])
    frame = source.stream(topics, subscribe=origin, startingOffsets="earliest")
    frame = frame.selectExpr("value", "cast(null as string) as topic")
    with pytest.raises(StreamingQueryException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        finish(written(frame, topics, tmp_path / "c").start)
