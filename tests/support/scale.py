"""Test sizes, from one place.

Numbers in tests are written as the full run has them. `THALWEG_TEST_SCALE` says how much of
them runs: 1 (the default) is 2 percent, 50 is all (`make test-full`).
"""

from __future__ import annotations

import os

FULL_SCALE = 50


def scale() -> float:
    """The scale in force: `THALWEG_TEST_SCALE`, 1 unless set."""
    return float(os.environ.get("THALWEG_TEST_SCALE", "1"))


def scaled(full: int, minimum: int = 1) -> int:
    """How many of `full` run at the scale in force, at least `minimum`."""
    return max(minimum, min(full, round(full * scale() / FULL_SCALE)))
