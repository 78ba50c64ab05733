"""Queries with the option `pushFilters`: the same rows, of which Spark reads fewer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan

from tests.spark.conftest import Source, Topics
from thalweg.config import IgnoredOptionWarning
from thalweg.spark.options import parse_source
from thalweg.spark.pushdown.reader import FilteringReader
from thalweg.spark.source import ThalwegDataSource

CONF = "spark.sql.python.filterPushdown.enabled"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
# The hours of the records of a partition, which are not in order.
HOURS = (0, 2, 1, 3, 2, 5)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CONF, "true")
    yield
    spark.conf.unset(CONF)


def fill(topics: Topics) -> tuple[str, str]:
    """Creates two topics with three partitions of six records."""
    names = topics.create(3), topics.create(3)
    for name in names:
        for partition in range(3):
            for hour in HOURS:
                at = int((BEGIN + timedelta(hours=hour)).timestamp() * 1_000)
                topics.send(name, [f"{hour}"], partition=partition, timestamp_ms=at)
    return names


def planned(
    topics: Topics, names: tuple[str, str], *filters: Filter, **options: str
) -> list[tuple[str, int, int, int]]:
    """Returns the ranges that the source reads with filters."""
    given = {
        "kafka.bootstrap.servers": topics.broker.bootstrap_servers,
        "subscribe": ",".join(names),
        "pushFilters": "one-query",
        **options,
    }
    source = ThalwegDataSource(given)
    reader = source.reader(source.schema())
    assert isinstance(reader, FilteringReader)
    list(reader.pushFilters(list(filters)))
    ranges = [each for task in reader.partitions() for each in task.value]
    return sorted((each.topic, each.partition, each.start, each.end) for each in ranges)


@pytest.mark.parametrize(
    ("condition", "spark_applies_it_again"),
    [
        ("topic = '{0}'", False),
        ("topic in ('{0}', 'no-such-topic') and partition < 2", False),
        ("topic != '{0}' and partition in (0, 2)", False),
        ("topic like '{0}%'", False),
        ("not partition = 1 and not offset < 3", False),
        ("offset between 2 and 3", False),
        ("partition = 1 and offset >= 2 and offset < 4", False),
        ("offset in (0, 5)", True),
        ("offset between 1 and 2 or partition = 2", True),
        ("timestamp >= timestamp '2026-01-01 02:00:00 UTC'", True),
        ("timestamp > timestamp '2026-01-01 02:00:00 UTC' and offset < 5", True),
        ("timestamp < timestamp '2026-01-01 01:30:00 UTC'", True),
        ("timestamp > timestamp '2030-01-01 00:00:00 UTC'", True),
        ("cast(value as string) = '5'", True),
        ("partition = 7", False),
    ],
)
def test_filters_change_no_result(
    spark: SparkSession,
    source: Source,
    both: Topics,
    pushing: None,
    condition: str,
    spark_applies_it_again: bool,
) -> None:
    names = fill(both)
    subscribe = ",".join(names)
    condition = condition.format(*names)
    fields = ("topic", "partition", "offset", "timestamp", "value")
    plain = source.read(both, subscribe=subscribe).where(condition).select(*fields)
    pushed = source.read(both, subscribe=subscribe, pushFilters="one-query")
    pushed = pushed.where(condition).select(*fields)
    assert sorted(pushed.collect()) == sorted(plain.collect())
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    assert (" Filter " in plan) == spark_applies_it_again, plan


def test_each_query_needs_its_own_load(
    spark: SparkSession, source: Source, both: Topics, pushing: None
) -> None:
    """Spark's last filters of a load() apply to all its scans: a mistake that docs/spark.md names.

    If Spark corrects it, the first assertion fails. Then `pushFilters` can become a flag.
    """
    names = fill(both)

    def offsets(first: DataFrame, second: DataFrame) -> list[tuple[str, int]]:
        both_of_them = first.where("partition = 0").union(second.where("partition = 1"))
        return sorted(both_of_them.select("topic", "partition").distinct().collect())

    def load() -> DataFrame:
        return source.read(both, subscribe=",".join(names), pushFilters="one-query")

    wanted = sorted((name, partition) for name in names for partition in (0, 1))
    one = load()
    assert offsets(one, one) != wanted
    assert offsets(load(), load()) == wanted


@pytest.mark.parametrize("word", ["true", "yes", ""])
def test_the_option_says_what_a_load_is_for(word: str) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "pushFilters": word}
    with pytest.raises(ValueError, match=r"must be false or one-query.*call load\(\) again"):
        parse_source(given, "batch")


def test_only_what_filters_leave_is_read(both: Topics) -> None:
    names = fill(both)
    first, second = names
    assert planned(both, names, EqualTo(("topic",), second), In(("partition",), (0, 2))) == [
        (second, 0, 0, 6),
        (second, 2, 0, 6),
    ]
    one = EqualTo(("topic",), first), EqualTo(("partition",), 1)
    offsets = GreaterThanOrEqual(("offset",), 2), LessThan(("offset",), 4)
    assert planned(both, names, *one, *offsets) == [(first, 1, 2, 4)]
    assert planned(both, names, *one, LessThan(("offset",), 100)) == [(first, 1, 0, 6)]
    assert planned(both, names, *one, GreaterThan(("offset",), 100)) == []
    since = BEGIN + timedelta(hours=2)
    assert planned(both, names, *one, GreaterThanOrEqual(("timestamp",), since)) == [
        (first, 1, 1, 6)
    ]
    assert planned(both, names, *one, GreaterThan(("timestamp",), since)) == [(first, 1, 3, 6)]
    late = BEGIN + timedelta(days=1)
    assert planned(both, names, *one, GreaterThan(("timestamp",), late)) == []


def test_filters_and_the_options_of_offsets_narrow_together(both: Topics) -> None:
    names = fill(both)
    first, second = names
    bounds = {
        "startingOffsets": json.dumps({first: {"0": 1, "1": 1, "2": 1}, second: "earliest"}),
        "endingOffsets": json.dumps({first: {"0": 5, "1": 3, "2": 3}, second: "latest"}),
    }
    topic = EqualTo(("topic",), first)
    offsets = GreaterThanOrEqual(("offset",), 2), LessThan(("offset",), 4)
    assert planned(both, names, topic, *offsets, **bounds) == [
        (first, 0, 2, 4),
        (first, 1, 2, 3),
        (first, 2, 2, 3),
    ]


def test_records_that_are_deleted_before_the_first_offset_are_no_loss(
    source: Source, both: Topics, pushing: None
) -> None:
    topic = both.create()
    both.send(topic, ["a", "b", "c"])
    both.delete_before(topic, {0: 2})
    given = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    frame = source.read(both, pushFilters="one-query", **given)
    assert frame.where("offset >= 2").count() == 1


def test_a_filter_of_the_time_hides_no_loss(source: Source, both: Topics, pushing: None) -> None:
    topic = both.create()
    both.send(topic, ["a", "b", "c"])
    both.delete_before(topic, {0: 2})
    given = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    frame = source.read(both, pushFilters="one-query", **given)
    with pytest.raises(Exception, match="COULD_NOT_READ_OFFSET_RANGE"):
        frame.where("timestamp >= timestamp '2026-01-01 00:00:00 UTC'").count()


def test_without_sparks_option_the_error_names_it(source: Source, topics: Topics) -> None:
    topic = topics.create()
    with pytest.raises(Exception, match=CONF):
        source.read(topics, subscribe=topic, pushFilters="one-query").where("partition = 0").count()


def test_a_stream_warns_that_it_gets_no_filters() -> None:
    given = {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "t",
        "pushFilters": "one-query",
    }
    with pytest.warns(IgnoredOptionWarning, match="pushFilters is ignored in streams"):
        assert not parse_source(given, "stream").push_filters
