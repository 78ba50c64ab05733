"""Filters as partitions, offsets and times, without Spark and without a broker."""

from __future__ import annotations

import operator
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from thalweg.spark.pushdown.filters import Limits, limits_of

TOPICS = ("a", "ab", "b")
COMPARED = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
TEXTS = {
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
# Rows have offsets from 0, and a time that is not in their order.
ROWS: list[dict[str, Any]] = [
    {"topic": topic, "partition": partition, "offset": offset, "timestamp": at}
    for topic in TOPICS
    for partition in range(3)
    for offset, at in enumerate((5, 3, 8, 1, 9, 9, 2))
]


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def of_column(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    path = (column,)
    kinds = [*COMPARED, *(TEXTS if column == "topic" else ())]
    simple: st.SearchStrategy[Filter] = st.one_of(
        st.builds(lambda kind, value: kind(path, value), st.sampled_from(kinds), values),
        st.builds(
            lambda many: In(path, tuple(many)), st.lists(st.none() | values, min_size=1, max_size=3)
        ),
        st.just(IsNotNull(path)),
        st.just(IsNull(path)),
    )
    return simple | simple.map(Not)


FILTERS = st.lists(
    of_column("topic", st.sampled_from((*TOPICS, "", "c")))
    | of_column("partition", st.integers(-1, 4))
    | of_column("offset", st.integers(-2, 9))
    | of_column("timestamp", st.integers(0, 10).map(day)),
    max_size=5,
)


def sql(each: Filter, row: dict[str, Any]) -> bool | None:
    """Returns what Spark computes: None is null, which Spark treats as false."""
    if isinstance(each, Not):
        inner = sql(each.child, row)
        return None if inner is None else not inner
    [column] = each.attribute  # type: ignore[attr-defined]
    actual = day(row["timestamp"]) if column == "timestamp" else row[column]
    match each:
        case IsNull():
            return False
        case IsNotNull():
            return True
        case In(value=values):
            return True if actual in values else None if None in values else False
    compare = {**COMPARED, **TEXTS}[type(each)]
    return compare(actual, each.value)  # type: ignore[attr-defined, operator]


def is_read(limits: Limits, row: dict[str, Any]) -> bool:
    """Returns whether a reader with these limits reads a row, as brokers find times."""
    where = (row["topic"], row["partition"])
    if not limits.keeps(where) or row["offset"] < limits.first:
        return False
    if limits.end is not None and row["offset"] >= limits.end:
        return False
    since = limits.since_ms
    return since is None or any(
        milliseconds(day(other["timestamp"])) >= since
        for other in ROWS
        if (other["topic"], other["partition"]) == where and other["offset"] <= row["offset"]
    )


@given(FILTERS)
def test_what_is_read_and_passes_the_rest_is_what_all_filters_let_pass(
    filters: list[Filter],
) -> None:
    limits, rest = limits_of(filters)
    assert all(any(each is one for one in filters) for each in rest)
    limits = pickle.loads(pickle.dumps(limits))
    for row in ROWS:
        expected = all(sql(each, row) for each in filters)
        assert (is_read(limits, row) and all(sql(each, row) for each in rest)) == expected, row


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(("topic",), "a"),
        EqualNullSafe(("topic",), "a"),
        In(("partition",), (0, 2)),
        Not(In(("partition",), (0, 2))),
        LessThan(("partition",), 2),
        Not(StringStartsWith(("topic",), "a")),
        GreaterThan(("offset",), 3),
        LessThanOrEqual(("offset",), 3),
        EqualTo(("offset",), 3),
        EqualNullSafe(("offset",), 3),
        IsNotNull(("offset",)),
    ],
    ids=str,
)
def test_spark_need_not_apply(each: Filter) -> None:
    assert limits_of([each])[1] == []


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(("key",), bytearray(b"k")),
        EqualTo(("topic", "inner"), "a"),
        EqualTo(("partition",), None),
        EqualNullSafe(("topic",), None),
        EqualTo(("offset",), "3"),
        EqualTo(("offset",), True),
        Not(EqualTo(("offset",), 3)),
        In(("partition",), (0, None)),
        LessThan(("timestamp",), day(1)),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        Not(GreaterThan(("timestamp",), day(1))),
        IsNull(("offset",)),
    ],
    ids=str,
)
def test_other_filters_limit_nothing_and_remain(each: Filter) -> None:
    assert limits_of([each]) == (Limits(), [each])


@pytest.mark.parametrize(
    ("kind", "microseconds", "since_ms"),
    [
        (EqualTo, 0, 0),
        (EqualNullSafe, 1, 1),
        (GreaterThanOrEqual, 0, 0),
        (GreaterThanOrEqual, 1, 1),
        (GreaterThan, 0, 1),
        (GreaterThan, 999, 1),
        (GreaterThan, 1_000, 2),
    ],
)
def test_a_time_is_rounded_to_a_millisecond(
    kind: type[Filter], microseconds: int, since_ms: int
) -> None:
    start = datetime(2026, 1, 1, 1, 0, 0, microseconds, tzinfo=timezone(timedelta(hours=1)))
    each = kind(("timestamp",), start)  # type: ignore[call-arg]
    assert limits_of([each]) == (Limits(since_ms=1_767_225_600_000 + since_ms), [each])


def test_a_time_before_1970_is_no_special_offset() -> None:
    """In a request, the time -1 means the end, and -2 the start."""
    early = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    limits, _ = limits_of([GreaterThanOrEqual(("timestamp",), early)])
    assert limits == Limits(since_ms=0)
