"""The batch reader with the option ``pushFilters``.

It is a class of its own, because PySpark fails the query of a reader that takes filters, while its
own option ``spark.sql.python.filterPushdown.enabled`` is false, which is the default.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from thalweg.spark.offset_reader import OffsetReader
from thalweg.spark.offsets import Offsets
from thalweg.spark.options import SourceOptions
from thalweg.spark.pushdown.filters import Limits, limits_of
from thalweg.spark.reader import BatchReader


class FilteringReader(BatchReader):
    """Reads only what the filters of the query leave."""

    def __init__(self, options: SourceOptions) -> None:
        """Keeps the options, and opens no connection.

        Args:
            options: The checked options of a batch read.
        """
        super().__init__(options)
        self._limits = Limits()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes the filters of a query. It runs on the driver, before :meth:`partitions`.

        Args:
            filters: The filters, of which each row must fulfill all.

        Returns:
            Those that Spark must still apply.
        """
        self._limits, rest = limits_of(filters)
        return rest

    def _narrowed(
        self, reader: OffsetReader, start: Offsets, end: Offsets
    ) -> tuple[Offsets, Offsets]:
        limits = self._limits
        first = {tp: max(at, limits.first) for tp, at in start.items() if limits.keeps(tp)}
        until = {tp: at for tp, at in end.items() if tp in first}
        if limits.end is not None:
            until = {tp: min(at, limits.end) for tp, at in until.items()}
        open_ = {tp for tp, at in until.items() if at > first[tp]}
        if limits.since_ms and open_:
            # The ends are known already. So if a partition has no record since that time, none of
            # the records before its end is so new.
            since = reader.at_time(open_, limits.since_ms)
            # Where offsets are lost, the start stays, so that the task finds the loss: the
            # timestamps of lost records are unknown.
            earliest = reader.earliest(open_)
            first |= {
                tp: max(first[tp], at)
                for tp, at in since.items()
                if first[tp] >= earliest.get(tp, 0)
            }
        return first, until
