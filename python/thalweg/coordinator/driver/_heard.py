"""What a listener of asyncio gave back, awaited in a task."""

import logging
from collections.abc import Awaitable

__all__ = ["heard"]

log = logging.getLogger("thalweg.coordinator")


async def heard(told: Awaitable[object]) -> None:
    """Awaits what a listener gave back; what it raises is logged."""
    import asyncio

    try:
        await told
    except Exception:
        log.exception("a rebalance listener raised")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # A task that the listener has cancelled and awaited, not the listener's own.
        log.exception("a rebalance listener raised")
