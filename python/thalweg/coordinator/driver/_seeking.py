"""Moves the positions of a consumer to its committed offsets (`seek_to_committed`).

    committed ──> seek
    none      ──> auto_offset_reset ──> seek_to
                                   └──> the first record since a time ──> seek

The driver's `fetch` looks up the committed offsets before. Both APIs run this part.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from thalweg._client import consuming as _consuming
from thalweg.coordinator.driver._clock import now_ms
from thalweg.coordinator.driver._waits import CoreCall, Wait, Waiting
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Seeking"]


class Seeking:
    """One call of `seek_to_committed`.

    Args:
        consumer: The core's consumer, or a subclass.
        config: Its options.
        seek: The `seek` of the consumer, with its checks.
        is_eager: Whether to wait for positions that must be looked up, as in aiokafka.
    """

    def __init__(
        self,
        consumer: Any,
        config: Mapping[str, Any],
        seek: Callable[[TopicPartition, int | OffsetAndMetadata], None],
        *,
        is_eager: bool,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._seek = seek
        self._is_eager = is_eager

    def to(self, found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> Waiting[None]:
        """Seeks to the committed offsets, and before that, applies the policy where none exist."""
        missing = [where for where, at in found.items() if at is None]
        if missing:
            yield from self._by_policy(missing)
        for where, at in found.items():
            if at is not None:
                self._seek(where, at)

    def _by_policy(self, partitions: list[TopicPartition]) -> Waiting[None]:
        kind = _consuming.reset_kind(self._config, partitions)
        if kind != "by_duration":
            yield from self._seek_to(partitions, kind)
            return
        since_ms = _consuming.reset_since_ms(self._config)
        targets = _consuming.time_targets(dict.fromkeys(partitions, since_ms))
        rows = yield self._call("list_offsets", targets)
        for where, at in _consuming.times_of(rows).items():
            if at is None:
                yield from self._seek_to([where], "latest")
            else:
                self._seek(where, at.offset)

    def _seek_to(
        self, partitions: list[TopicPartition], where: Literal["earliest", "latest"]
    ) -> Waiting[None]:
        self._consumer.seek_to(partitions, where)
        if self._is_eager:
            for each in partitions:
                _consuming.check_assigned(self._consumer, each)
                yield self._call("position", each)

    def _call(self, name: Literal["list_offsets", "position"], argument: Any) -> Wait:
        until_ms = now_ms() + float(self._config["default_api_timeout_ms"])
        return Wait(CoreCall(self._consumer, name, argument), until_ms)
