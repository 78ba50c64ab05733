"""Shows warnings of thalweg in the logs of Spark's Python workers.

    thalweg warns ──> a handler of the application, or of Spark ──> it decides
                  └─> there is none ─────────────────────────────> standard error of the worker

Spark copies the standard error of a worker to that of its executor, or of the driver. Python would
write warnings there, too, but the clients of thalweg have a `NullHandler`, which prevents this.
Without this module, a query with ``failOnDataLoss=false`` would skip records silently.

Processes of the user remain unchanged: they configure `logging` themselves.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Final

_LOGGER: Final = "thalweg"
# Spark sets one of these in the environment of each worker: the secret or the path of its socket.
_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"


class _StandardError(logging.Handler):
    """Writes warnings to standard error, unless another handler has them."""

    def emit(self, record: logging.LogRecord) -> None:
        if all(_writes_nothing(each) for each in _handlers(record.name)):
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - it is the log


def show_warnings() -> None:
    """Writes warnings to standard error, if this process is a Python worker of Spark."""
    if not any(name.startswith(_OF_WORKERS) for name in os.environ):
        return
    logger = logging.getLogger(_LOGGER)
    if any(isinstance(each, _StandardError) for each in logger.handlers):
        return
    handler = _StandardError(logging.WARNING)
    # As Spark writes its own.
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form, "%y/%m/%d %H:%M:%S"))
    logger.addHandler(handler)


def _handlers(name: str) -> Iterator[logging.Handler]:
    """Yields the handlers that get the records of a logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _writes_nothing(handler: logging.Handler) -> bool:
    return isinstance(handler, (logging.NullHandler, _StandardError))
