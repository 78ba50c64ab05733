"""Interceptors: your code that sees every record (KIP-42).

    send() ── ProducerInterceptor.on_send ──> ... ── on_acknowledgement ──> (callback thread)
    poll() ── ConsumerInterceptor.on_consume ──> the caller     commit ── on_commit

Interceptors run in the order in which the option lists them. If an interceptor raises, or returns
anything other than records, the client logs the error and continues with the record as it was
before this interceptor. The client calls `on_acknowledgement` for every record, even if the record
failed before it reached a batch. If an interceptor, serializer, partitioner or metrics reporter has
a method `on_update`, the client calls it with the cluster ID: see ClusterResourceListener.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from thalweg.structs import ClusterResource, OffsetAndMetadata, RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from thalweg._core import ConsumerRecord

__all__ = [
    "ClusterResourceListener",
    "ConsumerInterceptor",
    "ProducerInterceptor",
    "ProducerRecord",
]

log = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """The arguments of `send`, before serialization (`producer.ProducerRecord`)."""

    topic: str
    value: Any = None
    key: Any = None
    headers: list[tuple[str, bytes]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Base class of producer interceptors (`producer.ProducerInterceptor`).

    Override the methods that you need.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once with the producer's options, without secrets."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record to send. Use `record._replace(...)` to change it."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        """Called when the result is known. One of the arguments is None.

        The callback thread calls this method, so it must be quick.
        """

    def close(self) -> None:
        """Called when the producer is closed."""


class ConsumerInterceptor:
    """Base class of consumer interceptors (`consumer.ConsumerInterceptor`).

    Override the methods that you need.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once with the consumer's options, without secrets."""

    def on_consume(
        self, records: "dict[TopicPartition, list[ConsumerRecord[Any, Any]]]"
    ) -> "dict[TopicPartition, list[ConsumerRecord[Any, Any]]]":
        """Returns the records that `poll` returns."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after a commit, with the committed offsets."""

    def close(self) -> None:
        """Called when the consumer is closed."""


class ClusterResourceListener:
    """Gets the cluster ID (`org.apache.kafka.common.ClusterResourceListener`).

    You need not derive from this class: a method `on_update` is enough.
    """

    def on_update(self, cluster_resource: ClusterResource) -> None:
        """Called in the callback thread when the ID becomes known, and when it changes."""


def tell_cluster(
    watch_cluster_id: Callable[[Callable[[str], object]], object], things: Iterable[Any]
) -> None:
    """Calls `on_update` of every object that has it when the cluster's ID becomes known."""
    listeners = [each for each in things if hasattr(each, "on_update")]

    def tell(cluster_id: str) -> None:
        for each in listeners:
            try:
                each.on_update(ClusterResource(cluster_id))
            except Exception:
                log.exception("on_update of %r raised", each)

    if listeners:
        watch_cluster_id(tell)


def _overridden(interceptors: Sequence[Any], verb: str) -> list[Callable[..., Any]]:
    """Returns the methods `verb` of the interceptors, without those of the base classes."""
    bases = (ProducerInterceptor, ConsumerInterceptor)
    idle = [getattr(base, verb) for base in bases if hasattr(base, verb)]
    methods = (getattr(each, verb, None) for each in interceptors)
    return [each for each in methods if each and getattr(each, "__func__", None) not in idle]


# What the methods of a chain must return: a check, and its description.
_RESULTS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "on_send": (lambda found: hasattr(found, "topic"), "a record"),
    "on_consume": (lambda found: isinstance(found, dict), "a dict of records"),
}


def _owner(method: Callable[..., Any]) -> str:
    return type(getattr(method, "__self__", method)).__qualname__


def chain(interceptors: Sequence[Any], verb: str) -> Callable[[Any], Any] | None:
    """Returns a function that passes a value through `verb` of each, or None if none has it.

    The function never raises. If an interceptor raises, it logs the error and passes the value on
    unchanged.
    """
    methods = _overridden(interceptors, verb)
    if not methods:
        return None
    is_usable, expected = _RESULTS[verb]

    def run(value: Any) -> Any:
        for method in methods:
            try:
                found = method(value)
                if not is_usable(found):
                    raise TypeError(f"{verb} must return {expected}, not {type(found).__name__}")
                value = found
            except Exception:
                log.exception(
                    "%s of the interceptor %s failed. The client keeps the previous value",
                    verb,
                    _owner(method),
                )
        return value

    return run


def notify(interceptors: Sequence[Any], verb: str) -> Callable[..., None] | None:
    """Returns a function that calls `verb` of each with its arguments, or None if none has it."""
    methods = _overridden(interceptors, verb)
    if not methods:
        return None

    def run(*args: Any) -> None:
        for method in methods:
            try:
                method(*args)
            except Exception:
                log.exception("%s of the interceptor %s raised", verb, _owner(method))

    return run
