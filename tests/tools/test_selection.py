"""`make test` deselects what would show nothing new there, and says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.runs.selection import (
    OLDER_PYSPARK,
    OTHERS_ALONE,
    SECOND_REAL_BROKER,
    reason,
    summary,
)

OTHERS, ONE = "only_other_clients", "one_real_broker"


@pytest.mark.parametrize(
    ("mark", "parameters", "why"),
    [
        (OTHERS, {"broker": "kafka-4.3"}, OTHERS_ALONE),
        (OTHERS, {"broker": "kafka-3.9", "producer": "java", "consumer": "java"}, OTHERS_ALONE),
        (OTHERS, {"broker": "kafka-4.3", "producer": "java", "consumer": "thalweg"}, None),
        (OTHERS, {"broker": "kafka-4.3", "producer": "thalweg", "consumer": "java"}, None),
        (OTHERS, {"broker": "embedded", "producer": "java", "consumer": "java"}, None),
        (ONE, {"broker": "kafka-3.9"}, SECOND_REAL_BROKER),
        (ONE, {"broker": "kafka-4.3"}, None),
        (ONE, {"broker": "embedded"}, None),
        (ONE, {}, None),
        ("older_pyspark", {}, OLDER_PYSPARK),
        ("timeout", {"broker": "kafka-3.9"}, None),
    ],
)
def test_the_reason_to_deselect_a_test(mark, parameters, why):
    assert reason({mark, "parametrize"}, parameters) == why


def test_the_summary_counts_what_was_deselected():
    assert summary({}) == []
    lines = summary({OTHERS_ALONE: 2, SECOND_REAL_BROKER: 1})
    assert lines[1:] == [f"1 tests that {SECOND_REAL_BROKER}", f"2 tests that {OTHERS_ALONE}"]


FILES = ("tests/interop/test_exchange.py", "tests/integration/producer/test_futures.py")


def collected(monkeypatch, scale):
    """Returns the tests that pytest collects at a scale, and the end of its output."""
    monkeypatch.setenv("THALWEG_TEST_SCALE", scale)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *FILES]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tests, _, end = ran.stdout.partition("\n\n")
    return set(tests.splitlines()), end


def test_full_scale_runs_all_tests_and_a_smaller_one_says_how_many_it_leaves_out(monkeypatch):
    some, end = collected(monkeypatch, "1")
    everything, end_of_all = collected(monkeypatch, "50")
    left_out = everything - some
    exchanged = {each for each in left_out if "test_exchange" in each}
    assert some < everything
    assert f"\n{len(exchanged)} tests that {OTHERS_ALONE}\n" in end
    assert f"\n{len(left_out - exchanged)} tests that {SECOND_REAL_BROKER}\n" in end
    assert "test-full" not in end_of_all
    assert not [each for each in exchanged if "embedded" in each or "thalweg" in each]
    assert all("kafka-3.9" in each for each in left_out - exchanged)


def test_the_processes_of_xdist_report_what_they_deselected():
    """Only the processes collect tests. The summary is written by the one that starts them."""
    file = "tests/integration/producer/test_futures.py"
    chosen = ["-n", "2", "--dist", "load", "-k", "refused_at_once and embedded", file]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "THALWEG_TEST_SCALE": "1"},
    )
    assert "1 passed" in ran.stdout
    assert f"\n10 tests that {SECOND_REAL_BROKER}\n" in ran.stdout
