"""Ranges of offsets: what one task reads, and how much one trigger takes.

Pure arithmetic over ``{(topic, partition): offset}``; no broker, no Spark. The splits are those of
the Kafka connector's ``KafkaOffsetRangeCalculator`` and the shares those of its rate limit, so
that a job keeps its number of tasks and its batch sizes when it moves over.
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
        """Count of offsets; gaps of compaction and transactions make records fewer."""
        return self.end - self.start


def plan(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """Ranges to read between two sets of offsets, empty ones left out.

    Args:
        start: First offset of each partition.
        end: Offset after the last of each partition; one that ``start`` lacks is not read.
        min_partitions: Wanted number of ranges at least; large ranges are split.
        max_records_per_partition: Offsets a range may hold at most.

    Returns:
        Ranges in the order of topic, partition, offset.
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
    """Splits large ranges in proportion; a range below its fair share stays whole (SPARK-36576).

    The ranges that stay whole leave the proportion, so that they do not take parts from the rest.
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
    """A range's share of the wanted parts, halves rounded up as Java does, at least one."""
    return max(1, math.floor(size / total * wanted + 0.5))


def split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cuts a range into even pieces; the last takes the rounding."""
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
    """End offsets of one trigger that takes ``limit`` offsets in all.

    Each partition gets the share of the limit that its backlog has of the whole backlog. A share
    below one is rounded up, so that a small partition beside a large one still advances; others are
    rounded so that the sum is the limit: a trigger that falls short by a few records leaves a whole
    micro-batch for them.

    Args:
        limit: Offsets to take in all; more only if there are more partitions with a backlog.
        start: Where the trigger starts.
        latest: Where the partitions end now.
        earliest_of_new: Start of the partitions that ``start`` does not know yet.

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
    # Whole-number arithmetic: a limit near 2**63 must not overflow (SPARK-26718).
    shares = {tp: divmod(limit * size, total) for tp, size in backlog.items()}
    take = {tp: max(whole, 1) for tp, (whole, _) in shares.items()}
    left = max(limit - sum(take.values()), 0)
    by_remainder = sorted((tp for tp in shares if shares[tp][0]), key=lambda tp: -shares[tp][1])
    for tp in by_remainder[:left]:
        take[tp] += 1
    return {tp: begin[tp] + take[tp] if tp in take else until for tp, until in latest.items()}
