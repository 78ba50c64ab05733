"""Runs a call of the driver in a task, which sleeps while the call waits."""

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from thalweg import _core
from thalweg.coordinator.driver import Background, CoreCall, Wait, Waiting

__all__ = ["awaited", "begun"]

_T = TypeVar("_T")


async def awaited(
    steps: Waiting[_T], calls: "_core.AsyncConsumer[Any, Any]", wait: Wait | None = None
) -> _T:
    """Runs a call of the driver to its end, and returns or raises its result.

    A cancellation is thrown into the call, so that it can clean up.

    Args:
        steps: A call of the driver.
        calls: The calls of the same consumer.
        wait: The first wait of the call, if the call has already run up to it.
    """
    try:
        if wait is None:
            wait = next(steps)
        while True:
            try:
                found = await _outcome(wait, calls)
            except BaseException as error:  # also a cancellation
                wait = steps.throw(error)
            else:
                wait = steps.send(found)
    except StopIteration as done:
        result: _T = done.value
        return result


async def _outcome(wait: Wait, calls: "_core.AsyncConsumer[Any, Any]") -> Any:
    if isinstance(wait.task, asyncio.Future):  # the task of a rebalance listener
        return await asyncio.wait([wait.task], timeout=wait.left_ms / 1000)
    if wait.what is None:
        return await asyncio.sleep(wait.left_ms / 1000)
    if isinstance(wait.what, CoreCall):
        return await getattr(calls, wait.what.name)(wait.what.argument, wait.left_ms)
    if isinstance(wait.what, Background):
        return await _finished(wait.what, wait.left_ms)
    request: Any = wait.what  # the core's own
    return await calls.result(request, wait.left_ms)


async def _finished(what: Background[Any], limit_ms: float) -> Any:
    """Waits for work that another thread does, and returns its result."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(done.set)

    what.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), limit_ms / 1000)
    return what.result(0)


def begun(
    steps: Waiting[None], calls: "_core.AsyncConsumer[Any, Any]", then: Callable[[], None]
) -> "asyncio.Task[None]":
    """Starts a call of the driver, and calls `then` when it has ended.

    The call runs at once up to its first wait. The returned task runs the rest.
    """
    try:
        first = next(steps, None)
    finally:
        ended = inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED
        if ended:
            then()

    async def rest() -> None:
        if ended:
            return
        try:
            await awaited(steps, calls, first)
        finally:
            then()

    return asyncio.get_running_loop().create_task(rest())
