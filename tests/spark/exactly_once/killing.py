"""A sink that kills its own process at a given step, once. Spark's workers import it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql.types import StructType

from thalweg.spark import writer
from thalweg.spark.exactly_once import cluster, driver, tasks
from thalweg.spark.exactly_once.cluster import Cluster
from thalweg.spark.exactly_once.stream_writer import TransactionalStreamWriter
from thalweg.spark.source import ThalwegDataSource

# In the order in which they happen.
STEPS = (
    "plan",
    "task before prepare",
    "task after prepare",
    "before check",
    "before decide",
    "within decide",
    "after decide",
    "within end",
    "after end",
    "after sweep",
)


class Killer:
    """Kills this process at one step, unless the file exists that it then creates."""

    def __init__(self, step: str, marker: str) -> None:
        self.step, self.marker = step, Path(marker)

    def at(self, step: str) -> None:
        """Says that a step is reached."""
        if step == self.step and not self.marker.exists():
            self.marker.write_text(step)
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, method: Callable[..., Any], before: str, after: str) -> Callable[..., Any]:
        """Returns the method with a step before and after each call."""

        def call(*given: Any, **named: Any) -> Any:
            self.at(before)
            found = method(*given, **named)
            self.at(after)
            return found

        return call


class KillingWriter(TransactionalStreamWriter):
    """The writer with its killer."""

    killer: Killer

    def write(self, iterator: Any) -> Any:
        """Writes a task."""
        write = self.killer.around(tasks.write_task, "", "task after prepare")
        send = self.killer.around(writer.send_rows, "", "task before prepare")
        with (
            mock.patch.object(tasks, "write_task", write),
            mock.patch.object(tasks, "send_rows", send),
        ):
            return super().write(iterator)

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Commits a batch."""
        ends = 0

        def end(*given: Any, **named: Any) -> Any:
            nonlocal ends
            answer = original(*given, **named)
            ends += 1
            if ends == 2:  # the first one ends the driver's own transaction
                self.killer.at("within end")
            return answer

        original = Cluster._end
        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(Cluster, "_end", end))
            patches.enter_context(mock.patch.object(cluster, "_ENDS_MAX", 1))
            for owner, name, before, after in (
                (Cluster, "describe", "before check", ""),
                (Cluster, "decide", "before decide", "after decide"),
                (Cluster, "_store", "", "within decide"),
                (driver, "sweep", "after end", "after sweep"),
            ):
                call = self.killer.around(getattr(owner, name), before, after)
                patches.enter_context(mock.patch.object(owner, name, call))
            super().commit(messages, batchId)


class KillingDataSource(ThalwegDataSource):
    """``thalweg`` with the options ``step`` and ``marker``."""

    def __init__(self, options: Any) -> None:
        self.killer = Killer(options.pop("step", ""), options.pop("marker", "/none"))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``.format()``."""
        return "thalweg-killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Creates a writer that dies."""
        self.killer.at("plan")
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = KillingWriter
        writer.killer = self.killer  # type: ignore[attr-defined]
        return writer
