"""Parses the options of the data source, and refuses them with the Kafka connector's messages.

Names and meanings are those of Spark's Kafka connector (``spark-sql-kafka-0-10``). To change a job
to this source, replace ``.format("kafka")`` with ``.format("thalweg")``. Spark converts option
names to lower case before they arrive here. This module sends no requests to brokers:
``offset_reader.py`` looks up the offsets.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from thalweg._version import __version__
from thalweg.spark.client_config import ClientConfig, warn_of_visible_secrets
from thalweg.spark.option_names import check_names

LATEST = -1
EARLIEST = -2

Side = Literal["starting", "ending"]
Mode = Literal["batch", "stream"]

_STRATEGIES = ("assign", "subscribe", "subscribepattern")
_DEFAULT_FETCH_RETRIES = 3
_DEFAULT_RETRY_INTERVAL_MS = 1_000
_DEFAULT_POLL_TIMEOUT_MS = 120_000
# A task reads only one partition, so it cannot fetch several in parallel. Larger fetches help.
_SOURCE_DEFAULTS = {"max.partition.fetch.bytes": "8388608"}
# Rows arrive in Arrow batches of about 1 MB, and no caller waits for a single row.
_SINK_DEFAULTS = {"batch.size": "131072"}

_REFUSED_CONSUMER = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
        "'startingoffsets' to 'earliest' or 'latest' to specify where to start. Structured "
        "Streaming manages which offsets are consumed internally, rather than relying on the "
        "kafkaConsumer to do it."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte "
        "arrays. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
        "arrays. Use DataFrame operations to explicitly deserialize the values."
    ),
    "enable.auto.commit": (
        "Kafka option 'enable.auto.commit' is not supported as the source does not commit any "
        "offsets."
    ),
    "interceptor.classes": (
        "Kafka option 'interceptor.classes' is not supported as the source always reads keys and "
        "values as byte arrays, which is not safe to intercept."
    ),
}
_REFUSED_PRODUCER = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized as byte arrays. "
        "Use DataFrame operations to explicitly serialize the keys."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as values are serialized as byte "
        "arrays. Use DataFrame operations to explicitly serialize the values."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported as the sink writes each record at least "
        "once, outside of transactions. Tasks would also fence each other by sharing it."
    ),
}
# Options of the connector that are not supported yet. To ignore one would change what a job reads.
_NOT_YET = ("minoffsetspertrigger", "maxtriggerdelay")


@dataclass(frozen=True)
class Strategy:
    """The choice of partitions, by exactly one of three options."""

    kind: Literal["assign", "subscribe", "subscribepattern"]
    assigned: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""

    def matches(self, topic: str) -> bool:
        """Whether the complete topic name matches the pattern, as in Java's ``Matcher.matches``."""
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class OffsetSpec:
    """Where to start or to end: one rule for all partitions, or one for each partition.

    Attributes:
        everywhere: LATEST, EARLIEST or None.
        timestamp_ms: One time for all partitions, in Unix ms.
        offsets: {topic: {partition: offset}}. -1 means latest, -2 earliest.
        timestamps: {topic: {partition: Unix ms}}.
    """

    everywhere: int | None = None
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamps: Mapping[str, Mapping[int, int]] | None = None


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read. It can be pickled, and holds no connection."""

    mode: Mode
    strategy: Strategy
    starting: OffsetSpec
    ending: OffsetSpec
    client_config: ClientConfig
    fail_on_data_loss: bool = True
    include_headers: bool = False
    timestamp_strategy: Literal["error", "latest"] = "error"
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fetch_retries: int = _DEFAULT_FETCH_RETRIES
    retry_interval_ms: int = _DEFAULT_RETRY_INTERVAL_MS
    poll_timeout_ms: int = _DEFAULT_POLL_TIMEOUT_MS
    planned_by: str = __version__


@dataclass(frozen=True)
class SinkOptions:
    """All options of a write. It can be pickled, and holds no connection."""

    topic: str | None
    client_config: ClientConfig = field(default_factory=ClientConfig)
    planned_by: str = __version__


def parse_source(options: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Reads and checks the options of a batch or stream read.

    Args:
        options: The user's options. Upper and lower case of the keys do not matter.
        mode: ``"batch"`` or ``"stream"``. Some options are allowed in only one of them.

    Returns:
        The parsed options.

    Raises:
        ValueError: For the first wrong or misspelled option, with the Kafka connector's message
            where it has one.
    """
    given = ClientConfig((key.lower(), value) for key, value in options.items())
    _refuse_unsupported(given, _REFUSED_CONSUMER)
    check_names(given, "read")
    warn_of_visible_secrets(given)
    for name in _NOT_YET:
        if name in given:
            raise ValueError(
                f"Option '{name}' is not supported by thalweg yet; use maxOffsetsPerTrigger "
                "and a processing-time trigger instead."
            )
    strategy = _strategy(given)
    starting, ending = _specs(given, mode, strategy)
    return SourceOptions(
        mode=mode,
        strategy=strategy,
        starting=starting,
        ending=ending,
        client_config=_client_config(given, "consumer", _SOURCE_DEFAULTS),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
        include_headers=_boolean(given, "includeHeaders", default=False),
        timestamp_strategy=_timestamp_strategy(given),
        max_offsets_per_trigger=_positive(given, "maxOffsetsPerTrigger"),
        min_partitions=_positive(given, "minPartitions"),
        max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
        fetch_retries=_positive(given, "fetchOffset.numRetries") or _DEFAULT_FETCH_RETRIES,
        retry_interval_ms=_positive(given, "fetchOffset.retryIntervalMs")
        or _DEFAULT_RETRY_INTERVAL_MS,
        poll_timeout_ms=_positive(given, "kafkaConsumer.pollTimeoutMs") or _DEFAULT_POLL_TIMEOUT_MS,
    )


