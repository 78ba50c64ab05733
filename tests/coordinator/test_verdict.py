"""The meaning of error codes for a classic member."""

from __future__ import annotations

import pytest

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.classic.verdict import Verdict, verdict


@pytest.mark.parametrize(
    "code, meaning",
    [
        (0, Verdict.FINE),
        (25, Verdict.UNKNOWN),
        (22, Verdict.STALE),
        (27, Verdict.REBALANCE),
        (16, Verdict.MOVED),
        (15, Verdict.MOVED),
        (14, Verdict.WAIT),
        (7, Verdict.WAIT),
        (82, Verdict.FENCED),
        (81, Verdict.TELL),
        (30, Verdict.TELL),
        (-1, Verdict.TELL),
        (9999, Verdict.TELL),
    ],
)
def test_each_code_has_one_meaning(code, meaning):
    assert verdict(code) is meaning


def test_waits_are_multiplied_with_their_jitter_and_never_overflow():
    factors = iter([0.8, 1.2, *[1.0] * 5000])
    backoff = Backoff(100, 1000, lambda: next(factors))
    assert [backoff.failed(), backoff.failed()] == [80, 240]
    assert {backoff.failed() for _ in range(5000)} == {400, 800, 1000}
    backoff.reset()
    assert backoff.failures == 0


def test_no_wait_is_longer_than_the_maximum_and_a_fixed_wait_has_no_jitter():
    growing = Backoff(100, 150, lambda: 1.2)
    assert [growing.failed(), growing.failed()] == [120, 150]
    fixed = Backoff(80, 80, lambda: 0.8)
    assert [fixed.failed(), fixed.failed()] == [80, 80]
