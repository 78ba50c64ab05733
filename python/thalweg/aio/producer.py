"""AIOKafkaProducer: sends records from asyncio; aiokafka's class on the native core.

    await send() ──> accumulator ──> batches ──> brokers                                  (Rust)
       └─> RecordFuture <── its batch; the loop is woken once for all batches that are done

`send` appends the record at once if it can. If it must wait, for metadata or for memory, only the
coroutine waits, never the event loop. The core, the options and the Python steps are the same as in
KafkaProducer.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from thalweg import _core, _logging, metrics
from thalweg._client import closing
from thalweg._client.arguments import duration_given, keywords_only
from thalweg._client.producing import Hooks, callbacks_limit, close_steps, records_failed, watched
from thalweg._config.concealment import concealed
from thalweg._config.option_help import options_listed
from thalweg._config.secret import Secret, hidden, revealed
from thalweg._core import BatchMetadata, RecordFuture
from thalweg.aio import _completions
from thalweg.aio._core_options import core_options
from thalweg.aio._transactions import TransactionCalls
from thalweg.aio.batch import BatchBuilder
from thalweg.config import Config, configured
from thalweg.errors import BatchSendError, IllegalStateError
from thalweg.serializer import Serializer
from thalweg.structs import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg.typing import AIOProducerConfig

    # A lambda has no type for its argument. mypy then uses the default, and pyright the bound.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["AIOKafkaProducer", "BatchMetadata", "RecordFuture", "RecordMetadata"]

log = logging.getLogger("thalweg.producer")


@options_listed("p")
class AIOKafkaProducer(TransactionCalls[K, V], Generic[K, V]):
    """Sends records to topics, in the event loop in which you await `start`.

        async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("topic", b"value", key=b"key")
            (await future).offset

    By default, acks is 'all' and idempotence is on (KIP-98, KIP-679). The options are those of
    KafkaProducer: see docs/configuration.md. aiokafka's `max_batch_size` is another name for
    `batch_size`, and `loop` is deprecated.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
        TypeError: If you give the options as one dict: use `from_config`.
    """

    config: Config
    _loop: asyncio.AbstractEventLoop | None
    _completions: _core.Completions | None
    _pid: int
    _hooks: Hooks | None
    _stopped: bool
    _is_open: bool
    _stops: set[asyncio.Task[None]]
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
                text = "loop is deprecated: a producer belongs to the loop in which start() runs"
                # The caller's frame is above the frame of the decorator.
                warnings.warn(text, DeprecationWarning, stacklevel=3)
            self._loop, self._completions = loop, None
            self._stopped = self._is_open = False
            self._stops = set()
            self.config = configured("p", "AIOKafkaProducer", configs)
            self._hooks = Hooks.of(self.config)

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

    async def start(self) -> None:
        """Connects to the cluster. Await it once, before any other call.

        With a transactional_id, it also prepares transactions, like
        `KafkaProducer.init_transactions`: it fences older producers with the same transactional_id.

        Raises:
            NoBrokersAvailable: If no bootstrap server responds within `bootstrap_timeout_ms`. You
                may then await `start` again. You may also do this if `start` was cancelled before
                it had connected.
            IllegalStateError: If the producer was already started, or was created for another event
                loop.
            KafkaTimeoutError: If transactions are not ready within max_block_ms. This stops the
                producer.
            FatalTransactionError: If the brokers refuse the transactional_id. This stops the
                producer.
        """
        loop = asyncio.get_running_loop()
        if self._completions is not None:
            raise IllegalStateError("the producer was already started: await start() only once")
        if self._loop is not None and self._loop is not loop:
            raise IllegalStateError(
                "the producer was created for another event loop (loop=...): await start() in that"
                " loop"
            )
        _logging.refresh()
        self._pid = os.getpid()
        self._completions = completions = _completions.attach(loop)
        try:
            core = await core_options(self.config, loop)
            await self._open(completions, core, self._hooks)
            self._is_open = True
        except BaseException:
            self._completions = None
            _completions.detach(loop, completions)
            raise
        self._loop = loop
        self._watch = watched(self, self.config, self._core_client.watch_cluster_id)
        closing.watch(self, _end_at_exit)
        if self.config["transactional_id"] is not None:
            try:
                await self._init_transactions()
            except BaseException:
                await self.stop(timeout=0)
                raise

    async def stop(self, timeout: float | None = None) -> None:
        """Sends the remaining records, then closes the producer. You may call it again.

        If the await is cancelled, the producer continues to stop in the background: it accepts no
        more records, and the records that it has are written or fail. Await `stop` again to wait
        for the end.

        Before it closes interceptors, `stop` waits until they have heard of every record: for the
        rest of its timeout (None: `delivery_timeout_ms`), or for up to a second if less is left.

        Args:
            timeout: How many seconds to wait for acknowledgements. None: until every record is
                acknowledged or has failed. 0: do not wait. After this time, the remaining records
                fail with KafkaTimeoutError, and the client logs a warning with their number.

        Raises:
            TypeError: If the timeout is not a number.
            ValueError: If it is negative.
            IllegalStateError: If you await it in another event loop.
        """
        if timeout is not None:
            duration_given(timeout, "timeout", "seconds")
        completions, loop = self._completions, self._loop
        if completions is None or loop is None or self._stopped or self._pid != os.getpid():
            return
        if asyncio.get_running_loop() is not loop:
            raise IllegalStateError(
                "the producer was started in another event loop. Call stop() in the loop in"
                " which start() ran"
            )
        # A task, because the rest of a stop must also run if this await is cancelled.
        stopping = loop.create_task(self._stop(timeout, loop, completions))
        self._stops.add(stopping)
        stopping.add_done_callback(self._stops.discard)
        await asyncio.shield(stopping)

    async def _stop(
        self,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop,
        completions: _core.Completions,
    ) -> None:
        failed_before = records_failed(super().metrics())
        began = loop.time()
        try:
            await self._close(timeout)
            if self._hooks is not None and self._hooks.on_acknowledgement is not None:
                limit = callbacks_limit(timeout, loop.time() - began, self.config)
                await _completions.callbacks_run(loop, limit)
        finally:
            # The core may be closed although the close failed. If it was cancelled, it continues.
            if self.closed:
                self._stopped_with(loop, completions, failed_before)

    def _stopped_with(
        self, loop: asyncio.AbstractEventLoop, completions: _core.Completions, failed_before: int
    ) -> None:
        """Closes everything but the core, unless the `stop` of another task has done so."""
        if self._stopped:
            return
        self._stopped = True
        _completions.detach(loop, completions)
        left = records_failed(super().metrics()) - failed_before
        if left:
            log.warning("%r was stopped with %d records not acknowledged", self, left)
        self._watch.close()
        close_steps(self.config)

    def set_sasl_credentials(self, username: str, password: "str | Secret") -> None:
        """Changes the user name and the password of PLAIN or SCRAM for the next authentication.

        Open connections stay open. Raises the same errors as
        `KafkaProducer.set_sasl_credentials`.
        """
        password = hidden(revealed(password))
        self.config.set_credentials(
            username, password, self._core_client if self._is_open else None
        )

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> RecordMetadata:
        """Sends one record and waits for its result.

        If the await is cancelled after the record was added to its batch, the record is still sent.

        Raises:
            KafkaError: An error of `send`, or the error of the record.
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
        """Sends a list of records, like `KafkaProducer.send_many`.

        If the buffer is full, it waits at most `max_block_ms` for each part of the list. If the
        await is cancelled, the producer sends the records that it has added so far, and not the
        others.

        Returns:
            A future whose result says where each row was written. It raises a BatchSendError if
            some rows were not written.

        Raises:
            ValueError: If the sequences differ in length, or a timestamp is negative.
            TypeError: If an element is not bytes.
            IllegalStateError: After `stop`, outside a transaction of a transactional producer, or
                in another event loop.
        """
        return await self._send_many(topic, values, keys, headers, partition, timestamps_ms)

    async def send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> asyncio.Future[BatchMetadata]:
        """Sends Arrow columns, like `KafkaProducer.send_arrow`.

        Args:
            topic: The topic of all rows.
            data: Any object with `__arrow_c_stream__`. The names of its columns are value, key,
                partition, timestamp and headers.
            partition: One partition for all rows, instead of the column `partition`.

        Returns:
            A future, as in `send_many`.

        Raises:
            ValueError: For an unknown column, a timestamp before 1970 or a negative partition.
            IllegalStateError: As in `send_many`. Also if the producer has a serializer, a Python
                partitioner or an interceptor.
        """
        return await self._send_arrow(topic, data, partition)

    def create_batch(self) -> BatchBuilder:
        """Returns an empty batch of at most `batch_size` bytes, for `send_batch`."""
        serialize = None if self._hooks is None else self._hooks.serialize
        return BatchBuilder(self.config["batch_size"], serialize)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Closes the batch and sends its records, in order, to one partition.

        In the log, the records may share a batch with records of other sends. Interceptors do not
        see these records.

        Returns:
            A future with the RecordMetadata of the first record.

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
        """Waits until every record that you sent before the call is written or has failed.

        Args:
            timeout: The limit in seconds. None: no limit.

        Raises:
            KafkaTimeoutError: After the timeout.
        """
        await self._flush(timeout)
        # Let the callbacks of the finished futures run first.
        await asyncio.sleep(0)

    async def partitions_for(self, topic: str) -> set[int]:
        """Returns the partition IDs of a topic.

        Raises:
            KafkaTimeoutError: If the topic's metadata does not arrive within `max_block_ms`.
        """
        return await self._partitions_for(topic)

    def metrics(self, raw: bool = False) -> Any:
        """Returns the metrics of this producer, like `KafkaProducer.metrics`."""
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
        # In a running loop nothing may block, and no task can await this producer any more. So
        # records that are not sent by now fail.
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
    """Completes the future of a batch's first record with the result of the batch."""
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
    closing.tell_of_lost(producer, _close_at_exit(producer))


def _close_at_exit(producer: Any) -> int:
    """Closes a producer whose loop has ended: sends its records within a time limit.

    The futures get no result.

    Returns:
        The number of records that were not acknowledged.
    """
    failed_before = records_failed(_core.AsyncProducer.metrics(producer))
    producer._close_blocking(closing.AT_EXIT_SECONDS)
    producer._watch.close()
    left = records_failed(_core.AsyncProducer.metrics(producer)) - failed_before
    if left:
        log.warning("%r was closed with %d records not acknowledged", producer, left)
    waiting = len(producer._completions)
    if waiting:
        log.debug("%d results were not delivered: the event loop is closed", waiting)
    return left
