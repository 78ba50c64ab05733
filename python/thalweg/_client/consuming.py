"""The Python code that KafkaConsumer and AIOKafkaConsumer share.

    config.configured() ──> Config ──> Hooks: the Python steps of `poll`, for the native core
    arguments ── checked ──> arguments of the core      results of the core ──> results for the user

It does not wait: the two consumers wait in different ways.
"""

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, Protocol

from thalweg import interceptor, metrics
from thalweg._client.arguments import (
    count_given,
    duration_given,
    mapping_given,
    number_given,
    partition_given,
    partitions_given,
    partitions_named,
    shown,
    topics_given,
)
from thalweg._client.closing import close_objects
from thalweg._config.coerce import duration_ms
from thalweg.config import Config
from thalweg.errors import IllegalStateError, NoOffsetForPartitionError
from thalweg.serializer import deserialize_function
from thalweg.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "Hooks",
    "check_any_assigned",
    "check_assigned",
    "check_bytes",
    "check_limits",
    "chosen",
    "close_steps",
    "limit_ms",
    "offset_given",
    "offsets_of",
    "reset_kind",
    "reset_since_ms",
    "subscription_given",
    "targets_of",
    "time_targets",
    "times_of",
    "visible_topics",
    "watched",
    "whole_ms",
]

log = logging.getLogger("thalweg.consumer")

_Listed = tuple[str, int, int, int, int]

_MS: Final = "milliseconds"
_TIMES: Final = "{TopicPartition: milliseconds since 1970}"
_LONGEST_MS: Final = 2**31 - 1  # 24 days, in practice no limit
_ASSIGNED_SHOWN_MAX: Final = 5
_HOW_TO_GET_SOME: Final = (
    "call assign(), or call subscribe() and then read records until the group assigns partitions"
)


class Assigned(Protocol):
    """A consumer, as far as the checks of arguments need it."""

    def assignment(self) -> set[TopicPartition]:
        """Returns the assigned partitions."""


class Hooks:
    """The Python steps of `poll`, for the native core; see `_core.ConsumerHooks`."""

    __slots__ = ("before_poll", "deserialize_key", "deserialize_value", "on_consume")

    def __init__(self, config: Mapping[str, Any], before_poll: Any) -> None:
        self.deserialize_key = deserialize_function(config["key_deserializer"])
        self.deserialize_value = deserialize_function(config["value_deserializer"])
        self.on_consume = interceptor.chain(config["interceptor_classes"], "on_consume")
        self.before_poll = before_poll


def watched(consumer: Any, client: Any, config: Config) -> metrics.Watch:
    """Starts to call the metrics reporters, `stats_cb` and cluster listeners of a consumer.

    The returned Watch stops the reporters and `stats_cb` when it is closed.
    """
    deserializers = config["key_deserializer"], config["value_deserializer"]
    own = [*deserializers, *config["interceptor_classes"], *config["metric_reporters"]]
    interceptor.tell_cluster(client.watch_cluster_id, own)
    return metrics.Watch(consumer, config, "consumer")


# ---------------------------------------------------------------------- arguments


def subscription_given(topics: Any, pattern: Any) -> tuple[list[str], Any]:
    """Returns the topics and the pattern of a `subscribe`. At least one of them must be given.

    An empty pattern counts as no pattern, as in kafka-python: it would match every topic.

    Raises:
        TypeError: If topics or pattern has a wrong type.
        InvalidTopicError: If a topic name is not valid.
        ValueError: If neither topics nor pattern is given.
    """
    names = [] if topics is None else topics_given(topics)
    pattern = None if pattern == "" else pattern
    if pattern is not None and not isinstance(pattern, str | re.Pattern):
        raise TypeError(
            f"pattern must be a str, a re.Pattern or a SubscriptionPattern, got {shown(pattern)}"
        )
    if not names and pattern is None:
        raise ValueError("Must provide topics or pattern")
    return names, pattern


