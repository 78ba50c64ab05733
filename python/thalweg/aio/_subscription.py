"""What an AIOKafkaConsumer reads: assignments and subscriptions.

    subscribe(), assign() ─┬─ not started: at the start ─────────────┐
                           ├─ leaving the group: when it has left ───┼─> the driver
                           └─ otherwise: now ────────────────────────┘

Of several calls that wait for the start or for the end of leaving, only the last one counts.
"""

import asyncio
import functools
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

from thalweg._client import consuming
from thalweg._client.arguments import partitions_given, shown
from thalweg.aio._consumer_offsets import ConsumerOffsets
from thalweg.aio._waits import begun
from thalweg.coordinator.listener import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.structs import TopicPartition

__all__ = ["ConsumerSubscription"]

log = logging.getLogger("thalweg.consumer")


class _Asked(NamedTuple):
    """A `subscribe` or `assign` that cannot begin yet, with its arguments."""

    begin: Callable[[], None]
    topics: Sequence[str] = ()
    partitions: Sequence[TopicPartition] = ()


class _NothingToWaitFor:
    """The result of an `unsubscribe` that must not wait. Unlike a coroutine, no one must await it.

    Before the start, there is nothing to leave. In a rebalance listener, the wait would never end:
    the consumer leaves after the listener has returned.
    """

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class ConsumerSubscription(ConsumerOffsets):
    """The calls that say what to read. `AIOKafkaConsumer` sets the attributes."""

    _begin: _Asked | None
    _is_leaving: bool
    _leaving: asyncio.Task[None] | None
    _tasks: set[asyncio.Task[None]]

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others. You may call it before `start`.

        Args:
            partitions: The TopicPartitions. An empty list stops reading, as `unsubscribe` does.

        Raises:
            IllegalStateError: If the consumer is subscribed to topics.
            TypeError: If `partitions` is not a list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If a topic name is not valid.
        """
        given = partitions_given(partitions)
        self._now_or_later(_Asked(lambda: self._driver.assign(given), partitions=given))

    def subscribe(
        self,
        topics: Iterable[str] | None = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribes to topics, like `KafkaConsumer.subscribe`. You may call it before `start`.

        Args:
            topics: Topic names.
            pattern: A regular expression that must match at the start of a topic name. Or a
                SubscriptionPattern, which the broker matches against complete names (KIP-848).
            listener: An AsyncConsumerRebalanceListener, or a ConsumerRebalanceListener whose
                methods may be coroutines. While one of them runs, the consumer returns no records.

        Raises:
            IllegalStateError: If `assign` is in use, or both topics and pattern are given.
            ValueError: If neither topics nor pattern is given.
            TypeError: If topics, pattern or listener has a wrong type.
            InvalidTopicError: If a topic name is not valid.
            UnsupportedOperationError: If pattern is a SubscriptionPattern, and the consumer has no
                group_id or does not use group_protocol='consumer'. If you call `subscribe` before
                `start`, `start` raises this error.
        """
        names, pattern = consuming.subscription_given(topics, pattern)
        kinds = AsyncConsumerRebalanceListener, ConsumerRebalanceListener
        if listener is not None and not isinstance(listener, kinds):
            raise TypeError(
                f"listener must be an AsyncConsumerRebalanceListener, got {shown(listener)}"
            )
        begin = functools.partial(self._driver.subscribe, names, pattern, listener)
        self._now_or_later(_Asked(begin, topics=names))

    def _now_or_later(self, asked: _Asked) -> None:
        """Begins now; not started yet: at the start; leaving the group: when it has left."""
        if not self._started:
            self._begin = asked
            return
        self._check_running()
        if self._is_leaving:
            self._begin = asked
        else:
            asked.begin()

    def unsubscribe(self) -> Awaitable[None]:
        """Stops reading and leaves the group. With auto-commit it commits first.

        Returns:
            An awaitable that ends when the consumer has left. You need not await it. In a coroutine
            of this consumer's rebalance listener it ends at once, and the consumer leaves after the
            listener has returned.
        """
        self._begin = None
        if not self._started:
            return _NothingToWaitFor()
        self._check_running()
        self._check_loop()
        if self._leaving is None or not self._is_leaving:
            self._is_leaving = True
            self._leaving = begun(self._driver.unsubscribe(), self._calls, self._left)
        if asyncio.current_task() in self._tasks:
            return _NothingToWaitFor()
        return asyncio.shield(self._leaving)

    def _left(self) -> None:
        """Begins the call that waited for the end of leaving, before any other task runs."""
        self._is_leaving = False
        asked, self._begin = self._begin, None
        if asked is not None:
            asked.begin()

    def subscription(self) -> set[str]:
        """Returns the subscribed topics, or the topics that match the pattern.

        Before `start`, it returns the topics that you have given to `subscribe`. Without a
        subscription, the set is empty, as in aiokafka. (`KafkaConsumer.subscription` returns None.)
        """
        if not self._started:
            return set() if self._begin is None else set(self._begin.topics)
        return self._driver.subscription() or set()

    def assignment(self) -> set[TopicPartition]:
        """Returns the assigned partitions. Before `start`: the partitions given to `assign`."""
        if not self._started:
            return set() if self._begin is None else set(self._begin.partitions)
        return self._consumer.assignment()

    async def _begun(self) -> None:
        """Begins the `subscribe` or `assign` that was called before the start."""
        asked, self._begin = self._begin, None
        if asked is None:
            return
        asked.begin()
        limit = self.config["default_api_timeout_ms"]
        if not await self._calls.until(self._driver.has_partitions, limit):
            log.warning("%r: no partitions were assigned within %d ms", self, limit)
