"""Parses where a read starts and ends: offsets, timestamps, or words such as earliest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from thalweg.spark.strategy import Strategy, partition_index, unique_json

LATEST = -1
EARLIEST = -2
_WORDS = {"latest": LATEST, "earliest": EARLIEST}
# Committed offsets of a group, and where partitions without one start.
_GROUP = {"group": EARLIEST, "group:earliest": EARLIEST, "group:latest": LATEST}

Side = Literal["starting", "ending"]
Mode = Literal["batch", "stream"]


@dataclass(frozen=True)
class OffsetSpec:
    """Where to start or to end: one rule for all partitions, or one for each partition.

    Attributes:
        everywhere: LATEST, EARLIEST or None.
        timestamp_ms: One time for all partitions, in Unix ms.
        offsets: {topic: {partition: offset}}. -1 means latest, -2 earliest.
        timestamps: {topic: {partition: Unix ms}}.
        topics: {topic: LATEST or EARLIEST}: the rule for all partitions of a topic.
        of_group: Whether partitions start at the committed offset of a group, if it has one. Those
            without one start at `everywhere`.
    """

    everywhere: int | None = None
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamps: Mapping[str, Mapping[int, int]] | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    of_group: bool = False


def parse_specs(
    given: Mapping[str, str], mode: Mode, strategy: Strategy
) -> tuple[OffsetSpec, OffsetSpec]:
    """Reads the options of the start and of the end.

    Args:
        given: The options, with names in lower case.
        mode: Whether it is a batch read or a stream read.
        strategy: The choice of partitions. With ``assign``, offsets must name the same partitions.

    Returns:
        The start and the end.

    Raises:
        ValueError: For the first wrong value, with the Kafka connector's message where it has one.
    """
    starting = _spec(given, "starting", EARLIEST if mode == "batch" else LATEST, strategy)
    if mode == "stream":
        for name in ("endingOffsets", "endingOffsetsByTimestamp"):
            if name.lower() in given:
                raise ValueError(
                    f"ending offset not valid in streaming queries: remove the option '{name}'"
                )
        if "endingtimestamp" in given:
            raise ValueError(
                "ending timestamp not valid in streaming queries: remove the option"
                " 'endingTimestamp'"
            )
        return starting, OffsetSpec(everywhere=LATEST)
    if starting.everywhere == LATEST and not starting.of_group:
        raise ValueError(
            "starting offset can't be latest for batch queries on Kafka. Set 'startingOffsets' to"
            " 'earliest' or to offsets"
        )
    _refuse_in_batch(starting, LATEST, "startingOffsets", "latest")
    ending = _spec(given, "ending", LATEST, strategy)
    if ending.everywhere == EARLIEST:
        raise ValueError(
            "ending offset can't be earliest for batch queries on Kafka. Set 'endingOffsets' to"
            " 'latest' or to offsets"
        )
    _refuse_in_batch(ending, EARLIEST, "endingOffsets", "earliest")
    _check_order(starting, ending)
    return starting, ending


def _check_order(starting: OffsetSpec, ending: OffsetSpec) -> None:
    """Compares a start and an end of the same kind, before any broker is asked."""
    if starting.timestamp_ms is not None and ending.timestamp_ms is not None:
        if starting.timestamp_ms > ending.timestamp_ms:
            raise _unresolved("all partitions", starting.timestamp_ms, ending.timestamp_ms)
        return
    if starting.topics or ending.topics:
        return  # A word names all partitions of a topic, which only the brokers know.
    if starting.offsets is not None and ending.offsets is not None:
        start, end = flat(starting.offsets), flat(ending.offsets)
    elif starting.timestamps is not None and ending.timestamps is not None:
        start, end = flat(starting.timestamps), flat(ending.timestamps)
    else:
        return
    if set(start) != set(end):
        raise ValueError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The start and the "
            "end of a batch must name the same partitions. topic-partitions for start offset: "
            f"{_names(set(start))}, topic-partitions for end offset: {_names(set(end))}"
        )
    for (topic, partition), begin in sorted(start.items()):
        until = end[topic, partition]
        if begin > until >= 0:
            raise _unresolved(f"{topic}-{partition}", begin, until)


def _unresolved(place: str, begin: int, until: int) -> ValueError:
    return ValueError(
        f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The start {begin} of {place} is "
        f"greater than its end {until}. Choose an earlier start or a later end."
    )


def _refuse_in_batch(spec: OffsetSpec, offset: int, option: str, word: str) -> None:
    for topic, everywhere in spec.topics.items():
        if everywhere == offset:
            raise ValueError(f"{option} for {topic} can't be {word} for batch queries on Kafka")
    for topic, partitions in (spec.offsets or {}).items():
        for partition, value in partitions.items():
            if value == offset:
                raise ValueError(
                    f"{option} for {topic}-{partition} can't be {word} for batch queries on Kafka"
                )


def _spec(given: Mapping[str, str], side: Side, default: int, strategy: Strategy) -> OffsetSpec:
    """Parses the options of one side, in the connector's order of precedence.

    First one timestamp for all partitions, then timestamps by partition, then offsets.
    """
    timestamp = given.get(f"{side}timestamp")
    if timestamp is not None:
        try:
            return OffsetSpec(timestamp_ms=_long(int(timestamp.strip())))
        except ValueError:
            raise ValueError(
                f"Option '{side}Timestamp': Expected a single long value, got {timestamp}"
            ) from None
    by_partition = given.get(f"{side}offsetsbytimestamp")
    if by_partition is not None:
        option = f"{side}OffsetsByTimestamp"
        times, _ = _partition_map(by_partition, option, example=123456789, words={})
        _check_complete(times, strategy, option)
        return OffsetSpec(timestamps=times)
    value = given.get(f"{side}offsets")
    if value is None:
        return OffsetSpec(everywhere=default)
    word = value.strip().lower()
    if word == "latest":
        return OffsetSpec(everywhere=LATEST)
    if word == "earliest":
        return OffsetSpec(everywhere=EARLIEST)
    if side == "starting" and word in _GROUP:
        if not given.get("commitgroupid", "").strip():
            raise ValueError(
                f"startingOffsets={word} needs the option commitGroupId: the group whose committed"
                " offsets are the start"
            )
        return OffsetSpec(everywhere=_GROUP[word], of_group=True)
    offsets, topics = _partition_map(value, f"{side}Offsets", example=23, words=_WORDS)
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST:
                raise ValueError(
                    f"{side}Offsets for {topic}-{partition} is {offset}: expected an offset, "
                    "-1 for latest or -2 for earliest"
                )
    if not topics:
        _check_complete(offsets, strategy, f"{side}Offsets")
    return OffsetSpec(offsets=offsets, topics=topics)


def _partition_map(
    text: str, option: str, example: int, words: Mapping[str, int]
) -> tuple[dict[str, dict[int, int]], dict[str, int]]:
    """Parses JSON into numbers by partition, and words by topic.

    ``{"a": {"0": 5}, "b": "earliest"}`` returns ``({"a": {0: 5}}, {"b": EARLIEST})``.
    """
    hint = (
        f"Option '{option}': Expected e.g. "
        f'{{"topicA":{{"0":{example},"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    )
    numbers: dict[str, dict[int, int]] = {}
    by_topic: dict[str, int] = {}
    try:
        for topic, value in unique_json(text).items():
            if isinstance(value, str):
                by_topic[topic] = words[value.strip().lower()]
            else:
                numbers[topic] = {
                    partition_index(int(p)): _long(number) for p, number in value.items()
                }
                if len(numbers[topic]) < len(value):  # "0" and "00"
                    raise ValueError(hint)
    except (ValueError, TypeError, AttributeError, KeyError):
        raise ValueError(hint) from None
    return numbers, by_topic


def _long(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise ValueError(value)
    return value


def _check_complete(
    given: Mapping[str, Mapping[int, int]], strategy: Strategy, option: str
) -> None:
    """Compares with the option ``assign``, whose partitions are known without a broker."""
    if strategy.kind != "assign":
        return
    named = {(topic, partition) for topic, ps in given.items() for partition in ps}
    if named != set(strategy.assigned):
        raise mismatch(option, set(strategy.assigned), named)


def mismatch(
    option: str, assigned: set[tuple[str, int]], named: set[tuple[str, int]]
) -> ValueError:
    """Returns the connector's error if the given offsets do not cover the partitions to read."""
    return ValueError(
        f"If {option} contains specific offsets, you must specify all TopicPartitions. "
        "Use -1 for latest, -2 for earliest. "
        f"Specified: {_names(named)} Assigned: {_names(assigned)}"
    )


def flat(nested: Mapping[str, Mapping[int, int]]) -> dict[tuple[str, int], int]:
    """Returns numbers by (topic, partition)."""
    return {(topic, p): value for topic, ps in nested.items() for p, value in ps.items()}


def _names(partitions: set[tuple[str, int]]) -> str:
    return "[" + ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) + "]"
