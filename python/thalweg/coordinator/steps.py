"""The events and actions of the state machines. Pure data.

    driver/       ── member events ──> member.py of either protocol ── actions ──> driver/
    _group_server ── group events ───> groups.py, group.py          ── actions ──> _group_server

A machine has two methods. `step(event, now) -> [action]` returns the actions to do, in order.
`next_deadline() -> float | None` returns when the machine needs a `Ticked`. `now` is in ms of a
monotonic clock. Bodies are dicts with the field names of Kafka's schema. If versions have different
fields, a body is a list of (min version, body).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.errors import KafkaError
from thalweg.structs import TopicPartition

__all__ = [
    "Arrived",
    "Assign",
    "AutoCommit",
    "Body",
    "CallbacksDone",
    "Closed",
    "CommitRefused",
    "Deleted",
    "Fail",
    "Forget",
    "ForgetCoordinator",
    "GroupAction",
    "GroupEvent",
    "HeartbeatResponded",
    "Heartbeats",
    "Lose",
    "MemberAction",
    "MemberEvent",
    "OldHeartbeatsDone",
    "PollExpired",
    "Polled",
    "Publish",
    "Raise",
    "Reply",
    "Responded",
    "Revoke",
    "Send",
    "SessionExpired",
    "StopHeartbeats",
    "Subscribed",
    "Ticked",
    "TopicsChanged",
    "Unsubscribed",
    "View",
    "WatchTopics",
]

Body = Mapping[str, Any] | list[tuple[int, dict[str, Any]]]
View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ticked:
    """A deadline has passed. For members and groups."""


# ---------------------------------------------------------------------- events for a member


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The subscribed topics have changed, given by name or matched by a pattern.

    Attributes:
        topics: Their names.
        regex: A pattern for the broker (`SubscriptionPattern`), only in KIP-848's protocol.
    """

    topics: frozenset[str]
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The application has unsubscribed."""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The metadata of all subscribed or watched topics. It comes once, then at each change.

    In KIP-848's protocol, it also has the topics of owned partitions, so an owned topic that it
    lacks was deleted. For a consumer group on the broker's side, it has all topics of the broker.

    Attributes:
        partitions: The number of partitions of each existing topic.
        racks: The racks of each partition's replicas, if known.
        ids: The id of each existing topic, only in KIP-848's protocol.
    """

    partitions: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]]
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Polled:
    """The application has called poll, in its own thread. So callbacks may run now."""


@dataclass(frozen=True, slots=True)
class Responded:
    """The response to a Send, or a transport error such as a timeout."""

    token: int
    body: Mapping[str, Any] | None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponded:
    """A notable response to a heartbeat that is repeated.

    Attributes:
        body: The response, or None if there is none.
        error: Why there is no response.
        is_current: Whether the heartbeat was one of those in force. Of replaced or stopped ones,
            refusals are not reported. Good and lost responses are.
    """

    body: Mapping[str, Any] | None
    error: KafkaError | None = None
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class OldHeartbeatsDone:
    """No heartbeat is in flight that the heartbeats in force have replaced.

    The driver reports it once after each Heartbeats. A failed heartbeat is not in flight, either.
    """


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The group has refused an OffsetCommit of this member.

    Attributes:
        code: Kafka's error code.
        generation: The generation or member epoch in the commit.
    """

    code: int
    generation: int


@dataclass(frozen=True, slots=True)
class PollExpired:
    """max_poll_interval_ms has passed. The leave request is sent, and heartbeats have stopped."""


@dataclass(frozen=True, slots=True)
class CallbacksDone:
    """The AutoCommit, Revoke, Lose and Assign actions of the last step are done."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The consumer closes. `leave`: whether to leave the group."""

    leave: bool


MemberEvent = (
    Subscribed
    | Unsubscribed
    | TopicsChanged
    | Polled
    | Responded
    | HeartbeatResponded
    | OldHeartbeatsDone
    | CommitRefused
    | PollExpired
    | CallbacksDone
    | Ticked
    | Closed
)

