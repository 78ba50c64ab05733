"""Times as Spark writes them: ``15m``, ``500ms``, or a number of milliseconds."""

from __future__ import annotations

import re

_UNITS_MS = {
    "us": 1 / 1_000,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def milliseconds(text: str) -> int:
    """Returns a time in milliseconds. A number without a unit is in milliseconds.

    Raises:
        ValueError: If it is not a time. The message is Spark's.
    """
    found = re.fullmatch(r"([0-9]{1,18})([a-z]*)", text.strip().lower())
    unit = _UNITS_MS.get((found[2] or "ms") if found else "")
    if found is None or unit is None:
        raise ValueError(
            "Time must be specified as seconds (s), milliseconds (ms), microseconds (us), minutes "
            "(m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us."
        )
    return int(int(found[1]) * unit)
