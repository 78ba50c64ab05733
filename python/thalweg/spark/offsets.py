"""Converts the offsets of a stream to and from the form in Spark's checkpoint.

The JSON is that of the Kafka connector: ``{"topic": {"0": 123}}`` has the next offset to read.
Topics and partitions are sorted, because Spark compares the text.

The end offset of batch 0 has an additional entry. For a Python source, Spark does not store the
result of ``initialOffset``, but calls it again when it repeats batch 0 after a crash. With
``startingOffsets=latest`` the second result is later than the first, and the records between the
two would be lost. So the end offset of batch 0 has the start of the batch under ``@start`` (a topic
name cannot contain ``@``). The planning then uses this start, and not the one from Spark.
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
    """Returns the checkpoint form of offsets, with the start of batch 0 if given."""
    result: dict[str, Any] = _nested(offsets)
    if start is not None:
        result[START_KEY] = _nested(start)
    return result


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Returns the offsets of a checkpoint's value, without the start of batch 0.

    Raises:
        ValueError: If the value does not have the form ``{"topic": {"0": 123}}``. Or if a newer
            version of thalweg has written it.
    """
    unknown = [name for name in value if name.startswith("@") and name != START_KEY]
    if unknown:
        raise ValueError(
            f"The checkpoint contains '{unknown[0]}', which this version of thalweg does not know. "
            "A newer version has probably written it. Use that version to continue the query."
        )
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
    """Returns the start of batch 0 if this is the end offset of batch 0, else None."""
    start = end.get(START_KEY)
    return None if start is None else from_json(start)


def _nested(offsets: Mapping[Partition, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result
