"""Parses the options of the data source, and refuses them with the Kafka connector's messages.

Names and meanings are those of Spark's Kafka connector (``spark-sql-kafka-0-10``). To change a job
to this source, replace ``.format("kafka")`` with ``.format("thalweg")``. Spark converts option
names to lower case before they arrive here. This module sends no requests to brokers:
``offset_reader.py`` looks up the offsets.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from thalweg._version import __version__
from thalweg.config import Client, IgnoredOptionWarning
from thalweg.spark.client_config import ClientConfig, warn_of_visible_secrets
from thalweg.spark.exactly_once.delivery import ExactlyOnce, parse_delivery
from thalweg.spark.offset_specs import Mode, OffsetSpec, parse_specs
from thalweg.spark.option_names import check_names
from thalweg.spark.schema import parse_columns
from thalweg.spark.strategy import Strategy, parse_strategy
from thalweg.spark.trigger_delay import milliseconds
from thalweg.spark.workers.task_memory import BATCH_BYTES, read_memory, write_memory

_TRANSACTION_TIMEOUT = ("transaction.timeout.ms", "transaction_timeout_ms")
_DEFAULT_FETCH_RETRIES = 3
_DEFAULT_RETRY_INTERVAL_MS = 1_000
_DEFAULT_POLL_TIMEOUT_MS = 120_000
_DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1_000
# Limits of a trigger. A batch read ignores them, with a warning, as the connector does.
_ONLY_IN_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
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
        "offsets. To commit the progress of a stream to a group, set 'commitGroupId'."
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
        "Kafka option 'transactional.id' is not supported as all tasks would share it and fence "
        "each other. To write in transactions, set 'delivery.guarantee' to 'exactly-once', and "
        "choose a 'transactional.id.prefix'."
    ),
}


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read. It can be pickled, and holds no connection."""

    mode: Mode
    strategy: Strategy
    starting: OffsetSpec
    ending: OffsetSpec
    client_config: ClientConfig
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    timestamp_strategy: Literal["error", "latest"] = "error"
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = _DEFAULT_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_partitions: int | None = None
    fetch_retries: int = _DEFAULT_FETCH_RETRIES
    retry_interval_ms: int = _DEFAULT_RETRY_INTERVAL_MS
    poll_timeout_ms: int = _DEFAULT_POLL_TIMEOUT_MS
    commit_group_id: str | None = None
    push_filters: bool = False
    batch_bytes: int = BATCH_BYTES
    driver_files: str | None = None  # see workers/files.py
    planned_by: str = __version__


