"""The expected results of the demo: each group must report what the data contains."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from thalweg.demo.data import DemoError, check, delays

DAYS: list[dict[str, Any]] = [
    {"carrier": "AA", "date": "2013-01-01", "flights": 3, "mean_delay": 1.5},
    {"carrier": "AA", "date": "2013-01-02", "flights": 2, "mean_delay": None},
    {"carrier": "B6", "date": "2013-01-01", "flights": 4, "mean_delay": -2.0},
]


def changed(fields: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | fields.get(at, {}) for at, row in enumerate(DAYS)]


def test_flights_are_counted_and_their_delays_averaged_by_carrier_and_date():
    flights = pa.table(
        {
            "carrier": ["B6", "AA", "AA", "AA"],
            "date": ["2013-01-01", "2013-01-02", "2013-01-01", "2013-01-01"],
            "dep_delay": [-2, None, 1, 2],
        }
    )
    assert delays(flights, "date") == [
        {"carrier": "AA", "date": "2013-01-01", "flights": 2, "mean_delay": 1.5},
        {"carrier": "AA", "date": "2013-01-02", "flights": 1, "mean_delay": None},
        {"carrier": "B6", "date": "2013-01-01", "flights": 1, "mean_delay": -2.0},
    ]


def test_a_result_that_says_what_the_data_says_passes():
    check("the stream", changed({0: {"mean_delay": 1.5 + 1e-12}}), DAYS)


@pytest.mark.parametrize("found", [[], DAYS[:2], changed({2: {"flights": 5}})])
def test_a_wrong_total_is_told_beside_the_right_one(found):
    total = sum(row["flights"] for row in found)
    with pytest.raises(DemoError, match=f"^9 flights were sent, but the stream has {total}$"):
        check("the stream", found, DAYS)


@pytest.mark.parametrize(
    ("found", "expected", "got"),
    [
        (changed({0: {"flights": 2}, 1: {"flights": 3}}), DAYS[0], "'flights': 2"),
        (changed({1: {"date": "2013-01-03"}}), DAYS[1], "'date': '2013-01-03'"),
        (changed({2: {"carrier": "DL"}}), DAYS[2], "'carrier': 'DL'"),
        (changed({0: {"mean_delay": 1.6}}), DAYS[0], "'mean_delay': 1.6"),
        (changed({0: {"mean_delay": None}}), DAYS[0], "'mean_delay': None"),
        (changed({1: {"mean_delay": 0.0}}), DAYS[1], "'mean_delay': 0.0"),
        ([*changed({2: {"carrier": "AA", "flights": 0}}), DAYS[2]], DAYS[2], "'flights': 0"),
        ([*DAYS, DAYS[0] | {"flights": 0}], "no more rows", "'flights': 0"),
    ],
)
def test_a_wrong_window_is_named_though_the_total_is_right(found, expected, got):
    wanted = f"^the stream: expected {re.escape(str(expected))}, got .*{re.escape(got)}"
    with pytest.raises(DemoError, match=wanted):
        check("the stream", found, DAYS)


def test_a_window_that_is_missing_is_named_though_it_counts_nothing():
    nothing = {"carrier": "DL", "date": "2013-01-01", "flights": 0, "mean_delay": None}
    with pytest.raises(DemoError, match=f"expected {re.escape(str(nothing))}, got no more rows"):
        check("the stream", DAYS, [*DAYS, nothing])
