"""`ProgressListener`: the lag of streams and the offsets they skipped, after each micro-batch.

Spark does not ask a Python data source for metrics. But its progress has offsets and rows:

    end of the topics - end of the micro-batch                     = lag
    end of the micro-batch - start of the micro-batch - its rows   = skipped offsets
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from thalweg.spark.offsets import Offsets, embedded_start, from_json
from thalweg.structs import TopicPartition

log = logging.getLogger("thalweg.spark")


@dataclass(frozen=True)
class Progress:
    """The progress of one source of a query.

    Attributes:
        query: The name of the query, or its ID if it has no name.
        batch: The number of the micro-batch.
        rows: The number of rows that it has read.
        input_rows_per_second: The rate at which rows have arrived.
        processed_rows_per_second: The rate at which Spark has processed them.
        lag: The offsets of each partition that the query has not processed yet. Of a partition
            that is compacted, or that has transactions, they are more than the records.
        skipped: The offsets of the micro-batch that have no row: compacted records, aborted
            records, the markers of transactions, and, with ``failOnDataLoss=false``, records that
            the topic has lost. None if the progress does not have the start of the micro-batch.
            If a query reads the source several times, Spark counts the rows several times.
    """

    query: str
    batch: int
    rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    lag: dict[TopicPartition, int]
    skipped: int | None = None

    @property
    def total_lag(self) -> int:
        """The sum of the lags of all partitions."""
        return sum(self.lag.values())


class ProgressListener(StreamingQueryListener):
    """Reports the progress of every source with Kafka's offsets, including Spark's own.

    spark.streams.addListener(ProgressListener(lambda progress: print(progress.total_lag)))
    """

    def __init__(self, report: Callable[[Progress], None] | None = None) -> None:
        """Reports to a function, or to the log.

        Args:
            report: Is called with the progress of each source after each micro-batch, in a thread
                of Spark. Its exceptions are logged. None: the progress is logged.
        """
        self._report = _log if report is None else report

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Does nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Reports the progress of a micro-batch."""
        for progress in progress_of(event.progress):
            try:
                self._report(progress)
            except Exception:
                log.exception("the function of a ProgressListener failed")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Does nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Does nothing."""


def progress_of(progress: Any) -> list[Progress]:
    """Returns the progress of each source with Kafka's offsets.

    Args:
        progress: Spark's `StreamingQueryProgress`, of a listener or of `query.lastProgress`.
    """
    found = []
    for source in progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is None or latest is None:
            continue
        # A partition that the query does not have yet will be read from its first offset.
        lag = {
            TopicPartition(*tp): max(0, until - end.get(tp, 0))
            for tp, until in sorted(latest.items())
        }
        found.append(
            Progress(
                query=progress.name or str(progress.id),
                batch=progress.batchId,
                rows=source.numInputRows,
                input_rows_per_second=source.inputRowsPerSecond,
                processed_rows_per_second=source.processedRowsPerSecond,
                lag=lag,
                skipped=_skipped(source, end),
            )
        )
    return found


def _skipped(source: Any, end: Offsets) -> int | None:
    start = _offsets(source.startOffset)
    if start is None:  # in batch 0
        start = embedded_start(json.loads(source.endOffset))
    if start is None:
        return None
    # A partition that is new in this micro-batch is read from its first offset.
    offsets = sum(until - start.get(tp, 0) for tp, until in end.items())
    rows: int = source.numInputRows
    return max(0, offsets - rows)


def _offsets(text: str | None) -> Offsets | None:
    """Returns the offsets of a source, or None if they are those of something else."""
    try:
        value = json.loads(text or "null")
        return from_json(value) if isinstance(value, dict) else None
    except ValueError:
        return None


def _log(progress: Progress) -> None:
    log.info(
        "query %s: batch %d has read %d rows (%.0f per second) and skipped %s offsets, and %d"
        " offsets are left",
        progress.query,
        progress.batch,
        progress.rows,
        progress.processed_rows_per_second,
        "an unknown number of" if progress.skipped is None else progress.skipped,
        progress.total_lag,
    )