def check_version(planned_by: str) -> None:
    """Checks on an executor that the driver has the same version of thalweg.

    Raises:
        RuntimeError: If the versions differ. The message names both.
    """
    if planned_by != __version__:
        raise RuntimeError(
            f"This executor has thalweg {__version__} (in {sys.executable}), the driver has "
            f"{planned_by}. Install the same version on both."
        )


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Reads and checks the options of a batch or stream write.

    Raises:
        ValueError: For the first wrong or misspelled option, with the Kafka connector's message
            where it has one.
    """
    given = ClientConfig((key.lower(), value) for key, value in options.items())
    _refuse_unsupported(given, _REFUSED_PRODUCER)
    check_names(given, "write")
    warn_of_visible_secrets(given)
    topic = given.get("topic")
    return SinkOptions(
        topic=topic.strip() if topic is not None else None,
        client_config=_client_config(given, "producer", _SINK_DEFAULTS),
    )


def _strategy(given: Mapping[str, str]) -> Strategy:
    named = [name for name in _STRATEGIES if name in given]
    choices = "assign, subscribe, subscribePattern"
    if not named:
        raise ValueError(
            f"One of the following options must be specified for Kafka source: {choices}. "
            "See the docs for more details."
        )
    if len(named) > 1:
        raise ValueError(
            f"Only one of the following options can be specified for Kafka source: {choices}. "
            "See the docs for more details."
        )
    value = given[named[0]].strip()
    if named[0] == "assign":
        return Strategy("assign", assigned=_assigned(value))
    if named[0] == "subscribe":
        topics = tuple(topic for topic in (part.strip() for part in value.split(",")) if topic)
        if not topics:
            raise ValueError(
                "No topics to subscribe to as specified value for option 'subscribe' is "
                f"'{given['subscribe']}'"
            )
        return Strategy("subscribe", topics=topics)
    if not value:
        raise ValueError(
            "Pattern to subscribe is empty as specified value for option 'subscribePattern' is "
            f"'{given['subscribepattern']}'"
        )
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(
            f"Option 'subscribePattern' is not a regular expression: '{value}': {error}"
        ) from None
    return Strategy("subscribepattern", pattern=value)


def _assigned(value: str) -> tuple[tuple[str, int], ...]:
    if not value.startswith("{"):
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
        )
    hint = f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {value}'
    try:
        parsed = _json(value)
        pairs = sorted({(topic, _index(p)) for topic, ps in parsed.items() for p in ps})
    except (ValueError, TypeError, AttributeError):
        raise ValueError(hint) from None
    if not pairs:
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
        )
    return tuple(pairs)


def _index(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(value)
    return value


def _specs(
    given: Mapping[str, str], mode: Mode, strategy: Strategy
) -> tuple[OffsetSpec, OffsetSpec]:
    starting = _spec(given, "starting", EARLIEST if mode == "batch" else LATEST, strategy)
    if mode == "stream":
        for name in ("endingoffsets", "endingoffsetsbytimestamp"):
            if name in given:
                raise ValueError("ending offset not valid in streaming queries")
        if "endingtimestamp" in given:
            raise ValueError("ending timestamp not valid in streaming queries")
        return starting, OffsetSpec(everywhere=LATEST)
    if starting.everywhere == LATEST:
        raise ValueError("starting offset can't be latest for batch queries on Kafka")
    _refuse_in_batch(starting, LATEST, "startingOffsets", "latest")
    ending = _spec(given, "ending", LATEST, strategy)
    if ending.everywhere == EARLIEST:
        raise ValueError("ending offset can't be earliest for batch queries on Kafka")
    _refuse_in_batch(ending, EARLIEST, "endingOffsets", "earliest")
    return starting, ending


def _refuse_in_batch(spec: OffsetSpec, offset: int, option: str, word: str) -> None:
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
            return OffsetSpec(timestamp_ms=int(timestamp.strip()))
        except ValueError:
            raise ValueError(f"Expected a single long value, got {timestamp}") from None
    by_partition = given.get(f"{side}offsetsbytimestamp")
    if by_partition is not None:
        times = _partition_map(by_partition, example=123456789)
        _check_complete(times, strategy, f"{side}OffsetsByTimestamp")
        return OffsetSpec(timestamps=times)
    value = given.get(f"{side}offsets")
    if value is None:
        return OffsetSpec(everywhere=default)
    word = value.strip().lower()
    if word == "latest":
        return OffsetSpec(everywhere=LATEST)
    if word == "earliest":
        return OffsetSpec(everywhere=EARLIEST)
    offsets = _partition_map(value, example=23)
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST:
                raise ValueError(
                    f"{side}Offsets for {topic}-{partition} is {offset}: expected an offset, "
                    "-1 for latest or -2 for earliest"
                )
    _check_complete(offsets, strategy, f"{side}Offsets")
    return OffsetSpec(offsets=offsets)


def _partition_map(text: str, example: int) -> dict[str, dict[int, int]]:
    hint = f'Expected e.g. {{"topicA":{{"0":{example},"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    try:
        parsed = _json(text)
        result = {
            topic: {_index(int(p)): _long(offset) for p, offset in partitions.items()}
            for topic, partitions in parsed.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise ValueError(hint) from None
    return result


def _json(text: str) -> Any:
    """Parses JSON, and refuses a duplicate name, whose first value would be lost."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(pairs)
        return found

    return json.loads(text, object_pairs_hook=unique)


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


