"""Looks up committed offsets, and moves the positions of a consumer there.

    look_up() ──> OffsetFetch for partitions without a position ──> set_committed
    fetch() ────> OffsetFetch, for `committed` and `seek_to_committed`
    Seeking ────> committed: seek
              └─> none: auto_offset_reset ──> seek_to, or the first record since a time ──> seek

`look_up` never waits. The other two are generators of _waits.py.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from thalweg._client import consuming as _consuming
from thalweg.coordinator import offsets as wire
from thalweg.coordinator.driver._marks import Marks
from thalweg.coordinator.driver._native import Answer, ConsumerCore, Request
from thalweg.coordinator.driver._offset_requests import (
    STALE_MEMBER,
    GroupMember,
    MovedOnError,
    OffsetRequests,
)
from thalweg.coordinator.driver._rights import explained
from thalweg.coordinator.driver._waits import CoreCall, Wait, Waiting, now_ms, retry_backoff
from thalweg.errors import (
    AuthorizationError,
    BrokerResponseError,
    RetriableError,
    StaleMemberEpochError,
)
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommittedOffsets", "Seeking"]

log = logging.getLogger("thalweg.coordinator")


class CommittedOffsets:
    """Looks up the committed offsets of a consumer's group.

    Args:
        consumer: The core's consumer.
        config: Its options.
        member: Its membership.
        requests: Sends its requests.
        marks: Its marked records. They begin at the committed offsets.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: Mapping[str, Any],
        member: GroupMember,
        requests: OffsetRequests,
        marks: Marks,
    ) -> None:
        self._consumer = consumer
        self._member = member
        self._requests = requests
        self._marks = marks
        self._has_group = config["group_id"] is not None
        # The request for new partitions, and these partitions.
        self._request: tuple[Request[Answer | wire.Fetched], list[TopicPartition]] | None = None
        self._due_ms = 0.0
        self._backoff = retry_backoff(config)

    def look_up(self) -> float | None:
        """Looks up the offsets of partitions that wait for them.

        Returns:
            The time of the next attempt, or None.

        Raises:
            KafkaError: A permanent error of the group, or of some partitions. The offsets of the
                other partitions are set. A later call tries again.
        """
        if not self._has_group:
            return None
        if self._request is None:
            waiting = self._consumer._awaiting_committed()
            if not waiting:
                return None
            if now_ms() < self._due_ms:
                return self._due_ms
            request = self._requests.fetch(waiting)
            self._request = request, waiting
            request.add_done_callback(self._member.reenter)
        request, waiting = self._request
        if not request.is_done:
            return None
        self._request = None
        try:
            with self._requests.noting_a_move():
                offsets, errors = _read(request.result(0), waiting)
                found = {where: at for where, at in offsets.items() if where not in errors}
                if found:
                    self._marks.begin_at(found)
                    self._consumer._set_committed(found)
                _raise_first(errors)
        except (RetriableError, *STALE_MEMBER) as error:
            # A stale member soon gets its new epoch, and the next attempt uses it.
            log.debug("could not fetch committed offsets: %s; trying again", error)
            self._due_ms = now_ms() + self._backoff.failed()
            return self._due_ms
        except AuthorizationError as error:
            self._due_ms = now_ms() + self._backoff.failed()
            client = self._consumer._core_client
            # A right to read includes the right to see committed offsets.
            raise explained(client, error, "Fetch", self._requests.group_id()) from error
        self._backoff.reset()
        return self.look_up()  # of partitions that were assigned meanwhile

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Ignores the answer about partitions whose assignment has ended: it may be old."""
        if self._request is not None and not set(partitions).isdisjoint(self._request[1]):
            self._request = None

    def fetch(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Looks up committed offsets. It waits and retries within the limit."""
        self._requests.group_id()

        def once(until_ms: float) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
            try:
                with self._requests.noting_a_move():
                    answer = yield Wait(self._requests.fetch(partitions), until_ms)
                    return _fetched(answer, partitions)
            except StaleMemberEpochError as error:
                raise MovedOnError(str(error)) from error

        doing = "fetching committed offsets"
        return (yield from self._requests.retry(once, timeout_ms, doing, "OffsetFetch"))


def _fetched(
    answer: Answer | wire.Fetched, partitions: list[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Returns the offsets of an answer, or raises its first error."""
    offsets, errors = _read(answer, partitions)
    _raise_first(errors)
    return offsets


def _read(answer: Answer | wire.Fetched, partitions: list[TopicPartition]) -> wire.Fetched:
    return answer if isinstance(answer, tuple) else wire.fetched(answer, partitions)


def _raise_first(errors: Mapping[TopicPartition, type[BrokerResponseError]]) -> None:
    """Raises a permanent error rather than a retriable one, so that the application sees it."""
    if errors:
        order = sorted(errors.items(), key=lambda each: (each[1].retriable, each[0]))
        where, kind = order[0]
        name = f"{where.topic}-{where.partition}"
        raise kind(f"fetching the committed offset of {name}: {kind.description}")


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
        consumer: ConsumerCore,
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
        rows = yield self._call("_list_offsets", targets)
        for where, at in _consuming.times_of(rows).items():
            if at is None:
                yield from self._seek_to([where], "latest")
            else:
                self._seek(where, at.offset)

    def _seek_to(
        self, partitions: list[TopicPartition], where: Literal["earliest", "latest"]
    ) -> Waiting[None]:
        self._consumer._seek_to(partitions, where)
        if self._is_eager:
            for each in partitions:
                _consuming.check_assigned(self._consumer, each)
                yield self._call("position", each)

    def _call(
        self,
        name: Literal["_list_offsets", "position"],
        argument: list[tuple[str, int, int]] | TopicPartition,
    ) -> Wait:
        until_ms = now_ms() + float(self._config["default_api_timeout_ms"])
        return Wait(CoreCall(self._consumer, name, argument), until_ms)
