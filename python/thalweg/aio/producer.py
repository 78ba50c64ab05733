"""AIOKafkaProducer: sends records from asyncio; aiokafka's class on the native core.

    await send() ──> accumulator ──> batches ──> brokers                        (Rust, as ever)
       └─> RecordFuture <── its batch; the loop is woken once for all batches that are done

`send` appends at once where it can; where it must wait (metadata, memory), the coroutine waits,
never the loop. The core, the options and the Python steps are KafkaProducer's.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from thalweg import _closing, _core, _logging, _transactions, metrics
from thalweg._arguments import duration_given, keywords_only
from thalweg._core import BatchMetadata, RecordFuture
from thalweg._option_help import options_listed
from thalweg._producing import Hooks, close_steps, records_failed, watched
from thalweg.aio import _completions
from thalweg.aio._transactions import Transaction
from thalweg.aio.batch import BatchBuilder
from thalweg.config import Config, configured
from thalweg.errors import BatchSendError, IllegalStateError
from thalweg.serializer import Serializer
from thalweg.structs import ConsumerGroupMetadata, RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg._config_types import ProducerConfig

    class AIOProducerConfig(ProducerConfig, total=False):
        """Keywords of AIOKafkaProducer."""

        loop: asyncio.AbstractEventLoop | None
        max_batch_size: int

    # A lambda says nothing of its argument: mypy then takes the default, and pyright the bound.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["AIOKafkaProducer", "BatchMetadata", "RecordFuture", "RecordMetadata"]

log = logging.getLogger("thalweg.producer")


@options_listed("p")
class AIOKafkaProducer(_core.AsyncProducer[K, V], Generic[K, V]):
    """Sends records to topics from the event loop that it was started in.

        async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("topic", b"value", key=b"key")
            (await future).offset

    Idempotent and acks='all' by default (KIP-98, KIP-679). Options are KafkaProducer's, in
    docs/configuration.md, with aiokafka's `max_batch_size` for `batch_size`; `loop` is deprecated.

    Raises:
        KafkaConfigurationError: If options are unknown, bad or contradictory, with all of them.
        TypeError: If the options are one dict: that is for `from_config`.
    """

    config: Config
    _loop: asyncio.AbstractEventLoop | None
    _completions: _core.Completions | None
    _pid: int
    _hooks: Hooks | None
    _stopped: bool
    _watch: metrics.Watch

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "AIOKafkaProducer[bytes, bytes]",
            *,
            key_serializer: None = None,
            value_serializer: None = None,
            **configs: Unpack[AIOProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaProducer[K, bytes]",
            *,
            key_serializer: Serializer[K] | Callable[[K], bytes | None],
            value_serializer: None = None,
            **configs: Unpack[AIOProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaProducer[bytes, V]",
            *,
            key_serializer: None = None,
            value_serializer: Serializer[V] | Callable[[V], bytes | None],
            **configs: Unpack[AIOProducerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaProducer[K, V]",
            *,
            key_serializer: Serializer[K] | Callable[[K], bytes | None],
            value_serializer: Serializer[V] | Callable[[V], bytes | None],
            **configs: Unpack[AIOProducerConfig],
        ) -> None: ...
        def __init__(self, **configs: Any) -> None: ...

    else:

        @keywords_only
        def __init__(self, *, loop=None, **configs):
            if loop is not None:
                text = "loop is deprecated: a producer belongs to the loop that awaits its start()"
                # Of the frame above the decorator's.
                warnings.warn(text, DeprecationWarning, stacklevel=3)
            self._loop, self._completions = loop, None
            self._stopped = False
            self.config = configured("p", "AIOKafkaProducer", configs)
            self._hooks = Hooks.of(self.config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A producer from a mapping, for Kafka's dotted names and librdkafka's.

        Raises:
            KafkaConfigurationError: As the constructor.
        """
        return cls(**config)

    async def start(self) -> None:
        """Connects; to be awaited once, before anything else.

        With a transactional_id it also gets the producer id, which fences older producers of the
        same transactional_id (KafkaProducer's `init_transactions`).

        Raises:
            NoBrokersAvailable: If no bootstrap server answers within `bootstrap_timeout_ms`. Then,
                and when it is cancelled up to there, it may be tried again.
            IllegalStateError: If it was started before.
            KafkaTimeoutError: If the producer id of a transactional_id did not come within
                max_block_ms; the producer is stopped then, as after the next.
            FatalTransactionError: If the brokers refuse the transactional_id.
        """
        loop = asyncio.get_running_loop()
        if self._completions is not None:
            raise IllegalStateError("the producer is started already")
        if self._loop is not None and self._loop is not loop:
            raise IllegalStateError("the producer was made for another event loop")
        _logging.refresh()
        self._pid = os.getpid()
        self._completions = completions = _completions.attach(loop)
        try:
            waits = self.config.asks_for_names
            core = await asyncio.to_thread(self.config.core) if waits else self.config.core()
            await self._open(completions, core, self._hooks)
        except BaseException:
            self._completions = None
            _completions.detach(loop, completions)
            raise
        self._loop = loop
        self._watch = watched(self, self.config, self._client.watch_cluster_id)
        _closing.watch(self, _end_at_exit)
        if self.config["transactional_id"] is not None:
            try:
                await self._init_transactions()
            except BaseException:
                await self.stop(timeout=0)
                raise

    async def stop(self, timeout: float | None = None) -> None:
        """Sends what is buffered, then gives everything up; may be called again.

        Cancelled, it goes on behind: no more records are taken, those that were are delivered or
        failed. Await it again to wait for that.

        Args:
            timeout: Seconds to wait for acknowledgements; None waits, 0 gives up at once. What is
                left fails with a KafkaTimeoutError, and is counted in a logged warning.

        Raises:
            TypeError: If the timeout is no number.
            ValueError: If it is negative.
        """
        if timeout is not None:
            duration_given(timeout, "timeout", "seconds")
        completions, loop = self._completions, self._loop
        if completions is None or loop is None or self._stopped or self._pid != os.getpid():
            return
        failed_before = records_failed(super().metrics())
        await self._close(timeout)
        self._stopped_with(loop, completions, failed_before)

    def _stopped_with(
        self, loop: asyncio.AbstractEventLoop, completions: _core.Completions, failed_before: int
    ) -> None:
        """The core is closed: gives up the rest, unless another task's `stop` did."""
        if self._stopped:
            return
        self._stopped = True
        _completions.detach(loop, completions)
        left = records_failed(super().metrics()) - failed_before
        if left:
            log.warning("%r was stopped with %d records not acknowledged", self, left)
        self._watch.close()
        close_steps(self.config)

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> RecordMetadata:
        """`send`, and its outcome. Cancelled after the append, the record is sent all the same.

        Raises:
            KafkaError: What `send` raises, and the record's own error.
        """
        future = await self.send(topic, value, key, partition, timestamp_ms, headers)
        return await future

    async def send_many(
        self,
        topic: str,
        values: Sequence[V | None],
        keys: Sequence[K | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None,
        partition: int | Sequence[int | None] | None = None,
        timestamps_ms: Sequence[int | None] | None = None,
    ) -> asyncio.Future[BatchMetadata]:
        """Appends a whole list, as `KafkaProducer.send_many`.

        Back-pressure waits at most `max_block_ms` for each piece. Cancelled while it waits, what
        was appended is sent, the rest is not.

        Returns:
            A future of where the rows went; a BatchSendError if some were not written.

        Raises:
            ValueError: If sequences differ in length; TypeError if an element is no bytes.
        """
        return await self._send_many(topic, values, keys, headers, partition, timestamps_ms)

    async def send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> asyncio.Future[BatchMetadata]:
        """Appends columns (any object with `__arrow_c_stream__`), as `KafkaProducer.send_arrow`.

        Args:
            topic: Where to.
            data: Columns value, key, partition, timestamp and headers, by name.
            partition: One partition for all rows, in place of their column.

        Returns:
            A future as that of `send_many`.
        """
        return await self._send_arrow(topic, data, partition)

    def create_batch(self) -> BatchBuilder:
        """An empty batch of at most `batch_size` bytes, to be filled and given to `send_batch`."""
        serialize = None if self._hooks is None else self._hooks.serialize
        return BatchBuilder(self.config["batch_size"], serialize)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Appends the records of a batch, in order, to one partition; the batch is closed.

        Records that are sent one by one may share its place in the log's batches: that it is
        written as one batch of its own is not promised. Interceptors do not see it.

        Returns:
            A future of where its first record went.

        Raises:
            ValueError: If the batch is empty.
        """
        batch.close()
        if not batch.record_count():
            raise ValueError("the batch has no records")
        columns = batch.values, batch.keys, batch.headers
        appended = await self._send_many(
            topic, *columns, partition, batch.timestamps_ms, serialized=True
        )
        first: asyncio.Future[RecordMetadata] = appended.get_loop().create_future()
        where = TopicPartition(topic, partition)
        appended.add_done_callback(partial(_first_of, first, where, batch.timestamps_ms[0]))
        return first

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was sent before has its outcome, well or not.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            KafkaTimeoutError: When the time is over.
        """
        await self._flush(timeout)
        # Callbacks of the futures that are done now come first.
        await asyncio.sleep(0)

    async def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions.

        Raises:
            KafkaTimeoutError: If it is not known within `max_block_ms`.
        """
        return await self._partitions_for(topic)

    async def begin_transaction(self) -> None:
        """Opens a transaction: what is sent from here on belongs to it. Asks no broker.

        Cancelled, none is open.

        Raises:
            IllegalStateError: If one is open already, or without transactional_id.
            KafkaTimeoutError: If the client's own thread does not answer; none is open then.
            FatalTransactionError: If the producer cannot go on: a ProducerFencedError if a newer
                one took over its transactional_id, or another. Every call from then on raises the
                same; stop the producer.
        """
        await self._begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any], group_id: str | ConsumerGroupMetadata
    ) -> None:
        """Commits a group's offsets if, and when, the transaction commits (KIP-98, KIP-447).

        Args:
            offsets: {TopicPartition: next offset to read}, as OffsetAndMetadata, a number, or a
                number and a metadata string.
            group_id: The group; its metadata fences members that the group has left behind.

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
        await self._send_offsets(rows, _transactions.group_fields(group_id, None))

    async def commit_transaction(self) -> None:
        """Waits for all that was sent in the transaction, then commits it.

        Cancelled, it goes on: await it again to learn its outcome. Any other call raises
        IllegalStateError until it is known.

        Raises:
            IllegalStateError: Outside of a transaction.
            KafkaTimeoutError: After max_block_ms: the outcome is not known yet; await it again.
            AbortableTransactionError: If a record or request of it failed (the `__cause__`):
                nothing of it will be committed; await abort_transaction.
            FatalTransactionError: See `begin_transaction`.
        """
        await self._commit_transaction()

    async def abort_transaction(self) -> None:
        """Gives the transaction up. Records not sent yet fail with a TransactionAbortedError.

        Raises:
            IllegalStateError: Outside of a transaction.
            KafkaTimeoutError: After max_block_ms; as for `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        await self._abort_transaction()

    def transaction(self) -> Transaction:
        """An `async with` block as one transaction.

            async with producer.transaction():
                await producer.send("topic", b"value")

        Commits at its end. If the block raises or is cancelled, or something of the transaction
        failed, it is aborted and the error raised. After a KafkaTimeoutError of the commit itself,
        or a cancellation, the outcome is not known: await `commit_transaction` until it is.
        Commit or abort nothing inside of the block, whose end would then find no transaction.
        """
        return Transaction(self)

    def metrics(self, raw: bool = False) -> Any:
        """Metrics of this producer, as `KafkaProducer.metrics`."""
        return metrics.snapshot(super().metrics(), self.config, raw)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def __del__(self) -> None:
        if getattr(self, "_completions", None) is None or self.closed:
            return
        warnings.warn(f"{self!r} was not stopped", ResourceWarning, stacklevel=2, source=self)
        # In a running loop nothing may block, and nobody is left who could await: what is not
        # sent by now fails, and says so.
        if asyncio._get_running_loop() is None:
            _close_at_exit(self)

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return f"<AIOKafkaProducer client_id={config.get('client_id')}>"


def _first_of(
    first: asyncio.Future[RecordMetadata],
    where: TopicPartition,
    timestamp_ms: int,
    appended: asyncio.Future[BatchMetadata],
) -> None:
    """The outcome of a batch as that of its first record."""
    error = appended.exception()
    if first.done():
        return
    if error is None:
        offset = appended.result().offsets[0]
        sizes = -1, -1, -1
        first.set_result(RecordMetadata(*where, where, offset, timestamp_ms, None, *sizes))
    elif isinstance(error, BatchSendError) and not error.metadata.count:
        first.set_exception(error.errors[0][1])
    else:
        first.set_exception(error)


def _end_at_exit(producer: Any) -> None:
    _closing.tell_of_lost(producer, _close_at_exit(producer))


def _close_at_exit(producer: Any) -> int:
    """No loop runs any more: records are sent within a limit, futures stay as they are.

    Returns:
        How many were not acknowledged.
    """
    failed_before = records_failed(_core.AsyncProducer.metrics(producer))
    producer._close_blocking(_closing.AT_EXIT_SECONDS)
    producer._watch.close()
    left = records_failed(_core.AsyncProducer.metrics(producer)) - failed_before
    if left:
        log.warning("%r was closed with %d records not acknowledged", producer, left)
    waiting = len(producer._completions)
    if waiting:
        log.debug("%d outcomes were not delivered: the event loop is closed", waiting)
    return left
