"""Splits offsets into the ranges of the tasks, and limits the offsets of one trigger.

It only computes with ``{(topic, partition): offset}``, without a broker or Spark. The ranges are
those of the Kafka connector's ``KafkaOffsetRangeCalculator``, and the limits those of its rate
limit. So a job that changes to this source keeps its number of tasks and its batch sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from thalweg.spark.offsets import Offsets, Partition


@dataclass(frozen=True)
class OffsetRange:
    """Offsets ``start`` (included) to ``end`` (excluded) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. There may be fewer records: compaction and transactions."""
        return self.end - self.start


def plan(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """Returns the ranges to read between two sets of offsets, without empty ranges.

    Args:
        start: The first offset of each partition.
        end: The end offset of each partition. A partition that is not in ``start`` is not read.
        min_partitions: The wanted minimum number of ranges. Large ranges are split.
        max_records_per_partition: The maximum number of offsets of a range.

    Returns:
        The ranges, sorted by topic, partition and offset.
    """
    ranges = [
        OffsetRange(topic, partition, start[topic, partition], until)
        for (topic, partition), until in sorted(end.items())
        if (topic, partition) in start and until > start[topic, partition]
    ]
    if max_records_per_partition is not None:
        ranges = [
            piece
            for whole in ranges
            for piece in split(whole, math.ceil(whole.size / max_records_per_partition))
        ]
    if min_partitions is not None and len(ranges) < min_partitions:
        ranges = _split_to(ranges, min_partitions)
    return ranges


def _split_to(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Splits large ranges in proportion to their size (SPARK-36576).

    A range below its proportional share is not split. Such ranges do not count in the proportion,
    so that the large ranges get all remaining parts.
    """
    total = sum(r.size for r in ranges)
    whole = {r for r in ranges if _parts(r.size, total, min_partitions) == 1}
    split_total = sum(r.size for r in ranges if r not in whole)
    parts_left = max(min_partitions - len(whole), 1)
    result: list[OffsetRange] = []
    for one in ranges:
        parts = 1 if one in whole else _parts(one.size, split_total, parts_left)
        result.extend(split(one, parts))
    return result


def _parts(size: int, total: int, wanted: int) -> int:
    """Returns a range's share of the wanted parts: at least 1, halves rounded up as in Java."""
    return max(1, math.floor(size / total * wanted + 0.5))


def split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Splits a range into pieces of equal size. The last pieces may be one larger."""
    pieces: list[OffsetRange] = []
    start = whole.start
    for index in range(parts):
        size = (whole.end - start) // (parts - index)
        if size > 0:
            pieces.append(OffsetRange(whole.topic, whole.partition, start, start + size))
        start += size
    return pieces


def rate_limit(
    limit: int,
    start: Mapping[Partition, int],
    latest: Mapping[Partition, int],
    earliest_of_new: Mapping[Partition, int],
) -> Offsets:
    """Returns the end offsets of one trigger that reads ``limit`` offsets in total.

    Each partition gets a share of the limit in proportion to its backlog. A share below one is
    rounded up, so that a small partition also advances. The other shares are rounded so that their
    sum is the limit: otherwise the few missing records would need another micro-batch.

    Args:
        limit: The total number of offsets. The trigger takes more only if more partitions have a
            backlog.
        start: The start of the trigger.
        latest: The current end of the partitions.
        earliest_of_new: The start of partitions that are not in ``start``.

    Returns:
        The end offset of every partition in ``latest``.
    """
    begin = {tp: start.get(tp, earliest_of_new.get(tp, until)) for tp, until in latest.items()}
    backlog = {tp: until - begin[tp] for tp, until in latest.items() if until > begin[tp]}
    total = sum(backlog.values())
    if total == 0:
        return dict(latest)
    if limit >= total:
        return dict(latest)
    # Integer arithmetic: a limit near 2**63 must not overflow (SPARK-26718).
    shares = {tp: divmod(limit * size, total) for tp, size in backlog.items()}
    take = {tp: max(whole, 1) for tp, (whole, _) in shares.items()}
    left = max(limit - sum(take.values()), 0)
    by_remainder = sorted((tp for tp in shares if shares[tp][0]), key=lambda tp: -shares[tp][1])
    for tp in by_remainder[:left]:
        take[tp] += 1
    return {tp: begin[tp] + take[tp] if tp in take else until for tp, until in latest.items()}