def _names(partitions: set[tuple[str, int]]) -> str:
    return "[" + ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) + "]"


def _refuse_unsupported(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for given_name in given:
        name = given_name.removeprefix("kafka.").replace("_", ".")
        if given_name.startswith("kafka.") and name in refused:
            raise ValueError(refused[name])


def _client_config(
    given: Mapping[str, str], client: str, defaults: Mapping[str, str]
) -> ClientConfig:
    config = {key[6:]: value for key, value in given.items() if key.startswith("kafka.")}
    named = {key.replace("_", ".") for key in config}
    config = {key: value for key, value in defaults.items() if key not in named} | config
    if not config.get("bootstrap.servers", "").strip():
        raise ValueError(
            f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}"
        )
    return ClientConfig(config)


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name.lower())
    if value is None:
        return default
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"Option '{name}' must be true or false, got '{value}'")
    return word == "true"


def _positive(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    if value is None:
        return None
    try:
        number = int(value.strip())
    except ValueError:
        raise ValueError(f"{name} must be a positive whole number, got '{value}'") from None
    if number <= 0:
        raise ValueError(f"{name} must be positive, got '{value}'")
    return number


def _timestamp_strategy(given: Mapping[str, str]) -> Literal["error", "latest"]:
    value = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if value == "error":
        return "error"
    if value == "latest":
        return "latest"
    raise ValueError(
        f"Option 'startingOffsetsByTimestampStrategy' must be 'error' or 'latest', got '{value}'"
    )
