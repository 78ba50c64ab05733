"""`thalweg.spark.kafka`: options of a cluster that are given once."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as f

import thalweg.spark
from tests.spark.conftest import Source, Topics, texts


def test_what_is_written_is_read(source: Source, both: Topics, tmp_path: Path) -> None:
    kafka = thalweg.spark.kafka(source.spark, [both.broker.bootstrap_servers], client_id="one")
    one, two = both.create(2), both.create()
    rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
    kafka.writer(rows, one).save()
    kafka.writer(rows.select(f.lit(two).alias("topic"), "value")).save()
    assert texts(kafka.read(one)) == ["a", "b"]
    assert texts(kafka.read([one, two], includeHeaders=True)) == ["a", "a", "b", "b"]
    assert texts(kafka.read(subscribePattern=f"{one}|{two}")) == ["a", "a", "b", "b"]
    target = both.create()
    stream = kafka.read_stream(one, startingOffsets="earliest").select("value")
    query = kafka.stream_writer(stream, target, checkpointLocation=str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(60)
    assert texts(kafka.read(target)) == ["a", "b"]


def test_an_aggregation_is_written_in_update_mode(
    source: Source, both: Topics, tmp_path: Path
) -> None:
    kafka = thalweg.spark.kafka(source.spark, both.broker.bootstrap_servers)
    origin, target = both.create(), both.create()
    checkpoint = str(tmp_path / "checkpoint")

    def count() -> None:
        words = kafka.read_stream(origin, startingOffsets="earliest").selectExpr(
            "cast(value as string) as word"
        )
        counts = words.groupBy("word").count().selectExpr("concat(word, count) as value")
        query = counts.writeStream.outputMode("update").foreachBatch(kafka.foreach_batch(target))
        query = query.option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination(90)

    both.send(origin, ["a", "b", "a"])
    count()
    assert texts(kafka.read(target)) == ["a2", "b1"]
    both.send(origin, ["b"])
    count()
    assert texts(kafka.read(target)) == ["a2", "b1", "b2"], "only what has changed"


def test_the_repr_shows_no_secret() -> None:
    kafka = thalweg.spark.kafka(None, "h:1", sasl_plain_password="hunter2")  # type: ignore[arg-type]
    assert "h:1" in repr(kafka)
    assert "hunter2" not in repr(kafka)