# ---------------------------------------------------------------------- actions of a member


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Starts heartbeats to the coordinator, or replaces them.

    Attributes:
        api: "Heartbeat" or "ConsumerGroupHeartbeat".
        body: The body of each heartbeat.
        interval_ms: The time between heartbeats.
        leave: The request to send once after max_poll_interval_ms without a poll, if any.
        max_poll_interval_ms: How long the application may take between two polls.
        response_timeout_ms: After this time without a response, the coordinator is looked up again.
            None: after the timeout of any request.
    """

    api: str
    body: Body
    interval_ms: float
    leave: tuple[str, Body] | None
    max_poll_interval_ms: float
    response_timeout_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a request to the group's coordinator. The response is a Responded(token).

    Attributes:
        heartbeats: For a JoinGroup: heartbeats that replace the current ones. They begin when the
            response arrives, with its generation and member id. The session timeout runs from then
            on, and the application may take in the response much later.
        leaves: Whether the request ends the membership.
    """

    token: int
    api: str
    body: Body
    timeout_ms: float
    heartbeats: Heartbeats | None = None
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """Looks up the coordinator again before the next Send or heartbeat."""


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Includes these topics in TopicsChanged from now on, at once if all of them are known.

    Attributes:
        topics: Topics by name.
        ids: Topics by id, whose names are not known, only in KIP-848's protocol.
    """

    topics: frozenset[str]
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StopHeartbeats:
    """Stops the heartbeats and the watch of max_poll_interval_ms."""


@dataclass(frozen=True, slots=True)
class AutoCommit:
    """Commits the positions if auto-commit is on, before partitions are given up."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Calls the listener (on_partitions_revoked), then removes the partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """Calls the listener (on_partitions_lost), and removes the partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Assigns `assigned`, and calls the listener with `added`, also if that is empty."""

    assigned: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Raise:
    """Makes one poll of the application raise an error. The member continues."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Fail:
    """Ends the member: every poll raises this error."""

    error: KafkaError


MemberAction = (
    Send
    | ForgetCoordinator
    | WatchTopics
    | Heartbeats
    | StopHeartbeats
    | AutoCommit
    | Revoke
    | Lose
    | Assign
    | Raise
    | Fail
)

# ---------------------------------------------------------------------- events for a group


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request has arrived. Its Reply has the same `token`.

    Attributes:
        draft: For DescribeGroups and ConsumerGroupDescribe: the part of the response that the
            broker knows. The rows of groups that have a state machine are replaced.
        principal: The user, as ACLs name it.
    """

    token: int
    api: str
    version: int
    body: Mapping[str, Any]
    client_id: str
    client_host: str
    draft: Mapping[str, Any] | None = None
    principal: str = ""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A watched member has sent nothing for its session timeout."""

    member_id: str
    group_id: str = ""  # groups.py finds the group by it


@dataclass(frozen=True, slots=True)
class Deleted:
    """The group was deleted (DeleteGroups). It is empty."""

    group_id: str = ""  # groups.py finds the group by it


GroupEvent = Arrived | SessionExpired | Deleted | Ticked | TopicsChanged

# ---------------------------------------------------------------------- actions of a group


@dataclass(frozen=True, slots=True)
class Reply:
    """Responds to a request."""

    token: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes the view from which the broker responds to heartbeats and commits from now on.

    The view is {"group_id", "kind": "classic" | "consumer", "protocol_type", "state", "epoch",
    "topics": [sorted], "members": {member id: {"instance_id", "session_timeout_ms", "epoch",
    "heartbeat": error code, "watched": whether the session timeout runs}}}. Members of KIP-848's
    protocol also have "assignment_epochs", {topic: {partition: epoch at which it was assigned}}.
    """

    view: View


@dataclass(frozen=True, slots=True)
class Forget:
    """Removes the group, which is dead."""

    group_id: str = ""  # groups.py sets it


GroupAction = Reply | Publish | Forget
