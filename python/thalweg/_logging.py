"""Python's `logging` for what happens in the native core.

    Rust event ── level checked in Rust ──> bounded queue ──> callback thread ──> emit()

Loggers are `thalweg.producer`, `.consumer`, `.network`, `.coordinator`, `.spark`; `thalweg` has a
NullHandler. The core learns their levels when a client is made; call `refresh()` after changing
one while clients run.
"""

import logging
from typing import Final

__all__ = ["NATIVE_LOGGERS", "callback_failed", "emit", "refresh", "undelivered"]

NATIVE_LOGGERS: Final = ("producer", "consumer", "network")

logging.getLogger("thalweg").addHandler(logging.NullHandler())


def emit(logger: str, level: int, message: str) -> None:
    """Called by the core's callback thread for each event that passed its level."""
    logging.getLogger(f"thalweg.{logger}").log(level, "%s", message)


def callback_failed(what: str, error: BaseException) -> None:
    """Called by the core when a callback of the application raised; its other callbacks run."""
    logging.getLogger("thalweg.producer").error("%s raised", what, exc_info=error)


def undelivered(error: BaseException) -> None:
    """Called by the core when an outcome cannot reach its asyncio future: the loop is closed."""
    logging.getLogger("thalweg.producer").debug("an outcome was not delivered: %s", error)


def refresh() -> None:
    """Tells the native core the levels of its loggers."""
    from thalweg import _core

    for name in NATIVE_LOGGERS:
        _core.set_log_level(name, logging.getLogger(f"thalweg.{name}").getEffectiveLevel())
