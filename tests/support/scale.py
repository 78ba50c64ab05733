"""Scales the sizes of tests.

Tests give the numbers of the full run. `THALWEG_TEST_SCALE` says how much of them runs: 1 (the
default) is 2 percent, 50 is all (`make test-full`).
"""

from __future__ import annotations

import os

FULL_SCALE = 50


def scale() -> float:
    """Returns the current scale: `THALWEG_TEST_SCALE`, 1 by default."""
    return float(os.environ.get("THALWEG_TEST_SCALE", "1"))


def scaled(full: int, minimum: int = 1) -> int:
    """Returns how many of `full` run at the current scale, at least `minimum`."""
    return max(minimum, min(full, round(full * scale() / FULL_SCALE)))
