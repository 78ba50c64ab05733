"""KafkaProducer: sends records; kafka-python's class on the native core.

    send() ──────────────────────────────> accumulator ──> batches ──> brokers      (Rust)
      └─ only where set: interceptors ─> serializers ─> partitioner                 (Python)

`send`, `send_many`, `send_arrow`, `flush`, `partitions_for`, the transactions and the futures are
native. If no serializer, partitioner or interceptor is set in Python, no Python code runs for a
record. This module opens the native producer with the options, and closes it.
"""

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from thalweg import _core, _logging, metrics
from thalweg._client import closing, transactions
from thalweg._client.arguments import duration_given, keywords_only
from thalweg._client.producing import Hooks, callbacks_limit, close_steps, records_failed, watched
from thalweg._config.concealment import concealed
from thalweg._config.option_help import options_listed
from thalweg._config.secret import Secret, hidden, revealed
from thalweg._core import (
    BatchMetadata,
    FutureBatchMetadata,
    FutureRecordMetadata,
)
from thalweg.config import Config, configured, options_of
from thalweg.serializer import Serializer
from thalweg.structs import PreparedTransaction, RecordMetadata

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg.typing import ProducerConfig

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
    """Sends records to topics. Several threads may share one producer (`producer.KafkaProducer`).

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("topic", b"value", key=b"key")
            future.get(timeout=10).offset

    By default, acks is 'all' and idempotence is on (KIP-98, KIP-679). `send` adds the record to a
    batch and returns a future for its result. docs/configuration.md describes the options. `K` and
    `V` are the types of keys and values: the types that the serializers accept, or bytes without
    serializers.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
        NoBrokersAvailable: If no bootstrap server responds within `bootstrap_timeout_ms`.
        SaslAuthenticationFailedError: If the brokers refuse the login.
        KafkaConnectionError: If TLS fails in a way that no retry can change, for example because
            the client does not trust the brokers' certificate.
        TypeError: If you give the options as one dict: use `from_config`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        name: row.default for name, row in options_of("p").items()
    }

    config: Config
    _watch: metrics.Watch
    # The process whose close() has to close serializers, interceptors and reporters.
    _open_in: int = 0

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
        config.opened(self, lambda opened: opened._core_client.api_versions("any"))
        self._watch = watched(self, config, self._core_client.watch_cluster_id)
        self._open_in = os.getpid()
        closing.watch(self, _close_at_exit)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Creates a producer from a mapping, which may have Kafka's or librdkafka's names.

        Args:
            config: The options: {"bootstrap.servers": ..., ...}.

        Raises:
            KafkaConfigurationError: As in the constructor.
        """
        config = concealed(config)
        return cls(**config)

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Sends the remaining records, waits for their callbacks, then closes the producer.

        It waits for callbacks for the rest of its timeout (None: `delivery_timeout_ms`), or for up
        to a second if less is left. Inside a callback, it does not wait for other callbacks, and
        closes interceptors before these run.

        Args:
            timeout: How many seconds to wait for acknowledgements. None: until every record is
                acknowledged or has failed. 0: do not wait. After this time, the remaining records
                fail with KafkaTimeoutError, and the client logs a warning with their number.
            null_logger: kafka-python's argument, without effect.

        Raises:
            TypeError: If the timeout is not a number.
            ValueError: If it is negative.
        """
        if timeout is not None:
            duration_given(timeout, "timeout", "seconds")
        # Not `closed`: a close() that Ctrl-C interrupts leaves the rest to the next one.
        pid = os.getpid()
        failed_before = records_failed(super().metrics()) if self._open_in == pid else 0
        began = time.monotonic()
        try:
            super().close(timeout)
        finally:
            # Looked at once more: another thread may have closed it meanwhile.
            if self.closed and self._open_in == pid:
                self._open_in = 0
                self._closed_with(timeout, began, failed_before)

    def _closed_with(self, timeout: float | None, began: float, failed_before: int) -> None:
        """Waits for the callbacks, and closes everything but the core."""
        try:
            left = records_failed(super().metrics()) - failed_before
            if left:
                log.warning("%r was closed with %d records not acknowledged", self, left)
            limit = callbacks_limit(timeout, time.monotonic() - began, self.config)
            _core.wait_for_callbacks(limit)
        finally:
            self._watch.close()
            close_steps(self.config)

    def metrics(self, raw: bool = False) -> Any:
        """Returns the metrics of this producer under Kafka's names.

        Args:
            raw: False: returns {group: {name: value}}. If a group is about one node or topic, its
                name ends with the node or topic ('producer-topic-metrics.orders'). True: returns
                {MetricName: KafkaMetric}.

        Returns:
            The metrics. None if metrics_enabled is False.
        """
        return metrics.snapshot(super().metrics(), self.config, raw)

    @classmethod
    def max_usable_produce_magic(cls, api_version: tuple[int, ...]) -> int:
        """Returns the batch format of a broker version (kafka-python). thalweg writes 2."""
        if api_version >= (0, 11):
            return 2
        return 1 if api_version >= (0, 10, 0) else 0

    def set_sasl_credentials(self, username: str, password: "str | Secret") -> None:
        """Changes the user name and the password of PLAIN or SCRAM for the next authentication.

        It does not close open connections. confluent-kafka has a method of the same name.

        Raises:
            IllegalStateError: If the client does not log in with PLAIN or SCRAM, or is closed.
            TypeError: If an argument is not a str.
            ValueError: If the mechanism cannot send a NUL character that one of them contains.
        """
        password = hidden(revealed(password))
        self.config.set_credentials(username, password, self._core_client)

    # ------------------------------------------------------------------ transactions

    def init_transactions(self) -> None:
        """Prepares the producer for transactions (KIP-98). Call it once, before you begin one.

        It fences older producers with the same `transactional_id`, and waits until their open
        transactions have ended.

        Raises:
            IllegalStateError: If there is no transactional_id, or on a second call.
            KafkaTimeoutError: After max_block_ms. The request continues in the background. Call
                `init_transactions` again to keep waiting.
            FatalTransactionError: If the brokers refuse the request. See `begin_transaction`.
        """
        super().init_transactions()

    def begin_transaction(self) -> None:
        """Begins a transaction. Records that you send from now on belong to it.

        It sends no request.

        Raises:
            IllegalStateError: If a transaction is open, or `init_transactions` was not called. The
                message names the state.
            FatalTransactionError: If the producer has failed: for example ProducerFencedError if a
                newer producer uses the transactional_id, or
                TransactionalIdAuthorizationFailedError. Every later call raises the same error.
                Close the producer.
        """
        super().begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, Any],
        group_metadata: Any = None,
        *,
        consumer_group_id: str | None = None,
    ) -> None:
        """Adds a group's offsets to the transaction, which commits them (KIP-98, KIP-447).

        Args:
            offsets: {TopicPartition: OffsetAndMetadata(next offset to read)}.
            group_metadata: The result of `consumer.group_metadata()`, or the group ID. With the
                metadata, the group refuses the offsets of a member that it has removed.
            consumer_group_id: kafka-python 2's name of `group_metadata`.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The request continues in the background, and
                commit_transaction waits for it.
            TransactionCommitFailedError: If the group has rebalanced. Abort the transaction.
            AbortableTransactionError: If the transaction has failed. Abort it.
            FatalTransactionError: See `begin_transaction`.
            TypeError: If an argument has a wrong type.
            ValueError: If an offset is negative, or the group has no ID.
        """
        rows = transactions.offset_rows(offsets)
        self._send_offsets(rows, transactions.group_fields(group_metadata, consumer_group_id))

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Waits for all records of the transaction, and leaves it open, so any client can end it.

        Store the result. `KafkaAdminClient.end_transaction` then commits or aborts the transaction,
        even after this process has died. This producer can also end it. After this call, you may
        only call `close`, `commit_transaction` and `abort_transaction`. `close` leaves the
        transaction open. The coordinator aborts it after transaction_timeout_ms. See
        docs/transactions.md.

        Returns:
            The prepared transaction. None if nothing was sent in it: then there is nothing to end.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The preparation continues. Call
                `prepare_transaction` again to keep waiting.
            AbortableTransactionError: As in `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        found = self._prepare_transaction()
        name: str = self.config["transactional_id"]
        return None if found is None else PreparedTransaction(name, *found)

    def commit_transaction(self) -> None:
        """Waits for all records of the transaction, then commits it.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The commit continues, and its result is not known
                yet. Call `commit_transaction` again to keep waiting. Any other call raises
                IllegalStateError.
            AbortableTransactionError: If a record or request of the transaction failed (the
                `__cause__`). Nothing is committed. Call abort_transaction.
            FatalTransactionError: See `begin_transaction`.
        """
        super().commit_transaction()

    def abort_transaction(self) -> None:
        """Aborts the transaction. Unsent records fail with TransactionAbortedError.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms, as in `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        super().abort_transaction()

    def transaction(self) -> transactions.Transaction:
        """Makes a `with` block one transaction.

            with producer.transaction():
                producer.send("topic", b"value")

        The producer commits the transaction at the end of the block. If the block raises, or if one
        of its records or requests fails, the producer aborts the transaction and raises the error.
        If the commit raises KafkaTimeoutError, the result is not known yet: call
        `commit_transaction` to keep waiting. Do not commit or abort inside the block.
        """
        return transactions.Transaction(self)

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
        # As kafka-python does: records of a producer without references are still sent.
        if not getattr(self, "config", None) or self.closed:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
        self.close(timeout=closing.AT_EXIT_SECONDS)

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return (
            f"<KafkaProducer client_id={config.get('client_id')}"
            f" transactional_id={config.get('transactional_id')}>"
        )


def _close_at_exit(producer: Any) -> None:
    failed_before = records_failed(_core.Producer.metrics(producer))
    producer.close(timeout=closing.AT_EXIT_SECONDS)
    failed = records_failed(_core.Producer.metrics(producer)) - failed_before
    closing.tell_of_lost(producer, failed)
