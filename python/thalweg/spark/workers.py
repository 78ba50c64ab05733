"""Spark's Python workers, which run one task after the other in one process."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


@functools.cache
def settle() -> None:
    """Keeps this worker's modules out of its garbage collections; once, in executors only.

    Spark collects garbage after each task of a worker that it will use again: 30 to 50 ms over the
    objects that the imports of pyspark and pyarrow made, as long as a small task itself takes.
    Frozen, they are skipped. In the user's own process (the driver) nothing is touched.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
