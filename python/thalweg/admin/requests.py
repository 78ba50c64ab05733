"""Sends admin requests: chooses the node, retries within a limit, raises errors by class.

call ──> node: any | controller | id | leader | coordinator ──> response ──> its error codes
^                                                                             │
└──── retriable: wait (backoff), find the node again, send again <────────────┘
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from thalweg.coordinator.backoff import Backoff
from thalweg.errors import (
    AuthorizationError,
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NoError,
    NotControllerError,
    NotCoordinatorError,
    UnknownBrokerIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from thalweg import _core
    from thalweg.config import Config

__all__ = ["TRY_AGAIN", "Again", "Codes", "Requests", "first_error"]

# Some brokers describe the complete request, with their own objects, if they refuse it.
_JAVA_REQUEST = "Request Request("

# Finds the errors of a response: (error code, its message or None, what the error is about).
Codes = Callable[[dict[str, Any]], Iterable[tuple[int, str | None, str]]]

# The partitions for which to send the request again, and why.
Again = Mapping[TopicPartition, type[KafkaError]]

# A node that does not respond may not be the leader any more. So the first attempts are short.
_FIRST_ATTEMPT_MS = 2_000
_LEAST_ATTEMPT_MS = 1_000
_UNREACHABLE = (KafkaConnectionError, KafkaTimeoutError, UnknownBrokerIdError)

# Another broker can process the request, or this one a little later.
TRY_AGAIN = (
    NotControllerError,
    NotCoordinatorError,
    CoordinatorNotAvailableError,
    CoordinatorLoadInProgressError,
)


def _no_codes(_: dict[str, Any]) -> Iterable[tuple[int, str | None, str]]:
    return ()


def first_error(
    codes: Iterable[tuple[int, str | None, str]], ignored: tuple[type[KafkaError], ...] = ()
) -> BrokerResponseError | None:
    """Returns the first error of a response as an exception that says what it is about."""
    for code, message, about in codes:
        kind = for_code(code)
        if kind is NoError or issubclass(kind, ignored):
            continue
        if message is None or message.startswith(_JAVA_REQUEST):
            message = kind.description
        return kind(f"{about}: {message}")
    return None


def _any_of(
    codes: Iterable[tuple[int, str | None, str]], kinds: tuple[type[KafkaError], ...]
) -> bool:
    return any(issubclass(for_code(code), kinds) for code, _, _ in codes)


class Requests:
    """Base of the admin client's groups of calls: sends requests."""

    config: "Config"
    _client: "_core.Client"

    def _timeout(self, timeout_ms: float | None) -> int:
        """Returns the time that a broker may take for a call. Default: request_timeout_ms."""
        return int(self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms)

    def _call(
        self,
        api: str,
        body: Mapping[str, Any] | list[tuple[int, dict[str, Any]]],
        node: Any = "any",
        *,
        codes: Codes = _no_codes,
        raise_errors: bool = True,
        ignored: tuple[type[KafkaError], ...] = (),
        version: int | None = None,
        max_version: int | None = None,
        again: tuple[type[KafkaError], ...] = (),
        is_repeatable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Sends a request, and repeats it while the response says that another broker must do it.

        One such row in the response is enough: a former coordinator may report another error for
        one partition, and NOT_COORDINATOR only for the others.

        Args:
            api: Kafka's name of the request.
            body: The fields, or a list of (min version, fields).
            node: See `_core.Client.request`.
            codes: Finds the error codes of a response.
            raise_errors: Whether to raise the first error. Routing errors are retried in any case.
            ignored: Error classes that do not count as errors.
            version: Exactly this version.
            max_version: At most this version.
            again: Further error classes after which to send the request again.
            is_repeatable: Whether to send the request again after a lost connection, because
                doing it twice changes nothing.
            timeout_ms: How long to wait for each response. None: request_timeout_ms.

        Raises:
            BrokerResponseError: The first error of the response.
            KafkaTimeoutError: If no broker responds in time.
            KafkaConnectionError: If the connection broke after the client had sent a request that
                changes something. The broker may or may not have done it.
        """
        deadline = time.monotonic() + self.config["default_api_timeout_ms"] / 1000
        first, most = self.config["retry_backoff_ms"], self.config["retry_backoff_max_ms"]
        backoff = Backoff(first, most, lambda: random.uniform(0.8, 1.2))
        limit_ms = self._timeout(timeout_ms)
        while True:
            wait_s = backoff.failed() / 1000
            in_time = time.monotonic() + wait_s < deadline
            try:
                response = self._client.request(api, body, node, version, limit_ms, max_version)
            except KafkaConnectionError:
                if not (in_time and is_repeatable):
                    raise
                time.sleep(wait_s)
                continue
            rows = list(codes(response))
            if not (in_time and _any_of(rows, (*TRY_AGAIN, *again))):
                break
            if isinstance(node, tuple):
                self._client.forget_coordinator(node[1], node[2])
            elif node == "controller":
                self._client.forget_controller()
            time.sleep(wait_s)
        error = first_error(rows, ignored)
        if error is not None and raise_errors:
            if isinstance(error, AuthorizationError) and error.errno is not None:
                raise type(error)(self._with_permission(str(error.args[0]), api, error.errno))
            raise error
        return response

    def _refusal(self, api: str, code: int, message: str | None) -> str:
        """Returns the text of an item's error, which brokers may send without one."""
        if message is None or message.startswith(_JAVA_REQUEST):
            message = str(for_code(code).description)
        return self._with_permission(message, api, code)

    def _with_permission(self, text: str, api: str, code: int) -> str:
        """Adds the missing permission to the text of an error about permissions."""
        return self._client.explained(text, api, code, "")

    def _metadata(
        self, topics: Iterable[str] | None, timeout_ms: int | None = None
    ) -> dict[str, Any]:
        """Requests metadata of topics, of all topics (None), or of the brokers only ([])."""
        names = None if topics is None else [{"Name": name} for name in topics]
        body = {"Topics": names, "AllowAutoTopicCreation": False}
        return self._call("Metadata", body, timeout_ms=timeout_ms)

    def _leaders(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[int, set[TopicPartition]]:
        """Requests metadata, and returns {leader: its partitions}.

        Raises:
            UnknownTopicOrPartitionError: If a partition does not exist.
            BrokerResponseError: If a broker refuses to describe a topic, for example without the
                permission to do so.
        """
        wanted = set(partitions)
        found: dict[int, set[TopicPartition]] = defaultdict(set)
        response = self._metadata(sorted({each.topic for each in wanted}), timeout_ms)
        topics = ((row["ErrorCode"], None, f"topic {row['Name']!r}") for row in response["Topics"])
        error = first_error(topics, (UnknownTopicOrPartitionError, LeaderNotAvailableError))
        if error is not None:
            raise error
        for topic in response["Topics"]:
            for row in topic["Partitions"]:
                where = TopicPartition(topic["Name"], row["PartitionIndex"])
                if where in wanted:
                    found[row["LeaderId"]].add(where)
                    wanted.discard(where)
        if wanted:
            raise UnknownTopicOrPartitionError(
                f"The following partitions do not exist: {_names(wanted)}. Check the topics and"
                " numbers"
            )
        return found

    def _by_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition], int], Again],
        timeout_ms: float | None,
        node: int | None = None,
        *,
        is_repeatable: bool = True,
    ) -> None:
        """Sends requests to the leaders of partitions, and repeats them within the limit.

        Args:
            partitions: The partitions.
            ask: `ask(node, partitions, timeout_ms)` sends a request, and returns the partitions for
                which to repeat it.
            timeout_ms: The limit. None: request_timeout_ms.
            node: The node that gets one request, in place of the leaders.
            is_repeatable: Whether to repeat a request that may have been executed: after a lost
                connection, or without a response.

        Raises:
            KafkaError: The last error of a partition, if the limit is over.
        """
        deadline = time.monotonic() + self._timeout(timeout_ms) / 1000
        backoff = self.config["retry_backoff_ms"] / 1000
        attempt_ms = _FIRST_ATTEMPT_MS
        pending = set(partitions)
        while pending:
            left_ms = int((deadline - time.monotonic()) * 1000)
            is_short = node is None and is_repeatable
            limit_ms = max(min(left_ms, attempt_ms) if is_short else left_ms, _LEAST_ATTEMPT_MS)
            again: dict[TopicPartition, KafkaError | type[KafkaError]] = {}
            leaders: Mapping[int, set[TopicPartition]] = {}
            try:
                leaders = self._leaders(pending, limit_ms) if node is None else {node: pending}
            except _UNREACHABLE as error:
                again = dict.fromkeys(pending, error)
            for leader, theirs in leaders.items():
                if leader < 0:
                    again |= dict.fromkeys(theirs, LeaderNotAvailableError)
                    continue
                try:
                    again |= ask(leader, sorted(theirs), limit_ms)
                except _UNREACHABLE as error:
                    if not is_repeatable and not isinstance(error, UnknownBrokerIdError):
                        raise
                    again |= dict.fromkeys(theirs, error)
            if again and (node is not None or time.monotonic() + backoff > deadline):
                raise _not_done(again, node)
            if any(isinstance(error, KafkaTimeoutError) for error in again.values()):
                attempt_ms *= 2
            pending = set(again)
            if pending:
                time.sleep(backoff)

    def _node_ids(self) -> list[int]:
        return sorted(node.nodeId for node in self._client.nodes())

    def _coordinator(self, group_id: str, node: int | None) -> Any:
        """Returns where to send requests of a group: to the given node, or to its coordinator."""
        return ("coordinator", "group", group_id) if node is None else node


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions))


def _not_done(
    again: Mapping[TopicPartition, KafkaError | type[KafkaError]], node: int | None
) -> KafkaError:
    """Returns the error of the first partition, with the partitions that have the same one."""
    error = again[min(again)]
    if isinstance(error, KafkaError):
        return error
    names = _names(each for each in again if again[each] is error)
    reason = str(error.description or error.__name__).rstrip(".")
    if node is None:
        return error(f"{names}: {reason}. Call again, or raise timeout_ms")
    return error(f"{names}: node {node} refuses: {reason}. Ask the leader, or call again")
