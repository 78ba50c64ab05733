"""Tuning for Spark's Python workers: processes that run one task after the other."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


@functools.cache
def settle() -> None:
    """Excludes the imported modules of this worker from garbage collection, once per process.

    Spark collects garbage after each task of a worker that it reuses. That takes 30 to 50 ms for
    the objects of pyspark and pyarrow, as long as a small task. Frozen objects are skipped. Outside
    of a task, for example in the user's own process, it does nothing.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
