"""Windows of the coordinator's metrics, which work like Kafka's SampledStat."""

from __future__ import annotations

from math import isnan

import pytest

from thalweg.coordinator.driver._monitoring import Window


def test_without_values_there_is_no_average():
    window = Window(2, 1000)
    assert isnan(window.average(0))
    assert isnan(window.largest(0))
    assert window.per_ms(0) == 0


def test_averages_and_maxima_are_of_the_last_windows_only():
    window = Window(2, 1000)
    window.add(10, 0)
    window.add(20, 500)
    window.add(60, 1200)
    assert (window.average(1300), window.largest(1300)) == (30, 60)
    assert (window.average(2100), window.largest(2100)) == (60, 60)
    assert isnan(window.average(3300))
    assert (window.total, window.sum) == (3, 90)


def test_a_first_value_is_no_huge_rate():
    window = Window(2, 1000)
    window.add(5, 0)
    assert window.per_ms(10) == pytest.approx(1 / 1010)
    window.add(5, 1500)
    assert window.per_ms(1500) == pytest.approx(2 / 1500)
