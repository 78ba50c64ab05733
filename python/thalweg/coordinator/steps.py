"""The words that state machines and what drives them say to each other. Pure data.

    driver/       ── member events ──> member.py of either protocol ── actions ──> driver/
    _group_server ── group events ───> groups.py, group.py          ── actions ──> _group_server

A machine is `step(event, now) -> [action]`, the actions to be done in their order, and
`next_deadline() -> float | None`, the time at which it wants a `Ticked`. `now` is in ms of a
monotonic clock. Bodies are dicts with the field names of Kafka's schema; where the forms of
versions differ, a list of (least version, body).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.errors import KafkaError
from thalweg.structs import TopicPartition

__all__ = [
    "Answered",
    "Arrived",
    "Assign",
    "AutoCommit",
    "Body",
    "CallbacksDone",
    "Closed",
    "CommitAnswered",
    "Deleted",
    "Fail",
    "Forget",
    "ForgetCoordinator",
    "GroupAction",
    "GroupEvent",
    "HeartbeatAnswered",
    "Heartbeats",
    "Lose",
    "MemberAction",
    "MemberEvent",
    "PollExpired",
    "Polled",
    "Publish",
    "Raise",
    "Reply",
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
    """A deadline has come; for members and groups."""


# ---------------------------------------------------------------------- what a member is told


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The topics subscribed to, by name or as what a pattern matches; whenever they change.

    Attributes:
        topics: Their names.
        regex: The broker's own pattern (`SubscriptionPattern`); KIP-848's protocol only.
    """

    topics: frozenset[str]
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The application gave its subscription up."""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """What is known of all topics subscribed to or watched; given once, then at each change.

    A consumer group on the broker's side is told of all topics that there are.

    Attributes:
        partitions: Each existing topic's number of partitions.
        racks: The racks of each partition's replicas, where known.
        ids: Each existing topic's id; KIP-848's protocol only.
    """

    partitions: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]]
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Polled:
    """The application called poll, in its own thread: callbacks may run now."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a Send, or the transport's error (a timeout among them)."""

    token: int
    body: Mapping[str, Any] | None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """A notable answer to the heartbeats now in force; never one to replaced or stopped ones."""

    body: Mapping[str, Any] | None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """An OffsetCommit of this member was refused by the group.

    Attributes:
        code: Kafka's error code.
        generation: The generation (or member epoch) that the commit was sent with.
    """

    code: int
    generation: int


@dataclass(frozen=True, slots=True)
class PollExpired:
    """max_poll_interval_ms ran out: the leave request is sent, the heartbeats are stopped."""


@dataclass(frozen=True, slots=True)
class CallbacksDone:
    """The AutoCommit, Revoke, Lose and Assign actions of the last step were done."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The consumer closes; `leave`: whether to tell the group."""

    leave: bool


MemberEvent = (
    Subscribed
    | Unsubscribed
    | TopicsChanged
    | Polled
    | Answered
    | HeartbeatAnswered
    | CommitAnswered
    | PollExpired
    | CallbacksDone
    | Ticked
    | Closed
)

# ---------------------------------------------------------------------- what a member wants done


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Starts or replaces what is repeated to the coordinator.

    Attributes:
        api: "Heartbeat" or "ConsumerGroupHeartbeat".
        body: What is sent each time.
        interval_ms: How often.
        leave: The request that is sent once if max_poll_interval_ms runs out, if any.
        max_poll_interval_ms: How long the application may take between two polls.
        answer_within_ms: After so long without an answer the coordinator is looked up again; None:
            as for any request.
    """

    api: str
    body: Body
    interval_ms: float
    leave: tuple[str, Body] | None
    max_poll_interval_ms: float
    answer_within_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a request to the group's coordinator; its answer comes back as Answered(token).

    Attributes:
        heartbeats: Of a JoinGroup: they replace those before it, and begin as soon as it is
            answered, with the answer's generation and member id. From then on the session's time
            counts, and who computes may take the answer in much later.
        leaves: It ends the membership.
    """

    token: int
    api: str
    body: Body
    timeout_ms: float
    heartbeats: Heartbeats | None = None
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """The coordinator is to be looked for again before the next Send or heartbeat."""


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """From now on TopicsChanged is to tell of these topics too; at once, if all is known.

    Attributes:
        topics: By name.
        ids: By topic id: their names are not known; KIP-848's protocol only.
    """

    topics: frozenset[str]
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StopHeartbeats:
    """Ends them, and the watch on max_poll_interval_ms."""


@dataclass(frozen=True, slots=True)
class AutoCommit:
    """Commits what was consumed, if auto-commit is on, before partitions are given up."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Tells the listener (on_partitions_revoked), then takes the partitions away."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """Tells the listener (on_partitions_lost), and takes the partitions away."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """The partitions are now `assigned`; tells the listener of the `added` ones, none included."""

    assigned: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Raise:
    """Raises an error to the application's poll, once; the member goes on."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Fail:
    """The member is done for: each poll raises this error."""

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

# ---------------------------------------------------------------------- what a group is told


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request; `token` names it in its Reply.

    Attributes:
        draft: For DescribeGroups and ConsumerGroupDescribe: the answer as far as it is known
            elsewhere; rows of groups that have a machine are replaced.
    """

    token: int
    api: str
    version: int
    body: Mapping[str, Any]
    client_id: str
    client_host: str
    draft: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A watched member was not heard of for its session timeout."""

    member_id: str
    group_id: str = ""  # what groups.py routes by


@dataclass(frozen=True, slots=True)
class Deleted:
    """The group was deleted (DeleteGroups): it is empty."""

    group_id: str = ""  # what groups.py routes by


GroupEvent = Arrived | SessionExpired | Deleted | Ticked | TopicsChanged

# ---------------------------------------------------------------------- what a group wants done


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a request."""

    token: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Publish:
    """What plain heartbeats and commits are judged by from now on.

    The view: {"group_id", "kind": "classic" | "consumer", "protocol_type", "state", "epoch",
    "topics": [sorted], "members": {member id: {"instance_id", "session_timeout_ms", "epoch",
    "heartbeat": error code, "watched": whether the session deadline runs}}}. Members of KIP-848's
    protocol also have "assignment_epochs", {topic: {partition: epoch at which it was assigned}}.
    """

    view: View


@dataclass(frozen=True, slots=True)
class Forget:
    """The group is dead: drop it."""

    group_id: str = ""  # groups.py fills it in


GroupAction = Reply | Publish | Forget
