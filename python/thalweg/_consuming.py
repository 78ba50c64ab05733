"""What KafkaConsumer and AIOKafkaConsumer have in common on the Python side.

    config.configured() ──> Config ──> Hooks: the Python steps of `poll`, for the native core
    arguments ── checked ──> what the core takes      its answers ──> what the user is given

What is deliberately absent: waiting, in which the two differ.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from thalweg import interceptor, metrics
from thalweg._coerce import duration_ms
from thalweg.config import Config
from thalweg.errors import IllegalStateError, NoOffsetForPartitionError
from thalweg.serializer import deserialize_function
from thalweg.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "Hooks",
    "check_assigned",
    "check_bytes",
    "checked",
    "chosen",
    "names_given",
    "offset_given",
    "offsets_of",
    "reset_kind",
    "reset_since_ms",
    "targets_of",
    "time_targets",
    "times_of",
    "visible_topics",
    "watched",
    "whole_ms",
]

_Listed = tuple[str, int, int, int, int]


class Hooks:
    """The Python steps of `poll`, for the native core; see `_core.ConsumerHooks`."""

    __slots__ = ("before_poll", "deserialize_key", "deserialize_value", "on_consume")

    def __init__(self, config: Mapping[str, Any], before_poll: Any) -> None:
        self.deserialize_key = deserialize_function(config["key_deserializer"])
        self.deserialize_value = deserialize_function(config["value_deserializer"])
        self.on_consume = interceptor.chain(config["interceptor_classes"], "on_consume")
        self.before_poll = before_poll


def watched(consumer: Any, client: Any, config: Config) -> metrics.Watch:
    """Has an opened consumer's reporters, statistics and listeners be told, until it is closed."""
    deserializers = config["key_deserializer"], config["value_deserializer"]
    own = [*deserializers, *config["interceptor_classes"], *config["metric_reporters"]]
    interceptor.tell_cluster(client.watch_cluster_id, own)
    return metrics.Watch(consumer, config, "consumer")


# ---------------------------------------------------------------------- what is given


def names_given(topics: Iterable[str]) -> list[str]:
    """Topics to subscribe to.

    Raises:
        TypeError: If it is one str.
    """
    if isinstance(topics, str):
        raise TypeError("topics must be a list of str, not one str")
    return list(topics)


def checked(partitions: Iterable[Any]) -> list[TopicPartition]:
    """Partitions as they were given.

    Raises:
        TypeError: If one is no TopicPartition.
    """
    found = list(partitions)
    if not all(isinstance(each, TopicPartition) for each in found):
        raise TypeError("partitions must be TopicPartition namedtuples")
    return found


def check_assigned(core: Any, partition: Any) -> None:
    """Raises what a partition that is not assigned, or none at all, deserves."""
    if not isinstance(partition, TopicPartition):
        raise TypeError("partition must be a TopicPartition namedtuple")
    if partition not in core.assignment():
        raise IllegalStateError("Partition is not assigned")


def chosen(core: Any, partitions: Iterable[Any]) -> list[TopicPartition]:
    """Assigned partitions; all of them if none is named.

    Raises:
        ValueError: If one is not assigned, or nothing is.
    """
    assigned = core.assignment()
    found = checked(partitions) or sorted(assigned)
    if not found:
        raise ValueError("No partitions are currently assigned")
    for each in found:
        if each not in assigned:
            raise ValueError(f"Unassigned partition: {each}")
    return found


def offset_given(
    core: Any, partition: Any, offset: "int | OffsetAndMetadata", leader_epoch: int = -1
) -> tuple[int, int]:
    """An offset to seek to and the leader epoch before it, of an assigned partition.

    Raises:
        TypeError: If the partition is no TopicPartition.
        ValueError: If the offset is negative, or the partition is not assigned.
    """
    if isinstance(offset, OffsetAndMetadata):
        leader_epoch = offset.leader_epoch
        offset = offset.offset
    if not isinstance(partition, TopicPartition):
        raise TypeError("partition must be a TopicPartition namedtuple")
    if type(offset) is bool or not hasattr(offset, "__index__") or offset < 0:
        raise ValueError("Offset must be int >= 0")
    if partition not in core.assignment():
        raise ValueError(f"Unassigned partition: {partition}")
    return offset, leader_epoch


def check_bytes(config: Mapping[str, Any]) -> None:
    """Raises an IllegalStateError if a deserializer is set, as columns hold bytes."""
    for name in ("key_deserializer", "value_deserializer"):
        if config[name] is not None:
            raise IllegalStateError(f"poll_arrow() gives bytes, but {name} is set")


# ---------------------------------------------------------------------- lookups


def targets_of(partitions: Iterable[TopicPartition], timestamp: int) -> list[tuple[str, int, int]]:
    """For the core's `list_offsets`: one timestamp for all."""
    return [(*where, timestamp) for where in partitions]


def offsets_of(rows: Iterable[_Listed]) -> dict[TopicPartition, int]:
    """Its answer, as `beginning_offsets` gives it."""
    return {TopicPartition(topic, partition): offset for topic, partition, offset, _, _ in rows}


def time_targets(timestamps: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """For the core's `list_offsets`: a time for each.

    Raises:
        ValueError: If one is negative.
    """
    for where, timestamp in timestamps.items():
        if timestamp < 0:
            raise ValueError(
                f"The target time for partition {where} is {timestamp}. The target time"
                " cannot be negative."
            )
    return [(*where, int(timestamp)) for where, timestamp in timestamps.items()]


def times_of(rows: Iterable[_Listed]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Its answer, as `offsets_for_times` gives it."""
    return {
        TopicPartition(topic, partition): None
        if offset < 0
        else OffsetAndTimestamp(offset, timestamp, epoch)
        for topic, partition, offset, timestamp, epoch in rows
    }


def visible_topics(answer: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    """The topics of a Metadata answer that the user may see."""
    hidden = config["exclude_internal_topics"]
    return {
        row["Name"]
        for row in answer["Topics"]
        if row["ErrorCode"] == 0 and not (hidden and row["IsInternal"])
    }


# ---------------------------------------------------------------------- reset policy


def reset_kind(
    config: Mapping[str, Any], missing: Iterable[TopicPartition]
) -> Literal["earliest", "latest", "by_duration"]:
    """'earliest', 'latest' or 'by_duration', for partitions without committed offset.

    Raises:
        NoOffsetForPartitionError: If it is 'none'.
    """
    kind: Any = config["auto_offset_reset"].partition(":")[0]
    if kind == "none":
        names = ", ".join(f"{each.topic}-{each.partition}" for each in missing)
        raise NoOffsetForPartitionError(
            f"no committed offset for {names}, and auto_offset_reset is 'none'"
        )
    found: Literal["earliest", "latest", "by_duration"] = kind
    return found


def reset_since_ms(config: Mapping[str, Any]) -> int:
    """With 'by_duration', the time to read on from (KIP-1106)."""
    duration = config["auto_offset_reset"].partition(":")[2]
    return int(time.time() * 1000) - (duration_ms(duration) or 0)


def whole_ms(timeout_ms: float | None) -> int | None:
    """Whole milliseconds for the core; infinite is None."""
    if timeout_ms is None or timeout_ms == float("inf"):
        return None
    return int(timeout_ms)