@dataclass(frozen=True)
class SinkOptions:
    """All options of a write. It can be pickled, and holds no connection."""

    topic: str | None
    client_config: ClientConfig = field(default_factory=ClientConfig)
    exactly_once: ExactlyOnce | None = None
    driver_files: str | None = None  # see workers/files.py
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
    strategy = parse_strategy(given)
    starting, ending = parse_specs(given, mode, strategy)
    most, least = _trigger_limits(given, mode)
    memory = read_memory(given)
    return SourceOptions(
        mode=mode,
        strategy=strategy,
        starting=starting,
        ending=ending,
        client_config=_client_config(given, "consumer", memory.client),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
        columns=parse_columns(
            given, include_headers=_boolean(given, "includeHeaders", default=False)
        ),
        timestamp_strategy=_timestamp_strategy(given),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration(given, "maxTriggerDelay", _DEFAULT_TRIGGER_DELAY_MS),
        min_partitions=_positive(given, "minPartitions"),
        max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
        max_partitions=_max_partitions(given),
        commit_group_id=_group(given, mode, starting),
        push_filters=_push_filters(given, mode),
        fetch_retries=_positive(given, "fetchOffset.numRetries") or _DEFAULT_FETCH_RETRIES,
        retry_interval_ms=_positive(given, "fetchOffset.retryIntervalMs")
        or _DEFAULT_RETRY_INTERVAL_MS,
        poll_timeout_ms=_positive(given, "kafkaConsumer.pollTimeoutMs") or _DEFAULT_POLL_TIMEOUT_MS,
        batch_bytes=memory.batch_bytes,
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
    topic = given["topic"].strip() if "topic" in given else None
    config = _client_config(given, "producer", _SINK_DEFAULTS | write_memory(given))
    timeout_ms = next((config[name] for name in _TRANSACTION_TIMEOUT if name in config), None)
    delivery = parse_delivery(given, topic, timeout_ms)
    if delivery is not None:
        # The tasks set it under one of its names.
        kept = {name: value for name, value in config.items() if name not in _TRANSACTION_TIMEOUT}
        config = ClientConfig(kept)
    return SinkOptions(topic=topic, client_config=config, exactly_once=delivery)


def _refuse_unsupported(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for given_name in given:
        name = given_name.removeprefix("kafka.").replace("_", ".")
        if given_name.startswith("kafka.") and name in refused:
            raise ValueError(refused[name])


def _client_config(
    given: Mapping[str, str], client: Literal["consumer", "producer"], defaults: Mapping[str, str]
) -> ClientConfig:
    config = {key[6:]: value for key, value in given.items() if key.startswith("kafka.")}
    letter: Client = "c" if client == "consumer" else "p"
    config = ClientConfig(defaults).without(letter, config) | config
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


def _group(given: Mapping[str, str], mode: Mode, starting: OffsetSpec) -> str | None:
    """Returns the group to which a stream commits, and whose offsets ``group`` means."""
    group = given.get("commitgroupid")
    if group is None:
        return None
    if not group.strip():
        raise ValueError("Option 'commitGroupId' must be the name of a consumer group, got ''")
    if mode == "batch" and not starting.of_group:
        warnings.warn(
            "commitGroupId is ignored in batch queries, which commit nothing, unless"
            " startingOffsets=group",
            IgnoredOptionWarning,
            stacklevel=3,
        )
    return group.strip()


def _push_filters(given: Mapping[str, str], mode: Mode) -> bool:
    word = given.get("pushfilters", "false").strip().lower()
    if word not in ("false", "one-query"):
        raise ValueError(
            f"Option 'pushFilters' must be false or one-query, got '{word}'. Spark applies the"
            " filters of one query to every query and every branch of a query that uses the same"
            " load(). So with one-query, call load() again for each of them"
        )
    chosen = word == "one-query"
    if chosen and mode == "stream":
        warnings.warn(
            "pushFilters is ignored in streams: Spark passes the filters of batches only",
            IgnoredOptionWarning,
            stacklevel=3,
        )
    return chosen and mode == "batch"


def _max_partitions(given: Mapping[str, str]) -> int | None:
    """Returns the maximum number of tasks.

    Raises:
        ValueError: If another option splits what this one puts together.
    """
    most = _positive(given, "maxPartitions")
    for other in ("minPartitions", "maxRecordsPerPartition"):
        if most is not None and other.lower() in given:
            raise ValueError(
                f"maxPartitions and {other} exclude each other: one puts partitions together, the"
                " other splits them. Remove one of them"
            )
    return most


def _trigger_limits(given: Mapping[str, str], mode: Mode) -> tuple[int | None, int | None]:
    """Returns the maximum and the minimum number of offsets of a trigger."""
    most = _positive(given, "maxOffsetsPerTrigger")
    least = _positive(given, "minOffsetsPerTrigger")
    if mode == "batch":
        for name in _ONLY_IN_STREAMS:
            if name.lower() in given:
                warnings.warn(
                    f"{name} option ignored in batch queries", IgnoredOptionWarning, stacklevel=3
                )
    elif most is not None and least is not None and least > most:
        raise ValueError(
            f"The value of minOffsetPerTrigger({least}) is higher than the "
            f"maxOffsetsPerTrigger({most})."
        )
    return most, least


def _duration(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name.lower())
    if value is None:
        return default
    try:
        return milliseconds(value)
    except ValueError as error:
        raise ValueError(f"Option '{name}' is '{value}'. {error}") from None


def _timestamp_strategy(given: Mapping[str, str]) -> Literal["error", "latest"]:
    value = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if value == "error":
        return "error"
    if value == "latest":
        return "latest"
    raise ValueError(
        f"Option 'startingOffsetsByTimestampStrategy' must be 'error' or 'latest', got '{value}'"
    )
