"""What an application hears of changes to a consumer's partitions (ConsumerRebalanceListener)."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable
from inspect import isawaitable
from typing import Any

from thalweg.structs import TopicPartition

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "Listener",
    "heard",
    "tell",
]

log = logging.getLogger("thalweg.coordinator")


class ConsumerRebalanceListener(ABC):
    """Called from within `poll`, in the application's thread (`ConsumerRebalanceListener`).

    The callbacks may seek, pause and commit.
    """

    @abstractmethod
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Partitions are about to be given up; the time to commit."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Partitions are this consumer's from now on."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Partitions are someone else's already; too late to commit (KIP-429)."""
        self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener(ABC):
    """The same with coroutines, for asyncio clients."""

    @abstractmethod
    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Partitions are about to be given up; the time to commit."""

    @abstractmethod
    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Partitions are this consumer's from now on."""

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Partitions are someone else's already; too late to commit (KIP-429)."""
        await self.on_partitions_revoked(lost)


Listener = ConsumerRebalanceListener | AsyncConsumerRebalanceListener


def tell(
    listener: Listener | None,
    what: str,
    partitions: Iterable[TopicPartition],
    spawn: Callable[[Awaitable[object]], Any] | None = None,
) -> Any:
    """Calls a listener; what it raises is logged, as the rebalance goes on without it.

    Args:
        listener: Whom to tell, if anybody.
        what: The method's name.
        partitions: What it is told.
        spawn: Runs what a listener of asyncio gives back, as a task.

    Returns:
        That task; None if there is none to wait for.
    """
    if listener is None:
        return None
    # aiokafka's listeners are given sets, kafka-python's lists.
    given = list(partitions) if spawn is None else set(partitions)
    try:
        told = getattr(listener, what)(given)
    except Exception:
        log.exception("%s of %r raised", what, listener)
        return None
    return spawn(told) if spawn is not None and isawaitable(told) else None


async def heard(told: Awaitable[object]) -> None:
    """Awaits what a listener gave back; what it raises is logged."""
    try:
        await told
    except Exception:
        log.exception("a rebalance listener raised")
