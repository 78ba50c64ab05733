"""Offsets of a stream as Spark keeps them in its checkpoint.

The JSON is the Kafka connector's, ``{"topic": {"0": 123}}``: next offset to read, topics and
partitions sorted, because Spark compares the text. One thing is added for batch 0. Spark does not
persist what ``initialOffset`` said for a Python source; it asks again when batch 0 is replayed
after a crash. With ``startingOffsets=latest`` the second answer is later than the first, and the
records between them would be lost. So the end offset of batch 0 carries the start it was planned
with under ``@start`` (``@`` is illegal in a topic name), and planning prefers it over the start
that Spark hands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Partition = tuple[str, int]
Offsets = dict[Partition, int]

START_KEY = "@start"


def to_json(
    offsets: Mapping[Partition, int], start: Mapping[Partition, int] | None = None
) -> dict[str, Any]:
    """The checkpoint form of offsets, with the start of batch 0 embedded if given."""
    result: dict[str, Any] = _nested(offsets)
    if start is not None:
        result[START_KEY] = _nested(start)
    return result


def from_json(value: Mapping[str, Any]) -> Offsets:
    """The offsets in a checkpoint's value, without an embedded start.

    Raises:
        ValueError: If the value is not of the form ``{"topic": {"0": 123}}``.
    """
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in value.items()
            if topic != START_KEY
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f'Expected checkpoint offsets of the form {{"topic":{{"0":123}}}}, got {value!r}'
        ) from None


def embedded_start(end: Mapping[str, Any]) -> Offsets | None:
    """The start that batch 0 was planned with, if this end offset belongs to batch 0."""
    start = end.get(START_KEY)
    return None if start is None else from_json(start)


def _nested(offsets: Mapping[Partition, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result
