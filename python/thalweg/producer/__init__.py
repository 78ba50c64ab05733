"""KafkaProducer: sends records; kafka-python's class on the native core.

    send() ──────────────────────────────> accumulator ──> batches ──> brokers      (Rust)
      └─ only where set: interceptors ─> serializers ─> partitioner                 (Python)

`send`, `send_many`, `send_arrow`, `flush`, `partitions_for` and the futures are the native
core's own: with no serializer, partitioner or interceptor set in Python, no Python runs per
record. Transactions are the core's as well. This module makes the core out of the options, and
closes it.
"""

import logging
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from thalweg import _closing, _core, _logging, _transactions, metrics
from thalweg._arguments import duration_given, keywords_only
from thalweg._core import (
    BatchMetadata,
    FutureBatchMetadata,
    FutureRecordMetadata,
)
from thalweg._option_help import options_listed
from thalweg._producing import Hooks, close_steps, records_failed, watched
from thalweg.config import Config, configured, options_of
from thalweg.serializer import Serializer
from thalweg.structs import RecordMetadata

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg._config_types import ProducerConfig

    # A lambda says nothing of its argument: mypy then takes the default, and pyright the bound.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = [
    "BatchMetadata",
    "FutureBatchMetadata",
    "FutureRecordMetadata",
    "KafkaProducer",
    "RecordMetadata",
]

log = logging.getLogger(__name__)


