"""Decides whether a trigger waits for more records.

    minOffsetsPerTrigger   a trigger with fewer new offsets waits,
    maxTriggerDelay        but at most this long after the last trigger that did not wait

The first trigger of a query, also after a restart, never waits. The rules are those of Spark's own
connector.
"""

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


class TriggerDelay:
    """Remembers the last trigger that did not wait. The caller passes the time."""

    def __init__(self, offsets_min: int, delay_ms: int) -> None:
        """Starts a query.

        Args:
            offsets_min: The number of new offsets that a trigger waits for.
            delay_ms: The maximum time between two triggers that do not wait.
        """
        self._offsets_min = offsets_min
        self._delay_ms = delay_ms
        self._last_ms: float | None = None

    def waits(self, new_offsets: int, now_ms: float) -> bool:
        """Returns whether this trigger waits.

        Args:
            new_offsets: The number of offsets that this trigger could read.
            now_ms: The time of a clock that never goes back.
        """
        last = self._last_ms
        if last is not None and now_ms - last < self._delay_ms and new_offsets < self._offsets_min:
            return True
        self._last_ms = now_ms
        return False


def milliseconds(text: str) -> int:
    """Returns a time such as ``15m`` or ``500ms``. A number without a unit is in milliseconds.

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
