"""Clients that are still open when the interpreter ends are closed, within a limit.

    client made ── watch() ──> open clients of this process ── atexit ──> close, 1 s each

A forked child forgets its parent's clients: it must not touch their sockets.
"""

import atexit
import itertools
import logging
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["next_number", "watch"]

AT_EXIT_SECONDS: Final = 1.0
log = logging.getLogger(__name__)
_numbers: dict[str, "itertools.count[int]"] = {}
_open: "weakref.WeakKeyDictionary[Any, Callable[[Any], None]]" = weakref.WeakKeyDictionary()


def next_number(kind: str) -> int:
    """1, 2, 3 ... for the names that clients without a client_id get."""
    return next(_numbers.setdefault(kind, itertools.count(1)))


def watch(client: Any, close: Callable[[Any], None]) -> None:
    """Has `close(client)` called at exit, unless the client is gone or closed by then."""
    _open[client] = close


def _close_all() -> None:
    for client, close in list(_open.items()):
        if client.closed:
            continue
        try:
            close(client)
        except Exception:
            log.exception("closing %r at exit failed", client)
    # A callback thread that comes back for the interpreter's lock while the interpreter ends
    # would take the process down: callbacks that are due run now, and then it ends.
    core = sys.modules.get("thalweg._core")
    if core is not None:
        core.stop_threads(AT_EXIT_SECONDS)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)