@options_listed("p")
class KafkaProducer(_core.Producer[K, V], Generic[K, V]):
    """Sends records to topics; may be shared by threads (`producer.KafkaProducer`).

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("topic", b"value", key=b"key")
            future.get(timeout=10).offset

    Idempotent and acks='all' by default (KIP-98, KIP-679). `send` only appends to a batch; the
    record's outcome is its future. Options are in docs/configuration.md; `K` and `V` are what
    the serializers take: bytes without them, anything where they are lambdas.

    Raises:
        KafkaConfigurationError: If options are unknown, bad or contradictory, with all of them.
        NoBrokersAvailable: If no bootstrap server answers within `bootstrap_timeout_ms`.
        TypeError: If the options are one dict: that is for `from_config`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        name: row.default for name, row in options_of("p").items()
    }

    config: Config
    _watch: metrics.Watch

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "KafkaProducer[bytes, bytes]",
            *,
            key_serializer: None = None,
            value_serializer: None = None,
            **configs: Unpack[ProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaProducer[K, bytes]",
            *,
            key_serializer: Serializer[K] | Callable[[K], bytes | None],
            value_serializer: None = None,
            **configs: Unpack[ProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaProducer[bytes, V]",
            *,
            key_serializer: None = None,
            value_serializer: Serializer[V] | Callable[[V], bytes | None],
            **configs: Unpack[ProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaProducer[K, V]",
            *,
            key_serializer: Serializer[K] | Callable[[K], bytes | None],
            value_serializer: Serializer[V] | Callable[[V], bytes | None],
            **configs: Unpack[ProducerConfig],
        ) -> None: ...
        def __init__(self, **configs: Any) -> None: ...

    else:

        @keywords_only
        def __init__(self, **configs):
            self._start(configs)

    def _start(self, given: Mapping[str, Any]) -> None:
        config = self.config = configured("p", "KafkaProducer", given)
        _logging.refresh()
        self._open(config.core(), Hooks.of(config))
        config.opened(self, lambda opened: opened.client.api_versions("any"))
        self._watch = watched(self, config, self.client.watch_cluster_id)
        _closing.watch(self, _close_at_exit)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A producer from a mapping, for Kafka's dotted names and librdkafka's.

        Args:
            config: Options under any of their names: {"bootstrap.servers": ..., ...}.

        Raises:
            KafkaConfigurationError: As the constructor.
        """
        return cls(**config)

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Sends what is buffered, then gives everything up.

        Args:
            timeout: Seconds to wait for acknowledgements; None waits, 0 gives up at once. What
                is left fails with a KafkaTimeoutError, and is counted in a logged warning.
            null_logger: kafka-python's; without effect.

        Raises:
            TypeError: If the timeout is no number.
            ValueError: If it is negative.
        """
        if timeout is not None:
            duration_given(timeout, "timeout", "seconds")
        was_open = not self.closed
        failed_before = records_failed(super().metrics()) if was_open else 0
        super().close(timeout)
        if was_open:
            left = records_failed(super().metrics()) - failed_before
            if left:
                log.warning("%r was closed with %d records not acknowledged", self, left)
            self._watch.close()
            close_steps(self.config)

    def metrics(self, raw: bool = False) -> Any:
        """Metrics of this producer under Kafka's names (monitoring page of Kafka's docs).

        Args:
            raw: False: {group: {name: value}}, where groups of one node or topic end in its name
                ('producer-topic-metrics.orders'); True: {MetricName: KafkaMetric}.

        Returns:
            The metrics; None with metrics_enabled=False.
        """
        return metrics.snapshot(super().metrics(), self.config, raw)

    @classmethod
    def max_usable_produce_magic(cls, api_version: tuple[int, ...]) -> int:
        """kafka-python's: the batch format of a broker version; thalweg always writes 2."""
        if api_version >= (0, 11):
            return 2
        return 1 if api_version >= (0, 10, 0) else 0

    # ------------------------------------------------------------------ transactions

    def init_transactions(self) -> None:
        """Gets the producer id for `transactional_id`: once, before the first transaction (KIP-98).

        Fences older producers of the same id, and waits until what they left open is ended.

        Raises:
            IllegalStateError: Without transactional_id, or if it was called before.
            KafkaTimeoutError: After max_block_ms. It goes on; call again to learn how it ended.
            FatalTransactionError: If the brokers refuse; see `begin_transaction`.
        """
        super().init_transactions()

    def begin_transaction(self) -> None:
        """Opens a transaction: what is sent from here on belongs to it. Asks no broker.

        Raises:
            IllegalStateError: If the state, which the message names, is not READY.
            FatalTransactionError: If the producer cannot go on: a ProducerFencedError if a newer
                one took over its transactional_id, a TransactionalIdAuthorizationFailedError,
                or another. Every call from then on raises the same; close the producer.
        """
        super().begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, Any],
        group_metadata: Any = None,
        *,
        consumer_group_id: str | None = None,
    ) -> None:
        """Commits a group's offsets if, and when, the transaction commits (KIP-98, KIP-447).

        Args:
            offsets: {TopicPartition: OffsetAndMetadata(next offset to read)}.
            group_metadata: `consumer.group_metadata()`, by which a member that the group has left
                behind is fenced; or the group's id.
            consumer_group_id: kafka-python 2's name of the second.

        Raises:
            IllegalStateError: Outside of a transaction.
            KafkaTimeoutError: After max_block_ms. It goes on, and commit_transaction waits for it.
            TransactionCommitFailedError: If the group has moved on: abort.
            AbortableTransactionError: If the transaction can only be aborted.
            FatalTransactionError: See `begin_transaction`.
            TypeError: If the arguments are something else.
            ValueError: If an offset is negative, or the group has no id.
        """
        rows = _transactions.offset_rows(offsets)
        self._send_offsets(rows, _transactions.group_fields(group_metadata, consumer_group_id))

    def commit_transaction(self) -> None:
        """Waits for all that was sent in the transaction, then commits it.

        Raises:
            IllegalStateError: Outside of a transaction.
            KafkaTimeoutError: After max_block_ms: the outcome is not known yet, and what was begun
                goes on. Call again to learn it; any other call raises IllegalStateError.
            AbortableTransactionError: If a record or request of it failed (the `__cause__`):
                nothing of it will be committed; call abort_transaction.
            FatalTransactionError: See `begin_transaction`.
        """
        super().commit_transaction()

    def abort_transaction(self) -> None:
        """Gives the transaction up. Records not sent yet fail with a TransactionAbortedError.

        Raises:
            IllegalStateError: Outside of a transaction.
            KafkaTimeoutError: After max_block_ms; as for `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        super().abort_transaction()

    def transaction(self) -> _transactions.Transaction:
        """A `with` block as one transaction.

            with producer.transaction():
                producer.send("topic", b"value")

        Commits at its end. If the block raises, or something of the transaction failed, it is
        aborted and the error raised. After a KafkaTimeoutError of the commit itself the outcome
        is not known: call `commit_transaction` until it is. Commit or abort nothing inside of the
        block, whose end would then find no transaction.
        """
        return _transactions.Transaction(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # As kafka-python does: records of a producer that nobody holds any more are still sent.
        if not getattr(self, "config", None) or self.closed:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
        self.close(timeout=_closing.AT_EXIT_SECONDS)

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return (
            f"<KafkaProducer client_id={config.get('client_id')}"
            f" transactional_id={config.get('transactional_id')}>"
        )


def _close_at_exit(producer: Any) -> None:
    failed_before = records_failed(_core.Producer.metrics(producer))
    producer.close(timeout=_closing.AT_EXIT_SECONDS)
    failed = records_failed(_core.Producer.metrics(producer)) - failed_before
    _closing.tell_of_lost(producer, failed)
