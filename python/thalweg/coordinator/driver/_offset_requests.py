"""Requests about committed offsets: sends OffsetFetch and OffsetCommit, and retries them.

    fetch, commit ──> the group's coordinator. Long ones are created and read in the background
    retry(once) ────> once() again after a retriable error, within a limit

A request has the membership of the moment when it is sent, so each attempt is a new request.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from thalweg.coordinator import offsets as wire
from thalweg.coordinator.driver._background import LONG, LongRequest
from thalweg.coordinator.driver._native import Answer, ConsumerCore, Group, Request
from thalweg.coordinator.driver._rights import explained
from thalweg.coordinator.driver._waits import Wait, Waiting, now_ms, retry_backoff
from thalweg.coordinator.steps import Body
from thalweg.errors import (
    AuthorizationError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    RebalanceInProgressError,
    RetriableError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["MOVED", "STALE_MEMBER", "GroupMember", "MovedOnError", "OffsetRequests"]

_T = TypeVar("_T")

log = logging.getLogger("thalweg.coordinator")

# Errors of a coordinator that has moved to another broker.
MOVED: Final = (NotCoordinatorError, CoordinatorNotAvailableError)
# Errors of a member that the group does not know as it is.
STALE_MEMBER: Final = (
    FencedInstanceIdError,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)


class MovedOnError(RetriableError):
    """The member's epoch has changed since the request was sent. Retry with the new epoch."""


class GroupMember(Protocol):
    """The part of the membership that requests about offsets need."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...
    def commit_refusal(self) -> KafkaError | None: ...
    def commit_answered(self, code: int, generation: int) -> None: ...
    def keep_up(self) -> None: ...
    def reenter(self, _: object = None) -> None: ...


class OffsetRequests:
    """Sends the requests of one consumer.

    Args:
        consumer: The core's consumer.
        config: Its options.
        member: Its membership.
    """

    def __init__(
        self, consumer: ConsumerCore, config: Mapping[str, Any], member: GroupMember
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._member = member
        self._group_id: str | None = config["group_id"]
        self._commit_is_sent: threading.Event | None = None  # of the last long commit

    def group_id(self) -> str:
        """Returns the group's id. Raises IllegalStateError if the consumer has no group."""
        if self._group_id is None:
            raise IllegalStateError("Requires group_id")
        return self._group_id

    def fetch(self, partitions: Collection[TopicPartition]) -> Request[Answer | wire.Fetched]:
        """Asks for committed offsets. For many partitions, the result is that of `wire.fetched`."""
        group = self._member.group_metadata()

        def submit() -> Request[Answer]:
            bodies = wire.fetch_bodies(group, partitions)
            return self._submit("OffsetFetch", bodies, wire.FETCH_VERSION_MAX)

        if len(partitions) < LONG:
            return submit()
        return LongRequest(submit, lambda answer: wire.fetched(answer, partitions))

    def commit(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Request[Answer]:
        """Commits offsets, after all earlier commits were sent."""
        before = self._commit_is_sent
        waits = before is not None and not before.is_set()

        def submit() -> Request[Answer]:
            body = wire.commit_body(group, offsets)
            if before is not None:
                before.wait()
            return self._submit("OffsetCommit", body, wire.COMMIT_VERSION_MAX)

        if len(offsets) < LONG and not waits:
            return submit()
        self._commit_is_sent = sent = threading.Event()
        return LongRequest(_then(submit, sent.set), lambda answer: answer)

    def _submit(self, api: str, body: Body, max_version: int) -> Request[Answer]:
        node: Group = ("coordinator", "group", self.group_id())
        return self._consumer._core_client.submit(api, body, node, max_version=max_version)

    def forget_coordinator(self) -> None:
        """Looks up the coordinator again before the next request."""
        self._consumer._core_client.forget_coordinator("group", self.group_id())

    @contextlib.contextmanager
    def noting_a_move(self) -> Iterator[None]:
        """Forgets the coordinator if an answer says that it has moved."""
        try:
            yield
        except MOVED:
            self.forget_coordinator()
            raise

    def retry(
        self, once: Callable[[float], Waiting[_T]], timeout_ms: int, doing: str, api: str
    ) -> Waiting[_T]:
        """Runs `once(deadline)`, and retries after retriable errors within the limit.

        Raises:
            KafkaTimeoutError: After the limit, with the last error as its cause.
            RebalanceInProgressError: At once: only a poll of the application ends a rebalance.
        """
        deadline = now_ms() + timeout_ms
        backoff = retry_backoff(self._config)
        last: RetriableError | None = None
        is_told = False
        while True:
            self._member.keep_up()
            try:
                return (yield from once(deadline))
            except RebalanceInProgressError:
                raise
            except AuthorizationError as error:
                client = self._consumer._core_client
                raise explained(client, error, api, self.group_id()) from error
            except RetriableError as error:
                # Keep the error of an earlier attempt, not the timeout of the last one.
                if last is None or not isinstance(error, KafkaTimeoutError):
                    last = error
                again_ms = now_ms() + backoff.failed()
                if again_ms >= deadline:
                    raise KafkaTimeoutError(
                        f"{doing} for group {self._group_id} took longer than {timeout_ms} ms;"
                        f" the last error: {last}"
                    ) from last
                log.debug("%s: %s; trying again", doing, error)
                if isinstance(error, UnknownTopicOrPartitionError) and not is_told:
                    # The topic may be new, so retry as Java does. Or it does not exist: warn.
                    log.warning("%s (tried again for at most %d ms)", error, timeout_ms)
                    is_told = True
            yield Wait(None, again_ms)


def _then(first: Callable[[], _T], after: Callable[[], object]) -> Callable[[], _T]:
    def both() -> _T:
        try:
            return first()
        finally:
            after()

    return both
