"""Sends the log events of the native core to Python's `logging`.

    Rust event ── level checked in Rust ──> bounded queue ──> callback thread ──> emit()

The loggers of the core are `thalweg.producer`, `.consumer` and `.network`. docs/configuration.md
lists all loggers. `thalweg` has a NullHandler. The core reads the levels when a client is created.
If you change a level while clients run, call `refresh()`.
"""

import logging
from typing import Final

__all__ = ["NATIVE_LOGGERS", "callback_failed", "emit", "refresh", "undelivered"]

NATIVE_LOGGERS: Final = ("producer", "consumer", "network")

logging.getLogger("thalweg").addHandler(logging.NullHandler())
_callbacks = logging.getLogger("thalweg.callbacks")


def emit(logger: str, level: int, message: str) -> None:
    """Logs an event. The core's callback thread calls it for each event that passes its level."""
    logging.getLogger(f"thalweg.{logger}").log(level, "%s", message)


def callback_failed(what: str, error: BaseException) -> None:
    """Logs that a callback of the application raised. The core calls it, then runs the others."""
    _callbacks.error("%s raised", what, exc_info=error)


def undelivered(error: BaseException) -> None:
    """Logs that a result cannot reach its asyncio future, because the loop is closed."""
    _callbacks.debug("a result was not delivered: %s", error)


def refresh() -> None:
    """Passes the levels of the loggers to the native core."""
    from thalweg import _core

    for name in NATIVE_LOGGERS:
        _core.set_log_level(name, logging.getLogger(f"thalweg.{name}").getEffectiveLevel())
