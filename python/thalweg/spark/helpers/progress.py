"""`ProgressListener`: how far streams are behind their topics, after each micro-batch.

Spark does not ask a Python data source for metrics, so its progress has no lag. But it has the end
of the micro-batch and the end of the topics, and the lag is the difference.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from thalweg.spark.offsets import Offsets, from_json
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
    """

    query: str
    batch: int
    rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    lag: dict[TopicPartition, int]

    @property
    def total_lag(self) -> int:
        """The sum of the lags of all partitions."""
        return sum(self.lag.values())


class ProgressListener(StreamingQueryListener):
    """Reports the progress of every source with Kafka's offsets, also of Spark's own connector.

    spark.streams.addListener(ProgressListener(lambda progress: print(progress.total_lag)))
    """

    def __init__(self, report: Callable[[Progress], None] | None = None) -> None:
        """Takes a function.

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
            )
        )
    return found


def _offsets(text: str | None) -> Offsets | None:
    """Returns the offsets of a source, or None if they are those of something else."""
    try:
        value = json.loads(text or "null")
        return from_json(value) if isinstance(value, dict) else None
    except ValueError:
        return None


def _log(progress: Progress) -> None:
    log.info(
        "query %s: batch %d has read %d rows (%.0f per second), and %d offsets are left",
        progress.query,
        progress.batch,
        progress.rows,
        progress.processed_rows_per_second,
        progress.total_lag,
    )
