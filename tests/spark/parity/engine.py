"""Runs a stream of the source in this process, by the rules of Spark's micro-batch engine.

A query in Spark starts several Python processes, so it takes seconds. This engine makes the same
calls in the same order, in milliseconds, so that a test can try every combination of options. The
tests with a Spark session show that Spark makes these calls.

    start      a new reader, pickled as Spark does
    trigger    latestOffset -> the offset log -> partitions -> read -> the commit log
    restart    a batch without an entry in the commit log runs again, with its logged end
"""

from __future__ import annotations

import json
import pickle
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.conftest import Topics
from thalweg.spark.options import parse_source
from thalweg.spark.stream_reader import StreamReader


class Engine:
    """One query with one source. ``batches`` has the values of each batch, sorted."""

    def __init__(self, topics: Topics, **options: str) -> None:
        given = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers, **options}
        self._options = parse_source(given, "stream")
        self._reader: StreamReader | None = None
        self.ends: list[str] = []  # the offset log
        self.committed = 0  # the number of batches in the commit log
        self.batches: dict[int, list[str]] = {}

    def values(self) -> list[str]:
        """Returns all values read so far, sorted."""
        # A copy, because another thread may run a trigger meanwhile.
        return sorted(value for batch in list(self.batches.values()) for value in batch)

    def start(self, *, available_now: bool = False) -> None:
        """Starts or restarts the query, and repeats a batch that failed."""
        self.stop()
        self._reader = _copy(StreamReader(self._options))
        if available_now:
            self._reader.prepareForTriggerAvailableNow()
        if len(self.ends) > self.committed:
            self._run(self._start_of(self.committed), self.ends[self.committed])

    def trigger(self, *, fail: bool = False, single: bool = False) -> bool:
        """Runs one trigger.

        Args:
            fail: Whether the batch fails after it is logged.
            single: Whether the trigger is ``Once``, which ignores the limits.

        Returns:
            Whether there was a batch.
        """
        start = self._start_of(self.committed)
        limit = ReadAllAvailable() if single else self._running.getDefaultReadLimit()
        end = json.dumps(self._running.latestOffset(json.loads(start), limit))
        if end == start and self.ends:
            return False
        self.ends.append(end)
        if fail:
            self.stop()
        else:
            self._run(start, end)
        return True

    def run(self) -> None:
        """Runs with ``Trigger.AvailableNow``."""
        self.start(available_now=True)
        while self.trigger():
            pass
        self.stop()

    def stop(self) -> None:
        """Ends the query. Its logs stay."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.stop()

    @property
    def _running(self) -> StreamReader:
        assert self._reader is not None
        return self._reader

    def _start_of(self, batch_id: int) -> str:
        return self.ends[batch_id - 1] if batch_id else json.dumps(self._running.initialOffset())

    def _run(self, start: str, end: str) -> None:
        values: list[str] = []
        for part in self._running.partitions(json.loads(start), json.loads(end)):
            for rows in _copy(self._running).read(_copy(part)):
                values += [value.decode() for value in rows.column("value").to_pylist()]
        self.batches[self.committed] = sorted(values)
        self.committed += 1


def _copy(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))
