"""Which offset of a partition is meant (OffsetSpec, KIP-79, KIP-734, KIP-1005)."""

from enum import IntEnum

from thalweg.admin.naming import FlexibleEnum

__all__ = ["IsolationLevel", "OffsetSpec", "OffsetTimestamp"]


class IsolationLevel(FlexibleEnum, IntEnum):
    """Whether records of open transactions count."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(FlexibleEnum, IntEnum):
    """Offsets by name; any number of at least 0 is a timestamp in Unix ms."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetTimestamp(int):
    """A timestamp in Unix ms, where a plain int would be an offset."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"OffsetTimestamp({int(self)})"
