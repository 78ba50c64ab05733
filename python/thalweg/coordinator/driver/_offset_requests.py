"""Sends OffsetFetch and OffsetCommit to the coordinator. Long ones run in the background."""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from thalweg.coordinator import offsets as wire
from thalweg.coordinator.driver._background import LONG, LongRequest
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["OffsetRequests"]


class OffsetRequests:
    """Sends the requests of one consumer.

    Args:
        consumer: The core's consumer.
        group_id: Its group id.
    """

    def __init__(self, consumer: Any, group_id: str | None) -> None:
        self._consumer = consumer
        self._node = ("coordinator", "group", group_id)
        self._commit_is_sent: threading.Event | None = None  # of the last long commit

    def fetch(self, group: ConsumerGroupMetadata, partitions: Collection[TopicPartition]) -> Any:
        """Asks for committed offsets. For many partitions, the result is that of `wire.fetched`."""

        def submit() -> Any:
            bodies = wire.fetch_bodies(group, partitions)
            return self._submit("OffsetFetch", bodies, wire.FETCH_VERSION_MAX)

        if len(partitions) < LONG:
            return submit()
        return LongRequest(submit, lambda answer: wire.fetched(answer, partitions))

    def commit(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Any:
        """Commits offsets, after all earlier commits were sent."""
        before = self._commit_is_sent
        waits = before is not None and not before.is_set()

        def submit() -> Any:
            body = wire.commit_body(group, offsets)
            if before is not None:
                before.wait()
            return self._submit("OffsetCommit", body, wire.COMMIT_VERSION_MAX)

        if len(offsets) < LONG and not waits:
            return submit()
        self._commit_is_sent = sent = threading.Event()
        return LongRequest(_then(submit, sent.set))

    def _submit(self, api: str, body: Any, max_version: int) -> Any:
        return self._consumer.client.submit(api, body, self._node, max_version=max_version)


def _then(first: Callable[[], Any], after: Callable[[], object]) -> Callable[[], Any]:
    def both() -> Any:
        try:
            return first()
        finally:
            after()

    return both
