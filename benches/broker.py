"""The broker of a benchmark: a real Kafka 4.3 whose log does not wait for a disk."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka.cluster import RealKafka
from thalweg import _core

MEMORY = Path("/dev/shm")  # Linux's file system in memory
FREE_BYTES_MIN = 12 << 30


@contextmanager
def bench_broker(*, secure: bool = False) -> Iterator[RealKafka]:
    """Starts one node with 1.5 GB of heap. Warns if thalweg is not the build to measure.

    Its log is in memory if there is enough. A disk writes back at irregular times, and would affect
    the figures of the client that runs at that moment.
    """
    if not _core.is_optimized:
        print(
            "WARNING: thalweg was built for tests, so its figures mean nothing. "
            "Run `make build-release` first.",
            file=sys.stderr,
        )
    options = {"heap": "1500m", "jvm_options": (), "parent": _in_memory(), "secure": secure}
    with RealKafka("4.3", **options) as broker:  # type: ignore[arg-type]
        yield broker


def _in_memory() -> Path | None:
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < FREE_BYTES_MIN:
        return None
    return MEMORY
