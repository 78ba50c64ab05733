"""One queue of completions for each event loop, shared by all clients started in it.

    attach(loop) ──> Completions, watched by loop.add_reader ── last detach() ──> not watched
                         └─ if the loop cannot: one call_soon_threadsafe per drain (_Notifier)

The references to loops are weak: when a loop is freed, so are its completions.
"""

import asyncio
import contextlib
import logging
import math
import os
import weakref
from asyncio import AbstractEventLoop

from thalweg import _core
from thalweg._core import Completions

__all__ = ["attach", "callbacks_run", "detach"]

log = logging.getLogger("thalweg.producer")
_by_loop: "weakref.WeakKeyDictionary[AbstractEventLoop, weakref.ref[Completions]]" = (
    weakref.WeakKeyDictionary()
)
_users: "weakref.WeakKeyDictionary[Completions, int]" = weakref.WeakKeyDictionary()


class _Notifier:
    """Makes a loop that cannot watch file descriptors drain its completions.

    A thread of the core calls it once for all completions since the last drain.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self.completions: weakref.ref[Completions] | None = None

    def __call__(self) -> None:
        loop = self._loop()
        completions = None if self.completions is None else self.completions()
        if loop is None or completions is None:
            return
        try:
            loop.call_soon_threadsafe(completions.drain)
        except RuntimeError as closed:
            log.debug("%d results were not delivered: %s", len(completions), closed)


def _made_for(loop: AbstractEventLoop) -> Completions:
    completions = Completions(loop)
    try:
        loop.add_reader(completions.fileno(), completions.drain)
    except (NotImplementedError, OSError):
        notifier = _Notifier(loop)
        completions = Completions(loop, notifier)
        notifier.completions = weakref.ref(completions)
    return completions


def attach(loop: AbstractEventLoop) -> Completions:
    """Returns the completions of a running loop. The thread of the loop calls it."""
    reference = _by_loop.get(loop)
    completions = None if reference is None else reference()
    if completions is None:
        completions = _made_for(loop)
        _by_loop[loop] = weakref.ref(completions)
    _users[completions] = _users.get(completions, 0) + 1
    return completions


def detach(loop: AbstractEventLoop, completions: Completions) -> None:
    """Undoes one `attach`. After the last one, the loop no longer watches the completions."""
    left = _users[completions] = _users.get(completions, 1) - 1
    # While a task still waits, for example for a flush, the loop must keep watching. The next
    # client of this loop uses the same completions.
    if left > 0 or len(completions) > 0 or loop.is_closed():
        return
    _by_loop.pop(loop, None)
    try:
        loop.remove_reader(completions.fileno())
    except (NotImplementedError, OSError):
        log.debug("no reader to remove")


if hasattr(os, "register_at_fork"):
    # A child's loop must not share a descriptor with its parent's.
    os.register_at_fork(after_in_child=_by_loop.clear)


async def callbacks_run(loop: AbstractEventLoop, limit: float) -> None:
    """Waits until all callbacks that are due have run, at most `limit` seconds.

    They run in the callback thread. Meanwhile, other tasks run.
    """
    have_run = asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(have_run.set)

    _core.call_after_callbacks(tell)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(have_run.wait(), None if math.isinf(limit) else limit)
