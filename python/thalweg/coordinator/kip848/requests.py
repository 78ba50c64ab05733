"""Checks a ConsumerGroupHeartbeat before its group gets it (KIP-848).

The rules, their order and the texts are those of Kafka 4.3, so that errors are the same. The bodies
that our members send are in heartbeats.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.kip848.patterns import PatternError
from thalweg.coordinator.kip848.topic_ids import IdPartition, id_partitions
from thalweg.errors import (
    BrokerResponseError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    UnsupportedAssignorError,
)

__all__ = [
    "JOIN",
    "LEAVE",
    "LEAVE_FOR_A_WHILE",
    "Refusal",
    "is_full",
    "not_a_pattern",
    "owned",
    "validate",
]

# Values of MemberEpoch with a special meaning.
JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2  # a static member leaves and will return

# A limit, because each view of the group lists all names.
SUBSCRIBED_NAMES_MAX: Final = 50_000

PARTITIONS_MAX: Final = 100_000
_MEMBER_ID_OF_THE_CLIENT = 1  # since this version, the client chooses the member id (KIP-1082)


class Refusal(Exception):
    """A request gets an error as its response, and has changed nothing."""

    def __init__(self, kind: type[BrokerResponseError], message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def validate(version: int, body: Mapping[str, Any], assignors: Sequence[str]) -> None:
    """Checks everything that does not depend on the group.

    Raises:
        Refusal: If a check fails, with Kafka's error and text.
    """
    epoch = body["MemberEpoch"]
    if not body["GroupId"]:
        raise Refusal(InvalidRequestError, "GroupId can't be empty.")
    if not body["MemberId"] and (version >= _MEMBER_ID_OF_THE_CLIENT or epoch != JOIN):
        raise Refusal(InvalidRequestError, "MemberId can't be empty.")
    for name in ("InstanceId", "RackId"):
        if body[name] == "":
            raise Refusal(InvalidRequestError, f"{name} can't be empty.")
    if epoch < LEAVE_FOR_A_WHILE:
        raise Refusal(InvalidRequestError, "MemberEpoch is invalid.")
    if epoch == LEAVE_FOR_A_WHILE and body["InstanceId"] is None:
        raise Refusal(InvalidRequestError, "InstanceId can't be null.")
    if len(body["SubscribedTopicNames"] or ()) > SUBSCRIBED_NAMES_MAX:
        text = f"A member may subscribe to at most {SUBSCRIBED_NAMES_MAX} topics by name."
        raise Refusal(InvalidRequestError, text)
    if sum(len(row["Partitions"]) for row in body["TopicPartitions"] or ()) > PARTITIONS_MAX:
        text = f"A member may own at most {PARTITIONS_MAX} partitions."
        raise Refusal(InvalidRequestError, text)
    if epoch == JOIN:
        _validate_join(body)
    assignor = body["ServerAssignor"]
    if assignor is not None and assignor not in assignors:
        raise Refusal(
            UnsupportedAssignorError,
            f"ServerAssignor {assignor} is not supported."
            f" Supported assignors: {', '.join(assignors)}.",
        )


def _validate_join(body: Mapping[str, Any]) -> None:
    if body["RebalanceTimeoutMs"] == -1:
        text = "RebalanceTimeoutMs must be provided in first request."
        raise Refusal(InvalidRequestError, text)
    if body["TopicPartitions"] is None or body["TopicPartitions"]:
        raise Refusal(InvalidRequestError, "TopicPartitions must be empty when (re-)joining.")
    if body["SubscribedTopicNames"] is None and body.get("SubscribedTopicRegex") is None:
        text = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining."
        )
        raise Refusal(InvalidRequestError, text)


def is_full(body: Mapping[str, Any]) -> bool:
    """Whether it is a full heartbeat, so that the response must have the complete assignment."""
    subscribes = (
        body["SubscribedTopicNames"] is not None or body.get("SubscribedTopicRegex") is not None
    )
    return subscribes and body["RebalanceTimeoutMs"] != -1 and body["TopicPartitions"] is not None


def owned(body: Mapping[str, Any]) -> frozenset[IdPartition] | None:
    """Returns the partitions that the member reports to own, or None if it reports none."""
    rows = body["TopicPartitions"]
    return None if rows is None else id_partitions(rows)


def not_a_pattern(regex: str, error: PatternError) -> Refusal:
    """Returns the refusal of a pattern that is not valid."""
    return Refusal(
        InvalidRegularExpressionError,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
    )
