"""The connector's scenarios about complete queries: 51, 55, 59, 60 and 65.

The number in a test's name is that of the scenario in docs/spark-parity.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.spark.conftest import Source, Stream, Topics, texts
from tests.support.spark_queries import begun
from tests.support.waiting import wait_until
from thalweg.spark.options import parse_source

StreamOf = Callable[..., Stream]


def test_parity_51_a_stream_joined_with_itself(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    topic = both.create()
    both.send(topic, ["1", "2", "3"])

    def joined():
        values = source.stream(both, subscribe=topic, startingOffsets="earliest").select("value")
        return values.join(values, "value")

    stream = stream_of(joined)
    query = stream.run()
    assert stream.values() == ["1", "2", "3"]
    # Spark runs a Python source for each side of the join, and both read the same offsets.
    [progress] = [each for each in query.recentProgress if each.numInputRows]
    assert progress.numInputRows == 6
    [one, two] = [json.loads(each.endOffset)[topic] for each in progress.sources]
    assert one == two == {"0": 3}
    both.send(topic, ["4"])
    stream.run()
    assert stream.values() == ["1", "2", "3", "4"]


def test_parity_55_null_keys_and_values_in_a_stream(
    source: Source, both: Topics, stream_of: StreamOf
) -> None:
    topic = both.create()
    both.send(topic, ["no key"])
    both.send(topic, [None], key=b"no value")
    both.send(topic, [""], key=b"")
    shape = (
        "concat_ws('/', coalesce(cast(key as string), 'null'), "
        "coalesce(cast(value as string), 'null')) as value"
    )
    stream = stream_of(
        lambda: source.stream(both, subscribe=topic, startingOffsets="earliest").selectExpr(shape)
    )
    stream.run()
    assert stream.values() == ["/", "no value/null", "null/no key"]
    for connector in ("thalweg", "kafka"):
        read = source.read(both, connector=connector, subscribe=topic).selectExpr(shape)
        assert texts(read) == stream.values(), connector


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        (
            {"assign": '{"a":[0]}', "subscribe": "b"},
            "Only one of the following options can be specified for Kafka source",
        ),
        (
            {"assign": '{"a":[0]}', "subscribe": "b", "subscribePattern": "c"},
            "Only one of the following options can be specified for Kafka source",
        ),
        ({"assign": ""}, "No topicpartitions to assign as specified value for option 'assign' is"),
        ({"subscribe": ""}, "No topics to subscribe to as specified value for option 'subscribe'"),
        (
            {"subscribePattern": ""},
            "Pattern to subscribe is empty as specified value for option 'subscribePattern' is",
        ),
        ({"subscribe": "t", "endingOffsets": "x"}, "ending offset not valid in streaming queries"),
        (
            {"subscribe": "t", "endingOffsetsByTimestamp": "x"},
            "ending offset not valid in streaming queries",
        ),
        ({"subscribe": "t", "endingTimestamp": "x"}, "ending timestamp not valid in streaming"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"},
            "is higher than the maxOffsetsPerTrigger",
        ),
    ],
)
def test_parity_59_wrong_options_of_a_stream(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_source({"kafka.bootstrap.servers": "localhost:1", **options}, "stream")


def test_parity_59_a_stream_without_servers() -> None:
    with pytest.raises(ValueError, match=r"'kafka\.bootstrap\.servers' must be specified"):
        parse_source({"subscribe": "t"}, "stream")


@pytest.mark.parametrize("mode", ["batch", "stream"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto.offset.reset", "latest"),
        ("key.deserializer", "some.class"),
        ("value.deserializer", "some.class"),
        ("enable.auto.commit", "true"),
        ("interceptor.classes", "some.class"),
    ],
)
def test_parity_60_client_options_that_the_source_sets(mode, name: str, value: str) -> None:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", f"kafka.{name}": value}
    with pytest.raises(ValueError, match=rf"Kafka option '{name}' is not supported"):
        parse_source(given, mode)


def test_parity_65_asynchronous_progress_tracking_from_kafka_to_kafka(
    source: Source, both: Topics, tmp_path
) -> None:
    origin, target = both.create(), both.create()
    both.send(origin, ["a", "b"])
    frame = source.stream(both, subscribe=origin, startingOffsets="earliest").select("value")

    writer = (
        frame.writeStream.format("thalweg")
        .option("kafka.bootstrap.servers", both.broker.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "c"))
        .option("asyncProgressTrackingEnabled", "true")
        .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", "0")
        .trigger(processingTime="50 milliseconds")
    )

    def written() -> int:
        # Not a read in Spark: a poll must be cheap.
        return sum(both.broker.wire.end_offsets(target).values())

    query = begun(writer.start, lambda query: written() == 2)
    both.send(origin, ["c"])
    wait_until(lambda: written() == 3 or query.exception(), 120, what="the third row")
    assert query.exception() is None
    query.stop()
    assert source.values(both, subscribe=target) == ["a", "b", "c"]
