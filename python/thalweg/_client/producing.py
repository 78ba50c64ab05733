"""The Python code that KafkaProducer and AIOKafkaProducer share.

    config.configured() ──> Config ──> Hooks: the Python steps of `send`, for the native core
                               └─────> close_steps(), when the producer is closed

It does not open or close producers: the two do so in different ways.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from thalweg import interceptor, metrics
from thalweg._client.closing import close_objects
from thalweg._client.notes import add_note
from thalweg.config import Config
from thalweg.partitioner import partition_function
from thalweg.serializer import SerializeFunction, serialize_function

__all__ = ["Hooks", "callbacks_limit", "close_steps", "records_failed", "watched"]

log = logging.getLogger("thalweg.producer")

# How long a close waits at least for callbacks, because records may fail at the end of its timeout.
_CALLBACKS_GRACE_S: Final = 1.0


class Hooks:
    """The Python steps of `send`, for the native core; see `_core.ProducerHooks`."""

    __slots__ = ("on_acknowledgement", "on_new_batch", "on_send", "partition", "serialize")

    def __init__(self, config: Mapping[str, Any]) -> None:
        chain = config["interceptor_classes"]
        self.on_send = interceptor.chain(chain, "on_send")
        self.on_acknowledgement = interceptor.notify(chain, "on_acknowledgement")
        self.serialize = _serialize_both(
            serialize_function(config["key_serializer"]),
            serialize_function(config["value_serializer"]),
        )
        self.partition = partition_function(config["partitioner"])
        self.on_new_batch: Callable[..., None] | None = None
        if self.partition is not None:
            self.on_new_batch = getattr(config["partitioner"], "on_new_batch", None)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self | None:
        """Returns the steps, or None if there are none. `send` then runs no Python."""
        hooks = cls(config)
        found = any(getattr(hooks, name) is not None for name in cls.__slots__)
        return hooks if found else None


def _serialize_both(
    key_serializer: SerializeFunction | None, value_serializer: SerializeFunction | None
) -> Callable[..., tuple[Any, Any]] | None:
    """Combines both serializers in one function, or returns None if neither is set.

    The function takes (topic, headers, key, value) and returns (key bytes, value bytes).
    """
    if key_serializer is None and value_serializer is None:
        return None

    def run(topic: str, headers: list[tuple[str, bytes]], key: Any, value: Any) -> tuple[Any, Any]:
        part = "key"
        try:
            if key_serializer is not None:
                key = key_serializer(topic, headers, key)
            part = "value"
            if value_serializer is not None:
                value = value_serializer(topic, headers, value)
        except Exception as error:
            add_note(error, f"while serializing the {part} of a record for topic {topic!r}")
            raise
        return key, value

    return run


def _users_own(config: Mapping[str, Any]) -> list[Any]:
    """Returns the user's own objects, which are closed with the producer."""
    names = ("key_serializer", "value_serializer", "partitioner")
    return [*(config[name] for name in names), *config["interceptor_classes"]]


def watched(
    producer: Any,
    config: Config,
    watch_cluster_id: Callable[[Callable[[str], object]], object],
) -> metrics.Watch:
    """Starts to call the metrics reporters, `stats_cb` and cluster listeners of a producer.

    The returned Watch stops the reporters and `stats_cb` when it is closed.
    """
    own = [*_users_own(config), *config["metric_reporters"]]
    interceptor.tell_cluster(watch_cluster_id, own)
    return metrics.Watch(producer, config, "producer")


def close_steps(config: Mapping[str, Any]) -> None:
    """Calls `close()` of the user's own objects that have it. Logs exceptions."""
    close_objects(_users_own(config), log)


def records_failed(groups: Mapping[str, Mapping[str, float]]) -> int:
    """Returns the number of records that have failed so far, from the core's metrics."""
    return int(groups.get("producer-metrics", {}).get("record-error-total", 0))


def callbacks_limit(timeout: float | None, took: float, config: Mapping[str, Any]) -> float:
    """Returns how many seconds a close waits for callbacks, after its records have results.

    Args:
        timeout: The timeout of the close in seconds, or None.
        took: How many seconds the close has taken so far.
        config: The producer's options.
    """
    if timeout == 0:
        return 0.0
    limit = config["delivery_timeout_ms"] / 1000 if timeout is None else float(timeout)
    return max(limit - took, _CALLBACKS_GRACE_S)
