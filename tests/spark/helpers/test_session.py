"""`thalweg.spark.kafka`: options of a cluster that are given once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

import thalweg.spark
from tests.spark.conftest import Source, Topics, texts
from tests.support.spark_queries import finish
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, TopicPartition
from thalweg.spark.source import ThalwegDataSource


def test_what_is_written_is_read(source: Source, both: Topics, tmp_path: Path) -> None:
    kafka = thalweg.spark.kafka(source.spark, [both.broker.bootstrap_servers], client_id="one")
    one, two = both.create(2), both.create()
    rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
    kafka.write(rows, one).save()
    kafka.write(rows.select(f.lit(two).alias("topic"), "value")).save()
    assert texts(kafka.read(one)) == ["a", "b"]
    assert texts(kafka.read([one, two], includeHeaders=True)) == ["a", "a", "b", "b"]
    assert texts(kafka.read(subscribePattern=f"{one}|{two}")) == ["a", "a", "b", "b"]
    target = both.create()
    stream = kafka.read_stream(one, starting="earliest").select("value")
    query = kafka.write_stream(stream, target, checkpoint=tmp_path / "checkpoint")
    finish(query.trigger(availableNow=True).start)
    assert texts(kafka.read(target)) == ["a", "b"]


def test_an_aggregation_is_written_in_update_mode(
    source: Source, both: Topics, tmp_path: Path
) -> None:
    kafka = thalweg.spark.kafka(source.spark, both.broker.bootstrap_servers)
    origin, target = both.create(), both.create()
    checkpoint = str(tmp_path / "checkpoint")

    def count() -> None:
        words = kafka.read_stream(origin, starting={origin: {0: 0}}).selectExpr(
            "cast(value as string) as word"
        )
        counts = words.groupBy("word").count().selectExpr("concat(word, count) as value")
        query = counts.writeStream.outputMode("update").foreachBatch(kafka.foreach_batch(target))
        query = query.option("checkpointLocation", checkpoint)
        finish(query.trigger(availableNow=True).start)

    both.send(origin, ["a", "b", "a"])
    count()
    assert texts(kafka.read(target)) == ["a2", "b1"]
    both.send(origin, ["b"])
    count()
    assert texts(kafka.read(target)) == ["a2", "b1", "b2"], "only what has changed"


def test_rows_are_written_exactly_once(source: Source, both: Topics, tmp_path: Path) -> None:
    kafka = thalweg.spark.kafka(source.spark, both.broker.bootstrap_servers)
    origin, target = both.create(), both.create()

    def sees(topic: str) -> bool:
        committed = {"kafka.isolation.level": "read_committed"}
        return texts(kafka.read(topic, **committed)) == ["a", "b"]

    rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
    kafka.write(rows, origin, exactly_once_prefix=f"{origin}-batch").save()
    # A coordinator acknowledges the end of a transaction before readers see it.
    wait_until(lambda: sees(origin), 60, what="the rows of the batch write")
    stream = kafka.read_stream(origin, starting="earliest").select("value")
    writer = kafka.write_stream(
        stream, target, checkpoint=tmp_path / "c", exactly_once_prefix=f"{origin}-stream"
    )
    finish(writer.trigger(availableNow=True).start)
    wait_until(lambda: sees(target), 60, what="the rows of the stream")
    with KafkaConsumer(bootstrap_servers=both.broker.bootstrap_servers) as consumer:
        [end] = consumer.end_offsets([TopicPartition(target, 0)]).values()
    assert end > 2, "records, and the markers of transactions"


class Session:
    """Remembers what is registered, and starts no Spark."""

    def __init__(self) -> None:
        self.dataSource = self
        self.registered: list[Any] = []

    def register(self, source: Any) -> None:
        self.registered.append(source)


def test_the_source_is_registered_without_a_job() -> None:
    session = Session()
    thalweg.spark.kafka(session, "h:1")  # type: ignore[arg-type]
    assert session.registered == [ThalwegDataSource]


def test_the_repr_shows_no_secret() -> None:
    kafka = thalweg.spark.kafka(Session(), "h:1", sasl_plain_password="hunter2")  # type: ignore[arg-type]
    assert "h:1" in repr(kafka)
    assert "hunter2" not in repr(kafka)


def test_a_value_that_is_not_text_is_refused() -> None:
    with pytest.raises(
        TypeError, match="Option 'sasl_oauth_token_provider' has the type function, and"
    ):
        thalweg.spark.kafka(Session(), "h:1", sasl_oauth_token_provider=lambda: "")  # type: ignore[arg-type]
