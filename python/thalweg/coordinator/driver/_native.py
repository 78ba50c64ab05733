"""The native core as the driver sees it: Protocols of what the driver calls.

    ConsumerCore ── _core_client ──> CoreClient ── submit ──> Request ── result ──> a response
                                          ├─ cluster ─> Cluster
                                          └─ explained: says in an error which permission is missing

The classes of `thalweg._core` satisfy these Protocols. tests/typing checks that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from thalweg.coordinator.steps import Body, Heartbeats
from thalweg.errors import AuthorizationError, GroupAuthorizationFailedError, KafkaError
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "Cluster",
    "ConsumerCore",
    "CoreClient",
    "Group",
    "Request",
    "ResponseBody",
    "explained",
]

_T_co = TypeVar("_T_co", covariant=True)
_Error = TypeVar("_Error", bound=KafkaError)

# The body of a response, with the field names of Kafka's schema.
ResponseBody: TypeAlias = dict[str, Any]
# The coordinator of a group, as the receiver of a request.
Group: TypeAlias = tuple[Literal["coordinator"], str, str]


class Request(Protocol[_T_co]):
    """Something that ends with a result or an error: a request, or work in another thread."""

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""

    @property
    def response_bytes(self) -> int:
        """The size of a response that has arrived and was not read yet, otherwise 0."""

    def result(self, timeout_ms: int | None = None) -> _T_co:
        """Waits for the result and returns it, or raises the error."""

    def add_done_callback(self, f: Callable[[object], object]) -> None:
        """Calls f(self) in another thread when it is done. If it is done: at once, in this one."""


class Cluster(Protocol):
    """The metadata that the core has."""

    @property
    def update_version(self) -> int:
        """A number that grows with each update."""

    def has_more_partitions(self, known: dict[str, int]) -> bool:
        """Whether one of the topics has more partitions than the given number."""


class CoreClient(Protocol):
    """The network side of the core: requests of any API, by name."""

    def submit(
        self,
        api: str,
        body: Body,
        node: Group | None = None,
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> Request[ResponseBody]:
        """Sends a request, to any broker if no node is given."""

    def forget_coordinator(self, kind: Literal["group"], key: str) -> None:
        """Looks up a coordinator again before the next request to it."""

    def cluster(self) -> Cluster:
        """Returns the metadata as of now."""

    def explained(self, text: str, api: str, code: int, resource: str) -> str:
        """Returns the text of an error, with the permission to grant if one is missing."""


class ConsumerCore(Protocol):
    """The consumer of the core. The stub of `thalweg._core.Consumer` describes each call."""

    @property
    def _core_client(self) -> CoreClient:
        """Sends requests on the consumer's connections."""

    # ------------------------------------------------------------------ polls

    def _reenter(self) -> None:
        """Makes a waiting call run `before_poll` now. Any thread may call it."""

    def wakeup(self) -> None:
        """Ends a waiting call with a WakeupError. AIOKafkaConsumer does not have it."""

    def _hold(self, held: bool) -> None:
        """Sets whether polls return no records."""

    def _handed_out(
        self, partitions: Sequence[tuple[str, int]]
    ) -> list[tuple[int, int, int, int] | None]:
        """Returns what polls have returned of each partition. Any thread may call it."""

    def _records_handed_out(self) -> int:
        """Returns the number of records that all polls have returned."""

    # ------------------------------------------------------------------ partitions

    def _set_subscribed(self, subscribed: bool) -> None:
        """Sets whether there is a subscription."""

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment."""

    def assignment(self) -> set[TopicPartition]:
        """Returns the assigned partitions."""

    def _positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what a commit would write for each assigned partition with a position."""

    def _awaiting_committed(self) -> list[TopicPartition]:
        """Returns the assigned partitions that wait for `_set_committed`."""

    def _set_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Sets the committed offsets that were found."""

    def _seek_to(
        self, partitions: Sequence[TopicPartition], where: Literal["earliest", "latest"]
    ) -> None:
        """Moves positions to the start or the end of the log."""

    # ------------------------------------------------------------------ membership

    def _join(
        self, join: Body, timeout_ms: float, heartbeats: Heartbeats, node: Group
    ) -> Request[ResponseBody]:
        """Sends a JoinGroup. Its response starts the heartbeats."""

    def _heartbeat(self, heartbeats: Heartbeats, node: Group) -> None:
        """Starts heartbeats, which replace those before."""

    def _stop_heartbeat(self) -> None:
        """Stops the heartbeats and the watch of max_poll_interval_ms."""

    def _notable_heartbeats(self) -> list[tuple[ResponseBody | None, KafkaError | None, bool]]:
        """Takes the responses with something new, each with whether its heartbeats are in force."""

    def _old_heartbeat_is_in_flight(self) -> bool:
        """Whether a replaced or stopped heartbeat has no response yet."""

    def _poll_expired(self) -> bool:
        """Takes the flag that max_poll_interval_ms has passed without a poll."""


# ---------------------------------------------------------------------- missing permissions


def explained(client: CoreClient, error: _Error, api: str, group_id: str = "") -> _Error:
    """Returns an error that says what to grant. Returns other errors as they are.

    Args:
        client: Knows the principal.
        error: The text of an error about a topic names the topic.
        api: Kafka's name of the request that was refused.
        group_id: The group, for an error about it.
    """
    if not isinstance(error, AuthorizationError) or error.errno is None:
        return error
    text = str(error.args[0]) if error.args else error.description or ""
    if " needs " in text:
        return error  # the core has explained it
    is_about_group = isinstance(error, GroupAuthorizationFailedError)
    resource = group_id if is_about_group else ""
    return type(error)(client.explained(text, api, error.errno, resource))
