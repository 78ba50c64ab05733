"""How admin calls reach brokers: routed, retried within a limit, errors raised by class.

call ──> node: any | controller | id | coordinator ──> answer ──> its error codes
^                                                                    │
└────────── retriable: wait (backoff), look again, send again <──────┘
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from thalweg.coordinator.backoff import Backoff
from thalweg.errors import (
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NoError,
    NotControllerError,
    NotCoordinatorError,
    for_code,
)

if TYPE_CHECKING:
    from thalweg import _core
    from thalweg.config import Config

__all__ = ["Codes", "Requests", "first_error"]

# Of an answer: (error code, its message or None, what it is about).
Codes = Callable[[dict[str, Any]], Iterable[tuple[int, str | None, str]]]

_TRY_AGAIN = (
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
    """The first error among an answer's codes, as an exception that says what it is about."""
    for code, message, about in codes:
        kind = for_code(code)
        if kind is NoError or issubclass(kind, ignored):
            continue
        return kind(f"{about}: {message or kind.description}")
    return None


class Requests:
    """The part of the admin client that all of its calls share."""

    config: "Config"
    _client: "_core.Client"

    def _timeout(self, timeout_ms: float | None) -> int:
        """The broker's own limit of a call: given, or request_timeout_ms."""
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
    ) -> dict[str, Any]:
        """One request, repeated while a broker says that another one should be asked.

        Args:
            api: Kafka's name of it.
            body: Its fields, or a list of (least version, fields).
            node: See `_core.Client.request`.
            codes: What error codes an answer has.
            raise_errors: Whether they are raised; routing errors are dealt with all the same.
            ignored: Error classes that are no errors here.
            version: Exactly this version.
            max_version: At most this version.

        Raises:
            BrokerResponseError: The first error of the answer.
            KafkaTimeoutError: If no broker answers in time.
            KafkaConnectionError: If the connection broke while the request changed something.
        """
        deadline = time.monotonic() + self.config["default_api_timeout_ms"] / 1000
        first, most = self.config["retry_backoff_ms"], self.config["retry_backoff_max_ms"]
        backoff = Backoff(first, most, lambda: random.uniform(0.8, 1.2))
        while True:
            wait_s = backoff.failed() / 1000
            in_time = time.monotonic() + wait_s < deadline
            answer = self._client.request(
                api, body, node, version, self.config["request_timeout_ms"], max_version
            )
            error = first_error(codes(answer), ignored)
            if not (in_time and isinstance(error, _TRY_AGAIN)):
                break
            if isinstance(node, tuple):
                self._client.forget_coordinator(node[1], node[2])
            elif node == "controller":
                self._metadata([])
            time.sleep(wait_s)
        if error is not None and raise_errors:
            raise error
        return answer

    def _metadata(self, topics: Iterable[str] | None) -> dict[str, Any]:
        """A Metadata answer about some topics, about all (None) or about the brokers alone."""
        names = None if topics is None else [{"Name": name} for name in topics]
        return self._call("Metadata", {"Topics": names, "AllowAutoTopicCreation": False})

    def _node_ids(self) -> list[int]:
        return sorted(node.nodeId for node in self._client.nodes())

    def _coordinator(self, group_id: str, node: int | None) -> Any:
        """Where requests of a group go: to the node given, or to its coordinator."""
        return ("coordinator", "group", group_id) if node is None else node
