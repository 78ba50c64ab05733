"""Committed offsets: requests about them, lookups, and seeks to them.

    OffsetRequests ───> OffsetFetch, OffsetCommit to the group's coordinator. Long requests are
       │                created and read in the background
       └─ retry(once) ─> once() again after a retriable error, within a limit
    CommittedOffsets
       ├─ look_up() ──> OffsetFetch for partitions without a position ──> set_committed
       └─ fetch() ────> OffsetFetch, for `committed` and `seek_to_committed`
    Seeking ────> committed: seek
              └─> none: auto_offset_reset ──> seek_to, or the first record since a time ──> seek

A request has the membership of the moment when it is sent, so each attempt is a new request.
`look_up` never waits. `fetch` and `Seeking` are generators of _waits.py. _offset_commit.py decides
what to commit.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

from thalweg._client import consuming as _consuming
from thalweg.coordinator import offsets as wire
from thalweg.coordinator.driver._marks import Marks
from thalweg.coordinator.driver._native import ConsumerCore, Group, Request, ResponseBody, explained
from thalweg.coordinator.driver._waits import (
    LONG,
    CoreCall,
    LongRequest,
    Wait,
    Waiting,
    now_ms,
    retry_backoff,
)
from thalweg.coordinator.steps import Body
from thalweg.errors import (
    AuthorizationError,
    BrokerResponseError,
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

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = [
    "MOVED",
    "STALE_MEMBER",
    "CommittedOffsets",
    "GroupMember",
    "MovedOnError",
    "OffsetRequests",
    "Seeking",
]

_T = TypeVar("_T")
_End = Literal["earliest", "latest"]

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


# ---------------------------------------------------------------------- requests


class MovedOnError(RetriableError):
    """The member's epoch has changed since the request was sent. Retry with the new epoch."""


class GroupMember(Protocol):
    """The part of the membership that requests about offsets need."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...
    def commit_refusal(self) -> KafkaError | None: ...
    def commit_refused(self, code: int, generation: int) -> None: ...
    def keep_up(self) -> None: ...
    def reenter(self, _: object = None) -> None: ...


class OffsetRequests:
    """Sends the requests about offsets of one consumer.

    Args:
        consumer: The core's consumer.
        config: Its options.
        member: Its membership.
    """

    def __init__(self, consumer: ConsumerCore, config: "DriverConfig", member: GroupMember) -> None:
        self._consumer = consumer
        self._config = config
        self._member = member
        self._group_id: str | None = config["group_id"]
        self._commit_is_sent: threading.Event | None = None  # of the last long commit

    def group_id(self) -> str:
        """Returns the group's id. Raises IllegalStateError if the consumer has no group."""
        if self._group_id is None:
            raise IllegalStateError(
                "Requires group_id: set it to the name of a consumer group, because commits and"
                " committed offsets belong to a group"
            )
        return self._group_id

    def fetch(self, partitions: Collection[TopicPartition]) -> Request[ResponseBody | wire.Fetched]:
        """Requests committed offsets. For many partitions, the result is that of `wire.fetched`."""
        group = self._member.group_metadata()

        def submit() -> Request[ResponseBody]:
            bodies = wire.fetch_bodies(group, partitions)
            return self._submit("OffsetFetch", bodies, wire.FETCH_VERSION_MAX)

        if len(partitions) < LONG:
            return submit()
        return LongRequest(submit, lambda response: wire.fetched(response, partitions))

    def commit(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Request[ResponseBody]:
        """Commits offsets, after all earlier commits were sent."""
        before = self._commit_is_sent
        waits = before is not None and not before.is_set()

        def submit() -> Request[ResponseBody]:
            body = wire.commit_body(group, offsets)
            if before is not None:
                before.wait()
            return self._submit("OffsetCommit", body, wire.COMMIT_VERSION_MAX)

        if len(offsets) < LONG and not waits:
            return submit()
        self._commit_is_sent = sent = threading.Event()
        return LongRequest(_then(submit, sent.set), lambda response: response)

    def _submit(self, api: str, body: Body, max_version: int) -> Request[ResponseBody]:
        node: Group = ("coordinator", "group", self.group_id())
        return self._consumer._core_client.submit(api, body, node, max_version=max_version)

    def forget_coordinator(self) -> None:
        """Looks up the coordinator again before the next request."""
        self._consumer._core_client.forget_coordinator("group", self.group_id())

    @contextlib.contextmanager
    def noting_a_move(self) -> Iterator[None]:
        """Forgets the coordinator if a response says that it has moved."""
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
                        f"{doing} for group {self._group_id} took longer than {timeout_ms} ms."
                        f" Last error: {last}"
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


# ---------------------------------------------------------------------- lookups


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
        config: "DriverConfig",
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
        self._request: tuple[Request[ResponseBody | wire.Fetched], list[TopicPartition]] | None = (
            None
        )
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
            # The permission to read includes the permission to see committed offsets.
            raise explained(client, error, "Fetch", self._requests.group_id()) from error
        self._backoff.reset()
        return self.look_up()  # of partitions that were assigned meanwhile

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Ignores the response about partitions whose assignment has ended: it may be old."""
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
                    response = yield Wait(self._requests.fetch(partitions), until_ms)
                    return _fetched(response, partitions)
            except StaleMemberEpochError as error:
                raise MovedOnError(str(error)) from error

        doing = "fetching committed offsets"
        return (yield from self._requests.retry(once, timeout_ms, doing, "OffsetFetch"))


def _fetched(
    response: ResponseBody | wire.Fetched, partitions: list[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Returns the offsets of a response, or raises its first error."""
    offsets, errors = _read(response, partitions)
    _raise_first(errors)
    return offsets


def _read(response: ResponseBody | wire.Fetched, partitions: list[TopicPartition]) -> wire.Fetched:
    return response if isinstance(response, tuple) else wire.fetched(response, partitions)


def _raise_first(errors: Mapping[TopicPartition, type[BrokerResponseError]]) -> None:
    """Raises a permanent error rather than a retriable one, so that the application sees it."""
    if errors:
        order = sorted(errors.items(), key=lambda each: (each[1].retriable, each[0]))
        where, kind = order[0]
        name = f"{where.topic}-{where.partition}"
        raise kind(f"fetching the committed offset of {name}: {kind.description}")


# ---------------------------------------------------------------------- seeking


class Seeking:
    """One call of `seek_to_committed`.

    Args:
        consumer: The core's consumer, or a subclass.
        config: Its options.
        seek: The `seek` of the consumer, with its checks.
        seek_to: The `seek_to` of the driver.
        is_eager: Whether to wait for positions that must be looked up, as in aiokafka.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        seek: Callable[[TopicPartition, int | OffsetAndMetadata], None],
        seek_to: Callable[[list[TopicPartition], _End], None],
        *,
        is_eager: bool,
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._seek = seek
        self._seek_to = seek_to
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
            yield from self._to_end(partitions, kind)
            return
        since_ms = _consuming.reset_since_ms(self._config)
        targets = _consuming.time_targets(dict.fromkeys(partitions, since_ms))
        rows = yield self._call("_list_offsets", targets)
        for where, at in _consuming.times_of(rows).items():
            if at is None:
                yield from self._to_end([where], "latest")
            else:
                self._seek(where, at.offset)

    def _to_end(self, partitions: list[TopicPartition], end: _End) -> Waiting[None]:
        self._seek_to(partitions, end)
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
