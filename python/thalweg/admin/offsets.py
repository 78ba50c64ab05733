"""Ways to name an offset of a partition (OffsetSpec, KIP-79, KIP-734, KIP-1005)."""

from enum import IntEnum

from thalweg.admin.naming import FlexibleEnum

__all__ = ["IsolationLevel", "OffsetSpec", "OffsetTimestamp"]


class IsolationLevel(FlexibleEnum, IntEnum):
    """Which records count: all (READ_UNCOMMITTED), or only those before open transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(FlexibleEnum, IntEnum):
    """Offsets by name. Where an OffsetSpec is expected, an int >= 0 is a timestamp in Unix ms."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetTimestamp(int):
    """A timestamp in Unix ms, for calls where a plain int is an offset."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"OffsetTimestamp({int(self)})"
