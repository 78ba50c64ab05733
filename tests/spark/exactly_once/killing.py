"""A sink that kills something at a given step, once. Spark's workers import it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql.types import StructType

from tests.spark.exactly_once.processes import kill_executor
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


# Longer than a batch with a speculative attempt.
PAUSE_S = 150


class Killer:
    """Strikes at one step, unless the file exists that it then creates.

    Args:
        step: One of `STEPS`.
        marker: The path of the file.
        how: "kill" kills this process. "executor" kills an executor: that of the task, or any one.
            "pause" lets this attempt at a task hang, until Spark kills it.
    """

    def __init__(self, step: str, marker: str, how: str) -> None:
        self.step, self.marker, self.how = step, Path(marker), how

    def at(self, step: str) -> None:
        """Says that a step is reached."""
        if step != self.step:
            return
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.how == "executor":
            kill_executor(self.marker.parent)
        else:
            time.sleep(PAUSE_S)

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
            result = original(*given, **named)
            ends += 1
            if ends == 2:  # the first one ends the driver's own transaction
                self.killer.at("within end")
            return result

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
    """``thalweg`` with the options of `Killer`: ``step``, ``marker`` and ``how``."""

    def __init__(self, options: Any) -> None:
        step, marker = options.pop("step", ""), options.pop("marker", "/none")
        self.killer = Killer(step, marker, options.pop("how", "kill"))
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
