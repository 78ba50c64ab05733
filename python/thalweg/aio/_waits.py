"""Runs a call of the driver in a task: what it waits for, the task sleeps for."""

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
    """What the call returns, or raises. Cancelled, it ends what it has begun.

    Args:
        steps: A call of the driver.
        calls: Of the consumer that it is about.
        wait: What it waits for, if it has been run up to there.
    """
    try:
        if wait is None:
            wait = next(steps)
        while True:
            try:
                answer = await _outcome(wait, calls)
            except BaseException as error:  # also a cancellation
                wait = steps.throw(error)
            else:
                wait = steps.send(answer)
    except StopIteration as done:
        result: _T = done.value
        return result


async def _outcome(wait: Wait, calls: "_core.AsyncConsumer[Any, Any]") -> Any:
    if wait.what is None:
        return await asyncio.sleep(wait.left_ms / 1000)
    if isinstance(wait.what, asyncio.Future):  # a listener's
        return await asyncio.wait([wait.what], timeout=wait.left_ms / 1000)
    if isinstance(wait.what, CoreCall):
        return await getattr(calls, wait.what.name)(wait.what.argument, wait.left_ms)
    if isinstance(wait.what, Background):
        return await _finished(wait.what, wait.left_ms)
    return await calls.result(wait.what, wait.left_ms)


async def _finished(what: Background[Any], limit_ms: float) -> Any:
    """What another thread brings."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    what.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), limit_ms / 1000)
    return what.result(0)


def begun(
    steps: Waiting[None], calls: "_core.AsyncConsumer[Any, Any]", then: Callable[[], None]
) -> "asyncio.Task[None]":
    """The call as a task, and what comes after it; what it does before it waits is done at once."""
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