def _not_assigned(partition: TopicPartition, assigned: Collection[TopicPartition]) -> str:
    text = f"partition {partition.topic}-{partition.partition} is not assigned to this consumer"
    if not assigned:
        return f"{text}, and no other partition is: {_HOW_TO_GET_SOME}"
    first = sorted(assigned)[:_ASSIGNED_SHOWN_MAX]
    names = ", ".join(f"{each.topic}-{each.partition}" for each in first)
    more = len(assigned) - len(first)
    return f"{text}, which has {names}{f' and {more} more' if more else ''}"


def check_any_assigned(core: Assigned, partitions: Collection[TopicPartition]) -> None:
    """Raises IllegalStateError if none of the partitions is assigned, as no record can arrive."""
    assigned = core.assignment()
    if assigned.isdisjoint(partitions):
        raise IllegalStateError(_not_assigned(next(iter(partitions)), assigned))


def check_assigned(core: Assigned, partition: Any) -> None:
    """Checks that the argument is an assigned partition.

    Raises:
        TypeError: If it is not a TopicPartition.
        IllegalStateError: If it is not assigned.
    """
    where = partition_given(partition)
    assigned = core.assignment()
    if where not in assigned:
        raise IllegalStateError(_not_assigned(where, assigned))


def chosen(core: Assigned, partitions: Collection[Any]) -> list[TopicPartition]:
    """Returns the given partitions, which must be assigned. Without any: all assigned ones.

    Raises:
        TypeError: If an argument is not a TopicPartition.
        ValueError: If a partition is not assigned, or none is.
    """
    assigned = core.assignment()
    found = partitions_named(partitions) or sorted(assigned)
    if not found:
        raise ValueError(f"No partitions are currently assigned: {_HOW_TO_GET_SOME}")
    for each in found:
        if each not in assigned:
            raise ValueError(_not_assigned(each, assigned))
    return found


def offset_given(
    core: Assigned, partition: Any, offset: Any, leader_epoch: int = -1
) -> tuple[int, int]:
    """Returns the offset to seek to and the leader epoch before it.

    Raises:
        TypeError: If the partition is not a TopicPartition.
        ValueError: If the offset is not an int >= 0, or the partition is not assigned.
    """
    where = partition_given(partition)
    if isinstance(offset, OffsetAndMetadata):
        leader_epoch = offset.leader_epoch
        offset = offset.offset
    if type(offset) is bool or not hasattr(offset, "__index__") or offset < 0:
        # Also for a wrong type a ValueError, as in kafka-python.
        name = f"{where.topic}-{where.partition}"
        raise ValueError(f"the offset of {name} must be an int, 0 or more, got {shown(offset)}")
    assigned = core.assignment()
    if where not in assigned:
        raise ValueError(_not_assigned(where, assigned))
    return offset, leader_epoch


def check_bytes(config: Mapping[str, Any]) -> None:
    """Raises IllegalStateError if a deserializer is set, because columns hold bytes."""
    for name in ("key_deserializer", "value_deserializer"):
        if config[name] is not None:
            raise IllegalStateError(
                f"poll_arrow() returns bytes, but {name} is set. Do not set it, or call poll()"
            )


def check_limits(max_records: Any, max_bytes: Any = None) -> None:
    """Checks the limits of a poll: each must be an int of at least 1, or None."""
    for name, given in (("max_records", max_records), ("max_bytes", max_bytes)):
        if given is not None:
            count_given(given, name)


# ---------------------------------------------------------------------- lookups


def targets_of(partitions: Iterable[TopicPartition], timestamp: int) -> list[tuple[str, int, int]]:
    """Returns the rows for the core's `list_offsets`, with one timestamp for all partitions.

    Raises:
        TypeError: If `partitions` is not a list of TopicPartitions.
        ValueError: If a partition is negative.
        InvalidTopicError: If a topic name is not valid.
    """
    return [(*where, timestamp) for where in partitions_given(partitions)]


