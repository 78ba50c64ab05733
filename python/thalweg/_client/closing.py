"""Closes the clients that are still open at exit, within a time limit.

    client created ── watch() ──> open clients of this process ── atexit ──> close, 1 s each
    broker started ── watch_broker() ──────────────────────────── atexit ──> close, after clients

A forked child forgets the clients of its parent, because it must not touch their sockets.
"""

import atexit
import functools
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = ["AT_EXIT_SECONDS", "close_objects", "tell_of_lost", "watch", "watch_broker"]

AT_EXIT_SECONDS: Final = 1.0
log = logging.getLogger("thalweg.closing")
_open: "weakref.WeakKeyDictionary[Any, Callable[[Any], None]]" = weakref.WeakKeyDictionary()
_brokers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def watch(client: Any, close: Callable[[Any], None]) -> None:
    """Calls `close(client)` at exit, unless the client was closed or freed before."""
    _open[client] = close


def watch_broker(broker: Any) -> None:
    """Closes an embedded broker at exit, after the clients."""
    _brokers.add(broker)


def tell_of_lost(producer: Any, records: int) -> None:
    """Warns of records that are lost at exit.

    It uses `warnings`, which also works without a logging setup. The exit status does not change.
    """
    if records:
        warnings.warn(
            f"{producer!r} was not closed: {records} records were not acknowledged within"
            f" {AT_EXIT_SECONDS:g} s after the end of the program and may be lost. Call flush() or"
            " close(), or use a with block",
            RuntimeWarning,
            stacklevel=2,
        )


def close_objects(own: Iterable[Any], logger: logging.Logger) -> None:
    """Calls `close()` of the user's own objects that have it. Logs exceptions."""
    for each in own:
        try:
            if (close := getattr(each, "close", None)) is not None:
                close()
        except Exception:
            logger.exception("close() of %r raised", each)


def _end_quietly(tell: Callable[[Any], object], args: Any) -> None:
    """Hides IllegalStateErrors of daemon threads, which still run when their clients are closed."""
    errors = sys.modules.get("thalweg.errors")
    is_daemon = args.thread is not None and args.thread.daemon
    if not (is_daemon and errors and isinstance(args.exc_value, errors.IllegalStateError)):
        tell(args)


def _close(each: Any, close: Callable[[Any], None]) -> None:
    try:
        close(each)
    except Exception:
        log.exception("closing %r at exit failed", each)


def _close_all() -> None:
    core = sys.modules.get("thalweg._core")
    if _open:
        # Do this before begin_exit(), because after it daemon threads that use a client raise.
        # Keep the current hook: it may be the application's own.
        threading.excepthook = functools.partial(_end_quietly, threading.excepthook)
    if core is not None:
        core.begin_exit()
    for client, close in list(_open.items()):
        if not client.closed:
            _close(client, close)
    for broker in list(_brokers):
        _close(broker, type(broker).close)
    # A thread that runs a callback while the interpreter ends would abort the process. So stop it
    # now, and run its remaining callbacks in this thread.
    if core is not None:
        left = core.stop_threads(AT_EXIT_SECONDS)
        if left:
            warnings.warn(
                f"{left} callbacks of records did not run within {AT_EXIT_SECONDS:g} s after the"
                " end of the program. Call close(), which waits for callbacks, or use a with block",
                RuntimeWarning,
                stacklevel=2,
            )


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)
    os.register_at_fork(after_in_child=_brokers.clear)
