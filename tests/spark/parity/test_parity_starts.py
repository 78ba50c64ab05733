"""The connector's scenarios about where a stream starts: 1 to 31, 33 and 46.

The number in a test's name is that of the scenario in docs/spark-parity.md. Each combination of
the connector's suites runs: three ways to name partitions, with and without `failOnDataLoss`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.spark.conftest import Source, Stream, Topics
from tests.spark.parity.engine import Engine
from thalweg.spark.data_loss import DataLossError

StreamOf = Callable[..., Stream]

STRATEGIES = ("assign", "subscribe", "subscribePattern")
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
each_policy = pytest.mark.parametrize("fail", ["true", "false"])


def chosen(strategy: str, topic: str, partitions: int) -> dict[str, str]:
    """Returns the option that names all partitions of a topic."""
    value = json.dumps({topic: list(range(partitions))}) if strategy == "assign" else topic
    return {strategy: value}


def send(topics: Topics, topic: str, values: dict[int, list[str]], **fields: int) -> None:
    for partition, those in values.items():
        topics.send(topic, those, partition=partition, **fields)


def grow(topics: Topics, topic: str, strategy: str, partitions: int) -> list[str]:
    """Adds partitions with a record each, and returns what a query must then read.

    A query with `assign` reads only the partitions that it names.
    """
    before = len(topics.broker.wire.end_offsets(topic))
    topics.add_partitions(topic, partitions)
    added = {p: [f"added-{p}"] for p in range(before, partitions)}
    send(topics, topic, added)
    return [] if strategy == "assign" else [value for [value] in added.values()]


@each_policy
@each_strategy
def test_parity_1_to_6_from_latest(both: Topics, strategy: str, fail: str) -> None:
    topic = both.create(2)
    send(both, topic, {0: ["unseen"], 1: ["unseen"]})
    options = {**chosen(strategy, topic, 2), "failOnDataLoss": fail}
    query = Engine(both, startingOffsets="latest", **options)
    query.start()
    query.trigger()
    send(both, topic, {0: ["a"], 1: ["b"]})
    query.trigger()
    query.stop()
    send(both, topic, {0: ["c"]})  # between two runs
    query.start()
    query.trigger()
    added = grow(both, topic, strategy, 4)
    send(both, topic, {1: ["d"]})
    query.trigger()
    assert not query.trigger()
    query.stop()
    assert query.values() == sorted(["a", "b", "c", "d", *added])


@each_policy
@each_strategy
def test_parity_7_to_12_from_earliest(both: Topics, strategy: str, fail: str) -> None:
    topic = both.create(2)
    send(both, topic, {0: ["a"], 1: ["b"]})
    options = {**chosen(strategy, topic, 2), "failOnDataLoss": fail}
    query = Engine(both, startingOffsets="earliest", **options)
    query.start()
    query.trigger()
    assert query.values() == ["a", "b"]
    query.stop()
    send(both, topic, {0: ["c"]})
    query.start()
    query.trigger()
    added = grow(both, topic, strategy, 4)
    query.trigger()
    query.stop()
    assert query.values() == sorted(["a", "b", "c", *added])


@each_policy
@each_strategy
def test_parity_13_to_18_from_specific_offsets(both: Topics, strategy: str, fail: str) -> None:
    topic = both.create(5)
    send(both, topic, {p: [f"{p}-{n}" for n in range(3)] for p in range(5)})
    start = json.dumps({topic: {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}})
    options = {**chosen(strategy, topic, 5), "failOnDataLoss": fail}
    query = Engine(both, startingOffsets=start, **options)
    query.start()
    query.trigger(fail=True)
    send(both, topic, {1: ["late"]})
    query.start()  # the recovery reads the same rows
    first = ["0-0", "0-1", "0-2", "2-0", "2-1", "2-2", "3-1", "3-2", "4-2"]
    assert query.batches == {0: first}
    query.trigger()
    query.stop()
    assert query.batches[1] == ["late"]


@each_policy
@each_strategy
def test_parity_19_to_30_from_timestamps(both: Topics, strategy: str, fail: str) -> None:
    topic = both.create(2)
    for at in (1_000, 2_000, 3_000):
        send(both, topic, {p: [f"{p}-{at}"] for p in (0, 1)}, timestamp_ms=at)
    options = {**chosen(strategy, topic, 2), "failOnDataLoss": fail}
    by_partition = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 1_500, "1": 3_000}})}
    for_all = {"startingTimestamp": "2000"}
    wanted = ["0-2000", "0-3000", "1-3000"]
    queries = {}
    for start, expected in ((by_partition, wanted), (for_all, sorted([*wanted, "1-2000"]))):
        query = Engine(both, **options, **start)
        query.start()
        query.trigger()
        assert query.values() == expected
        queries[query] = expected
    added = grow(both, topic, strategy, 3)
    send(both, topic, {0: ["old"]}, timestamp_ms=5)  # the time matters only at the first start
    for query, expected in queries.items():
        query.start()
        query.trigger()
        query.stop()
        assert query.values() == sorted([*expected, *added, "old"])


@pytest.mark.parametrize("start", ["for all", "by partition"])
@pytest.mark.parametrize("strategy", ["subscribe", "subscribePattern"])
def test_parity_31_a_stream_from_a_time_after_the_last_record(
    both: Topics, strategy: str, start: str
) -> None:
    topic = both.create()
    both.send(topic, ["old"], timestamp_ms=1_000)
    given = (
        {"startingTimestamp": "9000"}
        if start == "for all"
        else {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 9_000}})}
    )
    options = {strategy: topic, **given}
    for policy in ({}, {"startingOffsetsByTimestampStrategy": "error"}):
        refused = Engine(both, **options, **policy)
        refused_message = f"No offset matched from request of topic-partition {topic}-0 and"
        with pytest.raises(ValueError, match=refused_message):
            refused.run()
        refused.stop()
    query = Engine(both, **options, startingOffsetsByTimestampStrategy="latest")
    query.start()
    query.trigger()
    both.send(topic, ["new"], timestamp_ms=500)
    query.trigger()
    query.stop()
    assert query.values() == ["new"]


def test_parity_33_a_new_topic_of_a_pattern_is_read_from_its_first_record(both: Topics) -> None:
    prefix = both.broker.unused_name("patterned")
    first, second = f"{prefix}-a", f"{prefix}-b"
    both.broker.wire.create_topic(first)
    both.send(first, ["unseen"])
    query = Engine(both, subscribePattern=f"{prefix}-.*", startingOffsets="latest")
    query.start()
    query.trigger()
    both.broker.wire.create_topic(second, 2)
    both.send(second, ["a", "b", "c"])  # before the running query sees the topic
    query.trigger()
    both.send(first, ["d"])
    query.trigger()
    query.stop()
    assert query.values() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_parity_43_a_topic_of_a_pattern_is_deleted_while_the_query_runs(
    both: Topics, fail: str
) -> None:
    prefix = both.broker.unused_name("patterned")
    kept, gone = f"{prefix}-kept", f"{prefix}-gone"
    for topic in (kept, gone):
        both.broker.wire.create_topic(topic)
        both.send(topic, [topic])
    pattern = {"subscribePattern": f"{prefix}-.*", "failOnDataLoss": fail}
    query = Engine(both, startingOffsets="earliest", **pattern)
    query.start()
    query.trigger()
    both.delete(gone)
    both.send(kept, ["more"])
    if fail == "true":
        with pytest.raises(DataLossError, match="PARTITIONS_DELETED"):
            query.trigger()
    else:
        query.trigger()
        assert query.values() == sorted([kept, gone, "more"])
    query.stop()


def test_parity_38_the_limit_is_divided_by_backlog(both: Topics) -> None:
    topic = both.create(3)
    for partition, count in ((0, 101), (1, 11), (2, 1)):
        send(both, topic, {partition: [f"{partition}-{n}" for n in range(count)]})
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    query = Engine(both, subscribe=topic, **options)
    query.start()
    query.trigger()
    query.start()  # a restart keeps the division
    query.trigger()
    shares = [[sum(v[0] == p for v in query.batches[n]) for p in "012"] for n in (0, 1)]
    assert shares == [[8, 1, 1], [9, 1, 0]]
    query.trigger(single=True)
    query.stop()
    assert len(query.batches[2]) == 113 - 20
    largest = Engine(
        both, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(2**63 - 1)
    )
    largest.run()
    assert len(largest.batches[0]) == 113


def test_parity_45_a_topic_created_again_between_two_runs(both: Topics) -> None:
    topic = both.create()
    both.send(topic, ["a", "b"])
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    quick = {"fetchOffset.retryIntervalMs": "20"}
    queries = [Engine(both, **options, **quick, failOnDataLoss=fail) for fail in ("true", "false")]
    for query in queries:
        query.start()
        query.trigger()
        query.stop()
    both.recreate(topic)
    both.send(topic, ["c"])
    strict, lax = queries
    strict.start()
    with pytest.raises(DataLossError, match=f"{topic}-0's offset was changed from 2 to 1"):
        strict.trigger()
    strict.stop()
    lax.start()
    lax.trigger()
    both.send(topic, ["d"])
    lax.trigger()
    lax.stop()
    # Like Spark's connector, the query continues at the new end: it reads nothing twice.
    assert lax.values() == ["a", "b", "d"]


def test_parity_46_the_start_survives_a_failure_of_the_first_batch(both: Topics) -> None:
    topic = both.create(2)
    send(both, topic, {0: ["unseen"]})
    query = Engine(both, subscribe=topic, startingOffsets="latest")
    query.start()
    query.trigger(fail=True)
    send(both, topic, {0: ["a"], 1: ["b"]})  # "latest" is now a later offset
    query.start()
    query.trigger()
    query.stop()
    assert query.batches == {0: [], 1: ["a", "b"]}


def test_parity_13_to_24_in_spark(source: Source, both: Topics, stream_of: StreamOf) -> None:
    """One query with two sources: from offsets with `assign`, from timestamps with a pattern."""
    specific, timed = both.create(2), both.create(2)
    send(both, specific, {0: ["s0", "s1"], 1: ["s2", "s3"]})
    for at in (1_000, 2_000):
        send(both, timed, {p: [f"t{p}-{at}"] for p in (0, 1)}, timestamp_ms=at)
    times = json.dumps({timed: {"0": 1_500, "1": 900}})

    def union():
        return source.stream(
            both,
            assign=json.dumps({specific: [0, 1]}),
            startingOffsets=json.dumps({specific: {"0": 1, "1": -2}}),
        ).union(source.stream(both, subscribePattern=timed, startingOffsetsByTimestamp=times))

    stream = stream_of(union)
    stream.run()
    first = ["s1", "s2", "s3", "t0-2000", "t1-1000", "t1-2000"]
    assert stream.values() == first
    both.add_partitions(timed, 3)
    send(both, timed, {2: ["added"]})
    stream.run()
    assert stream.values() == sorted([*first, "added"])
