"""Translates the filters of a query into what to read: partitions, offsets, and a first time.

    column            what a filter does                                  Spark applies it again
    topic, partition  excludes partitions                                 no
    offset            moves the start or the end of each partition        not if it is a comparison
    timestamp         moves the start, if it has a lower limit            yes
    others            nothing                                             yes

Timestamps that producers set do not have to be in order. A broker knows the first record of a
partition that is not older than a time, so all records before it are older. But records after it
may be older than the time, too. For the same reason, an upper limit excludes no offsets.

It computes without a broker. These classes of filters need PySpark 4.1 or newer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from thalweg.spark.offsets import Partition

_TYPES: Final[Mapping[str, type]] = {"topic": str, "partition": int, "offset": int}
_COMPARISONS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Limits:
    """What the filters of a query leave to read. It can be pickled.

    Attributes:
        of_partitions: Filters of the topic and the partition. All must be true.
        first: The lowest offset of a partition.
        end: The offset at which each partition ends, or None for no limit.
        since_ms: The Unix time in ms of the oldest record, or None for no limit.
    """

    of_partitions: tuple[Filter, ...] = ()
    first: int = 0
    end: int | None = None
    since_ms: int | None = None

    def keeps(self, where: Partition) -> bool:
        """Returns whether the filters leave anything of a partition."""
        values = dict(zip(("topic", "partition"), where, strict=True))
        return all(_is_true(each, values[_column(each)]) for each in self.of_partitions)


def limits_of(filters: Iterable[Filter]) -> tuple[Limits, list[Filter]]:
    """Returns what filters leave to read, and those that Spark must still apply.

    Args:
        filters: The filters of a query, of which each row must fulfill all.
    """
    limits, rest = Limits(), []
    for each in filters:
        column = _column(each)
        if isinstance(each, IsNotNull) and column in _TYPES:
            continue  # these columns are never null
        if column in ("topic", "partition") and _is_supported(each, _TYPES[column]):
            limits = replace(limits, of_partitions=(*limits.of_partitions, each))
        elif column == "offset" and _is_supported(each, int):
            limits, is_exact = _with_offsets(limits, each)
            if not is_exact:
                rest.append(each)
        else:
            if column == "timestamp":
                limits = _with_time(limits, each)
            rest.append(each)
    return limits, rest


def _column(given: Filter) -> str:
    """Returns the column of a filter. It is "" for a field inside of a column."""
    path = given.child if isinstance(given, Not) else given
    attribute: tuple[str, ...] = getattr(path, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _is_supported(given: Filter, kind: type) -> bool:
    match given:
        case Not(child):
            return _is_supported(child, kind)
        case In(value=values):
            # With a null among them, the result may be null, which is not false.
            return all(type(each) is kind for each in values)
    return type(given) in _COMPARISONS and type(getattr(given, "value", None)) is kind


def _is_true(given: Filter, actual: Any) -> bool:
    match given:
        case Not(child):
            return not _is_true(child, actual)
        case In(value=values):
            return actual in values
    return _COMPARISONS[type(given)](actual, getattr(given, "value", None))


def _with_offsets(limits: Limits, given: Filter) -> tuple[Limits, bool]:
    """Returns narrower limits, and whether they say all that the filter says."""
    first, end = 0, None
    is_exact = True
    match given:
        case EqualTo(value=at) | EqualNullSafe(value=at):
            first, end = at, at + 1
        case GreaterThan(value=at):
            first = at + 1
        case GreaterThanOrEqual(value=at):
            first = at
        case LessThan(value=at):
            end = at
        case LessThanOrEqual(value=at):
            end = at + 1
        case In(value=values) if values:
            first, end, is_exact = min(values), max(values) + 1, False
        case _:
            return limits, False
    ends = [each for each in (limits.end, end) if each is not None]
    return replace(limits, first=max(limits.first, first), end=min(ends, default=None)), is_exact


def _with_time(limits: Limits, given: Filter) -> Limits:
    match given:
        case EqualTo() | EqualNullSafe() | GreaterThan() | GreaterThanOrEqual():
            since = given.value
        case _:
            return limits
    if not isinstance(since, datetime) or since.tzinfo is None:
        return limits
    # The timestamps of records have no fraction of a millisecond.
    if isinstance(given, GreaterThan):
        ms = (since - _EPOCH) // _MILLISECOND + 1
    else:
        ms = -((_EPOCH - since) // _MILLISECOND)
    # No record is from before 1970, and requests use negative numbers for other things.
    return replace(limits, since_ms=max(limits.since_ms or 0, ms))
