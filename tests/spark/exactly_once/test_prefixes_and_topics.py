"""Queries with the same prefix, and topics that are deleted and created during a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics
from tests.spark.exactly_once.conftest import AT_ONCE, Copy, committed
from tests.support.spark_queries import TOO_SLOW, begun
from tests.support.waiting import wait_until

CLEAR = "belongs to the query|another run or another query has started"


@pytest.fixture(autouse=True)
def _no_query_remains(source: Source) -> Iterator[None]:
    yield
    for query in source.spark.streams.active:
        query.stop()


def test_two_queries_that_start_with_one_prefix_write_no_row_twice(
    copy: Copy, tmp_path: Path
) -> None:
    rows = [f"{each:02}" for each in range(30)]
    copy.topics.send(copy.origin, rows)
    checkpoints = [tmp_path / "one", tmp_path / "other"]
    queries = [copy.start(checkpoint=each) for each in checkpoints]
    wait_until(lambda: not any(query.isActive for query in queries), 120)
    errors = [str(query.exception()) for query in queries if query.exception() is not None]
    assert errors, "both have written"
    assert all(re.search(f"{CLEAR}|{TOO_SLOW}", error) for error in errors), errors
    errors = [error for each in checkpoints if (error := _error_of(copy, each)) is not None]
    assert len(errors) == 1
    assert "belongs to the query" in errors[0]
    assert "Choose another prefix" in errors[0]
    copy.sees(*rows)


def _error_of(copy: Copy, checkpoint: Path) -> str | None:
    try:
        copy.run(checkpoint=checkpoint)
    except StreamingQueryException as error:
        return str(error)
    return None


def test_a_query_that_takes_the_prefix_of_a_running_one_fails(copy: Copy, tmp_path: Path) -> None:
    copy.topics.send(copy.origin, [f"{each:02}" for each in range(10)])
    query = begun(lambda: copy.start(trigger=AT_ONCE))
    copy.sees(*(f"{each:02}" for each in range(10)))
    copy.topics.send(copy.origin, [f"{each:02}" for each in range(10, 60)])
    with pytest.raises(StreamingQueryException, match="belongs to the query"):
        copy.run(checkpoint=tmp_path / "another")
    # The start of the other one may have stopped a batch of this one, with an error.
    wait_until(lambda: len(copy.seen()) == 60 or not query.isActive, 120)
    query.stop()
    assert query.exception() is None or re.search(CLEAR, str(query.exception()))
    copy.run()
    copy.sees(*(f"{each:02}" for each in range(60)))


def test_topics_are_deleted_and_created_during_a_stream(
    source: Source, both: Topics, tmp_path: Path
) -> None:
    base = both.broker.unused_name("names")
    decisions = both.create(1, f"{base}-decisions")
    inputs = [both.create(2, f"{base}-in") for _ in range(2)]
    outputs = [both.create(2, f"{base}-out") for _ in range(2)]
    later = both.broker.unused_name(f"{base}-out")
    target = f.element_at(
        f.array(*map(f.lit, [*outputs, later])),
        f.ascii("value") - ord("a") + 1,
    )
    frame = source.stream(
        both,
        subscribePattern=f"{base}-in-.*",
        startingOffsets="earliest",
        failOnDataLoss="false",
        maxOffsetsPerTrigger="6",
    )
    writer = (
        frame.select(f.col("value").cast("string"))
        .withColumn("topic", target)
        .writeStream.format("thalweg")
        .option("kafka.bootstrap.servers", both.broker.bootstrap_servers)
        .option("delivery.guarantee", "exactly-once")
        .option("transactional.id.prefix", base)
        .option("delivery.decisionTopic", decisions)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**AT_ONCE)
    )
    query = begun(writer.start)

    def wait_for(topic: str, *values: str) -> None:
        wait_until(
            lambda: sorted(committed(both.broker, topic)) == list(values) or not query.isActive,
            120,
            what=lambda: f"{values} in {topic}: {committed(both.broker, topic)}",
        )
        assert query.exception() is None

    both.send(inputs[0], ["a1"])
    both.send(inputs[1], ["b1"])
    wait_for(outputs[0], "a1")
    wait_for(outputs[1], "b1")
    both.delete(inputs[0])
    both.delete(outputs[0])
    both.broker.wire.create_topic(later, 2, configs={"retention.ms": "-1"})
    both.send(inputs[1], ["b2"])
    wait_for(outputs[1], "b1", "b2")
    both.send(both.create(1, f"{base}-in"), ["c1"])
    both.send(inputs[1], ["c2"])
    wait_for(later, "c1", "c2")
    wait_for(outputs[1], "b1", "b2")
    query.stop()