def offsets_of(rows: Iterable[_Listed]) -> dict[TopicPartition, int]:
    """Converts the result of the core's `list_offsets` to that of `beginning_offsets`."""
    return {TopicPartition(topic, partition): offset for topic, partition, offset, _, _ in rows}


def time_targets(timestamps: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """Returns the rows for the core's `list_offsets`, with the timestamp of each partition.

    Raises:
        TypeError: If `timestamps` is not a {TopicPartition: number}.
        ValueError: If a timestamp is negative.
    """
    found: list[tuple[str, int, int]] = []
    for key, timestamp in mapping_given(timestamps, "timestamps", _TIMES).items():
        where = partition_given(key)
        name = f"the target time of {where.topic}-{where.partition}"
        if number_given(timestamp, name, "milliseconds since 1970") < 0:
            raise ValueError(
                f"The target time for partition {where} is {timestamp}. The target time"
                " cannot be negative."
            )
        found.append((*where, int(timestamp)))
    return found


def times_of(rows: Iterable[_Listed]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Converts the result of the core's `list_offsets` to that of `offsets_for_times`."""
    return {
        TopicPartition(topic, partition): None
        if offset < 0
        else OffsetAndTimestamp(offset, timestamp, epoch)
        for topic, partition, offset, timestamp, epoch in rows
    }


def visible_topics(response: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    """Returns the topics of a Metadata response, without internal ones if the option says so."""
    hidden = config["exclude_internal_topics"]
    return {
        row["Name"]
        for row in response["Topics"]
        if row["ErrorCode"] == 0 and not (hidden and row["IsInternal"])
    }


# ---------------------------------------------------------------------- reset policy


def reset_kind(
    config: Mapping[str, Any], missing: Iterable[TopicPartition]
) -> Literal["earliest", "latest", "by_duration"]:
    """Returns the reset policy for partitions without a committed offset.

    Raises:
        NoOffsetForPartitionError: If auto_offset_reset is 'none'.
    """
    kind: Any = config["auto_offset_reset"].partition(":")[0]
    if kind == "none":
        names = ", ".join(f"{each.topic}-{each.partition}" for each in missing)
        raise NoOffsetForPartitionError(
            f"no committed offset for {names}, and auto_offset_reset is 'none': call seek() to"
            " choose where to start"
        )
    found: Literal["earliest", "latest", "by_duration"] = kind
    return found


def reset_since_ms(config: Mapping[str, Any]) -> int:
    """Returns the time to begin at with 'by_duration', in Unix ms (KIP-1106).

    It is not negative, because brokers give negative times other meanings.
    """
    duration = config["auto_offset_reset"].partition(":")[2]
    return max(0, int(time.time() * 1000) - (duration_ms(duration) or 0))


def whole_ms(timeout_ms: float | None) -> int | None:
    """Converts a timeout to whole milliseconds for the core. Infinite becomes None.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is negative.
    """
    if timeout_ms is None or duration_given(timeout_ms, "timeout_ms", _MS) == float("inf"):
        return None
    return int(timeout_ms)


def limit_ms(timeout_ms: float | None, config: Mapping[str, Any]) -> int:
    """Returns how many milliseconds a call may take. None: default_api_timeout_ms.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is NaN.
    """
    if timeout_ms is None:
        return int(config["default_api_timeout_ms"])
    limit = number_given(timeout_ms, "timeout_ms", _MS)
    if limit != limit:
        raise ValueError("timeout_ms must be a number of milliseconds, got nan")
    return int(min(max(0, limit), _LONGEST_MS))


def close_steps(config: Mapping[str, Any]) -> None:
    """Calls `close()` of the deserializers and interceptors that have it. Logs exceptions."""
    deserializers = config["key_deserializer"], config["value_deserializer"]
    close_objects((*deserializers, *config["interceptor_classes"]), log)
