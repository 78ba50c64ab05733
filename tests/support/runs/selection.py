"""Decides which tests run only in `make test-full`. The others run in `make test`, too.

    @only_other_clients     with real Kafka, the test runs only code of other projects
    @one_real_broker        the test is about code that behaves the same with every broker
    @older_pyspark          the test needs an older PySpark

Such tests are deselected, not skipped. The end of the output says how many, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.scale import FULL_SCALE, scale

only_other_clients = pytest.mark.only_other_clients
"""The test runs only clients of other projects, except for a parameter that is "thalweg".

With the embedded broker the test is about that broker. With real Kafka it shows that the other
clients and the test itself work, which does not change with this tree.
"""

one_real_broker = pytest.mark.one_real_broker
"""The test is about arguments, callbacks, conversions, threads, signals or memory.

Kafka 3.9 would show nothing that Kafka 4.3 and the embedded broker do not show.
"""

older_pyspark = pytest.mark.older_pyspark
"""The test runs an older PySpark, which `make spark-4.0` etc. install (800 MB each)."""

OLDER_PYSPARK = "need an older PySpark (make spark-4.0 spark-4.1 spark-4.2)"
OTHERS_ALONE = "run only other clients, on real Kafka"
SECOND_REAL_BROKER = "do not depend on the broker's version, and run on Kafka 4.3, too"
_OURS = {"thalweg", "embedded"}


def reason(marks: set[str], parameters: Mapping[str, Any]) -> str | None:
    """Returns why a test runs only in `make test-full`, or None if it also runs in `make test`."""
    values = {each for each in parameters.values() if isinstance(each, str)}
    if "older_pyspark" in marks:
        return OLDER_PYSPARK
    if "only_other_clients" in marks and not values & _OURS:
        return OTHERS_ALONE
    if "one_real_broker" in marks and "kafka-3.9" in values:
        return SECOND_REAL_BROKER
    return None


def deselect(items: list[pytest.Item]) -> Counter[str]:
    """Removes the tests that run only in `make test-full`. Returns how many, by their reason."""
    reasons = Counter[str]()
    if scale() >= FULL_SCALE:
        return reasons
    kept = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        marks = {mark.name for mark in item.iter_markers()}
        why = reason(marks, callspec.params if callspec else {})
        if why is None:
            kept.append(item)
        else:
            reasons[why] += 1
    items[:] = kept
    return reasons


def summary(reasons: Mapping[str, int]) -> list[str]:
    """Returns the lines about deselected tests for the end of the output."""
    lines = [f"{count} tests that {why}" for why, count in sorted(reasons.items()) if count]
    return ["deselected, because only make test-full runs them:", *lines] if lines else []
