"""Ranges and rate limits: the connector's tables, and properties that always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.range_reader import OffsetRange
from thalweg.spark.ranges import plan, rate_limit, tasks

T1, T2, T3 = ("t", 1), ("t", 2), ("t", 3)


def spans(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(r.partition, r.start, r.end) for r in ranges]


def planned(sizes: dict, minimum: int | None = None, maximum: int | None = None, begin: int = 0):
    start = dict.fromkeys(sizes, begin)
    end = {tp: begin + size for tp, size in sizes.items()}
    return spans(plan(start, end, minimum, maximum))


@pytest.mark.parametrize(
    ("sizes", "minimum", "maximum", "expected"),
    [
        ({T1: 5}, None, None, [(1, 0, 5)]),
        ({T1: 0, T2: 3}, None, None, [(2, 0, 3)]),
        ({T1: 5, T2: 1}, 1, None, [(1, 0, 5), (2, 0, 1)]),
        ({T1: 5}, 3, None, [(1, 0, 1), (1, 1, 3), (1, 3, 5)]),
        ({T1: 5, T2: 5}, 4, None, [(1, 0, 2), (1, 2, 5), (2, 0, 2), (2, 2, 5)]),
        (
            {T1: 100, T2: 5, T3: 5},
            4,
            None,
            [(1, 0, 50), (1, 50, 100), (2, 0, 5), (3, 0, 5)],
        ),
        ({T1: 1, T2: 1, T3: 1}, 3, None, [(1, 0, 1), (2, 0, 1), (3, 0, 1)]),
        ({T1: 50}, None, 20, [(1, 0, 16), (1, 16, 33), (1, 33, 50)]),
        ({T1: 8, T2: 3}, None, 4, [(1, 0, 4), (1, 4, 8), (2, 0, 3)]),
    ],
)
def test_ranges_are_split_as_in_the_table(sizes, minimum, maximum, expected) -> None:
    assert planned(sizes, minimum, maximum) == expected


def test_a_partition_without_a_start_is_not_read() -> None:
    assert plan({}, {T1: 5}) == []


@given(
    st.dictionaries(st.tuples(st.just("t"), st.integers(0, 20)), st.integers(0, 10_000)),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 500),
)
def test_every_offset_is_read_exactly_once(sizes, minimum, maximum) -> None:
    pieces = planned(sizes, minimum, maximum, begin=7)
    position = dict.fromkeys((p for _, p in sizes), 7)
    for partition, start, end in pieces:
        assert start == position[partition]
        assert end > start
        assert maximum is None or end - start <= maximum
        position[partition] = end
    assert position == {p: 7 + size for (_, p), size in sizes.items()}


def test_the_limit_is_shared_by_backlog() -> None:
    latest = {T1: 101, T2: 11, T3: 1}
    first = rate_limit(10, dict.fromkeys(latest, 0), latest, {})
    assert first == {T1: 8, T2: 1, T3: 1}
    second = rate_limit(10, first, latest, {})
    assert {tp: second[tp] - first[tp] for tp in latest} == {T1: 9, T2: 1, T3: 0}


def test_a_limit_that_divides_the_backlog_leaves_no_rest() -> None:
    latest = {T1: 1_492_766, T2: 1_511_602, T3: 1_508_469, ("t", 9): 1_487_163}
    at = dict.fromkeys(latest, 0)
    for _ in range(4):
        at = rate_limit(1_500_000, at, latest, {})
    assert at == latest


def test_the_largest_limit_does_not_overflow() -> None:
    latest = {T1: 2**62, T2: 2**61}
    assert rate_limit(2**63 - 1, dict.fromkeys(latest, 0), latest, {}) == latest


def test_new_partitions_start_at_their_earliest_offset() -> None:
    assert rate_limit(10, {T1: 0}, {T1: 10, T2: 110}, {T2: 100}) == {T1: 5, T2: 105}


@given(
    st.integers(1, 1_000),
    st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 1_000), min_size=1),
)
def test_a_limited_trigger_always_advances_and_never_passes_the_end(limit, latest) -> None:
    start = dict.fromkeys(latest, 0)
    end = rate_limit(limit, start, latest, {})
    assert all(0 <= end[tp] <= latest[tp] for tp in latest)
    assert all(end[tp] > 0 for tp in latest if latest[tp])
    # The batch may exceed the limit only because shares below one are rounded up. It is never
    # smaller.
    backlogs = [size for size in latest.values() if size]
    wanted = min(limit, sum(backlogs))
    assert wanted <= sum(end.values()) <= max(wanted, limit - 1 + len(backlogs))


def small_topic(
    partitions: int, size: int
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    start = {("t", number): number for number in range(partitions)}
    return start, {tp: at + size for tp, at in start.items()}


def test_few_ranges_have_a_task_each() -> None:
    planned = tasks(*small_topic(32, 10))
    assert [len(each) for each in planned] == [1] * 32


def test_many_small_ranges_share_tasks_of_equal_size() -> None:
    start, end = small_topic(1_000, 100)
    planned = tasks(start, end)
    assert len(planned) == 32
    sizes = [sum(each.size for each in ranges) for ranges in planned]
    assert max(sizes) - min(sizes) <= 100
    assert sorted(each for ranges in planned for each in ranges) == plan(start, end)
    assert all(list(ranges) == sorted(ranges) for ranges in planned)
    assert tasks(start, end) == planned, "a repeated plan is the same"


def test_ranges_share_no_more_than_a_task_can_read_quickly() -> None:
    planned = tasks(*small_topic(1_000, 20_000))
    assert len(planned) == 200
    assert max(sum(each.size for each in ranges) for ranges in planned) == 100_000


def test_large_ranges_keep_their_own_tasks() -> None:
    start, end = small_topic(100, 10)
    large = {("large", number): 500_000 for number in range(40)}
    planned = tasks({**start, **dict.fromkeys(large, 0)}, {**end, **large})
    assert planned[:40] == [(OffsetRange("large", number, 0, 500_000),) for number in range(40)]
    assert [len(each) for each in planned[40:]] == [100], "there are enough tasks"


def test_the_wanted_number_of_tasks_is_not_exceeded() -> None:
    start = {("t", number): 0 for number in range(4)}
    end = {("t", 0): 1_000_000, ("t", 1): 400_000, ("t", 2): 300_000, ("t", 3): 300_000}
    planned = tasks(start, end, max_partitions=2)
    assert [[each.partition for each in ranges] for ranges in planned] == [[0], [1, 2, 3]]
    assert [len(each) for each in tasks(start, end, max_partitions=100)] == [1] * 4
    assert tasks({}, {}, max_partitions=2) == []


@pytest.mark.parametrize(("minimum", "maximum"), [(1_000, None), (1_500, None), (None, 7)])
def test_options_that_ask_for_tasks_keep_them(minimum: int | None, maximum: int | None) -> None:
    planned = tasks(*small_topic(1_000, 10), minimum, maximum)
    assert all(len(ranges) == 1 for ranges in planned)
    assert len(planned) >= 1_000
