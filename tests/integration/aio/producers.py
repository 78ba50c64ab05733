"""Makes asyncio producers, and loops and clocks to watch them with."""

from __future__ import annotations

import asyncio
from typing import Any

from thalweg.aio import AIOKafkaProducer

MEMORY = 1_000_000


def made(broker: Any, **options: Any) -> AIOKafkaProducer[Any, Any]:
    return AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options)


class Ticks:
    """Counts the turns of the loop during a block.

    If the block waits and the loop is not blocked, there is at least one, however slow the machine.
    """

    async def __aenter__(self) -> Ticks:
        self.count = 0
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(0)  # its timer is older than those of the block
        return self

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.005)
            self.count += 1

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()


class WithoutReaders(asyncio.SelectorEventLoop):
    """Like Windows' proactor loop, it cannot watch the application's descriptors."""

    wakes = 0

    def add_reader(self, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError

    def remove_reader(self, *args: Any) -> bool:
        raise NotImplementedError

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        self.wakes += 1
        return super().call_soon_threadsafe(*args, **kwargs)
