"""Rebalance listeners: they tell the application when a consumer's partitions change."""

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable
from inspect import isawaitable
from typing import Protocol, TypeVar

from thalweg.errors import IllegalStateError, WakeupError
from thalweg.structs import TopicPartition

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "Listener",
    "ListenerTask",
    "Spawn",
    "tell",
]

log = logging.getLogger("thalweg.coordinator")

_T = TypeVar("_T")


class ConsumerRebalanceListener(ABC):
    """Base class of rebalance listeners (`consumer.ConsumerRebalanceListener`).

    The consumer calls it in the application's thread, within `poll`, `unsubscribe` and `close`. The
    methods may seek, pause and commit. If a method raises, the consumer logs the error and
    continues.
    """

    @abstractmethod
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Called before the consumer gives up partitions. You can still commit their offsets."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called when new partitions are assigned, before their records are returned."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Called when other members may already own the partitions: do not commit (KIP-429)."""
        self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener(ABC):
    """Base class of rebalance listeners for AIOKafkaConsumer, with coroutines.

    The methods may seek, pause and commit. If a method raises, the consumer logs the error and
    continues.
    """

    @abstractmethod
    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Called before the consumer gives up partitions. You can still commit their offsets."""

    @abstractmethod
    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called when new partitions are assigned, before their records are returned."""

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Called when other members may already own the partitions: do not commit (KIP-429)."""
        await self.on_partitions_revoked(lost)


Listener = ConsumerRebalanceListener | AsyncConsumerRebalanceListener


class ListenerTask(Protocol):
    """The task of an asyncio listener, as far as the driver uses it."""

    def done(self) -> bool:
        """Whether the listener is done."""


# Starts a task for what an asyncio listener returned.
Spawn = Callable[[Awaitable[object]], ListenerTask]


def tell(
    listener: Listener | None,
    what: str,
    partitions: Iterable[TopicPartition],
    spawn: Callable[[Awaitable[object]], _T] | None = None,
    wake: Callable[[], object] | None = None,
) -> _T | None:
    """Calls a method of a listener. Logs an exception, because the rebalance must continue.

    Args:
        listener: The listener, or None.
        what: The method's name.
        partitions: The method's argument.
        spawn: Starts a task for the awaitable that an asyncio listener returns.
        wake: The consumer's `wakeup`. If a wakeup has ended a call of the listener, the poll that
            runs the listener must end, too.

    Returns:
        The result of `spawn`, or None if there is nothing to wait for.
    """
    if listener is None:
        return None
    # aiokafka passes sets to listeners, kafka-python lists.
    given = list(partitions) if spawn is None else set(partitions)
    try:
        told = getattr(listener, what)(given)
    except Exception as error:
        if wake is not None and isinstance(error, WakeupError):
            log.debug("a wakeup ended %s of %r", what, listener)
            with contextlib.suppress(IllegalStateError, ReferenceError):  # closed, or freed
                wake()
        else:
            log.exception("%s of %r raised", what, listener)
        return None
    return spawn(told) if spawn is not None and isawaitable(told) else None
