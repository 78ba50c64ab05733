"""Splits offsets into the ranges of the tasks, and limits the offsets of one trigger.

It only computes with ``{(topic, partition): offset}``, without a broker or Spark. The ranges are
those of ``KafkaOffsetRangeCalculator`` in Spark's connector. The limits are also shared by backlog,
but rounded differently (see :func:`rate_limit`). So a job that changes to this source keeps almost
the same batch sizes. It also keeps its number of tasks, except that many small ranges share a task:
the connector starts one for each of them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from thalweg.range_reader import OffsetRange
from thalweg.spark.offsets import Offsets, Partition

# Small ranges share tasks of about this many offsets, if there are more ranges than this number of
# tasks. A cluster has more cores than that only if it also has much to read.
_TASK_OFFSETS = 100_000
_TASKS_MIN = 32


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


def tasks(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    max_partitions: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Returns the ranges of each task between two sets of offsets.

    A task of Spark costs as much time as reading tens of thousands of records. So if there are many
    ranges, small ones share a task. There remain at least 32 tasks, or ``min_partitions`` if that
    is more. With ``max_records_per_partition``, and if ranges are split, each has its own task.

    Args:
        start: As in :func:`plan`.
        end: As in :func:`plan`.
        min_partitions: The wanted minimum number of tasks.
        max_records_per_partition: The maximum number of offsets of a task.
        max_partitions: The maximum number of tasks. Cannot be combined with the two above.
    """
    ranges = plan(start, end, min_partitions, max_records_per_partition)
    if max_partitions is not None:
        return _shared(ranges, min(max_partitions, len(ranges)))
    least = max(min_partitions or 0, _TASKS_MIN)
    small = [each for each in ranges if each.size < _TASK_OFFSETS]
    is_split = len({(each.topic, each.partition) for each in ranges}) < len(ranges)
    if is_split or max_records_per_partition is not None or len(ranges) <= least or not small:
        return [(each,) for each in ranges]
    large = [(each,) for each in ranges if each.size >= _TASK_OFFSETS]
    number = max(math.ceil(sum(each.size for each in small) / _TASK_OFFSETS), least - len(large), 1)
    return large + _shared(small, number)


def _shared(ranges: list[OffsetRange], number: int) -> list[tuple[OffsetRange, ...]]:
    """Distributes ranges over tasks, so that each gets about the same number of offsets."""
    shares: list[list[OffsetRange]] = [[] for _ in range(number)]
    by_size = [(0, place) for place in range(number)]
    for each in sorted(ranges, key=lambda one: -one.size):
        size, place = heapq.heappop(by_size)
        shares[place].append(each)
        heapq.heappush(by_size, (size + each.size, place))
    return [tuple(sorted(share)) for share in shares if share]


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
        limit: The total number of offsets. The trigger takes more only if shares below one are
            rounded up.
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
