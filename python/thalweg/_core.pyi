"""The interface of the native module, in the order of the binding's files.

The native module converts and delegates. The Rust crates do the work. The public API
(`thalweg.producer`, `.consumer`, `.admin`, `.broker`) subclasses or wraps these classes. The errors
are the classes of `thalweg.errors`.

Conventions of this module:
- A `config` is a mapping of resolved option values under their canonical snake_case names.
  `thalweg.config` creates it. The `Core*Config` TypedDicts in `_config/option_types.py` list each
  key with its type. An unknown key raises a ValueError that names it.
- Times are milliseconds as int, and `None` means "no limit". The `timeout` arguments of futures,
  `flush` and `close` are seconds, as in kafka-python.
- A partition is `(topic, partition)`, so every call accepts a `TopicPartition`. Calls return the
  tuples of `thalweg.structs`.
- The signatures are written by hand. The docstrings are generated from the doc comments in
  crates/python/src: change those, then run `make build` and tools/generate_stub_docs.py.
- Every call that may wait releases the GIL, wakes at once on a signal (Ctrl-C raises
  KeyboardInterrupt), and raises `IllegalStateError` after `close()` or in a forked child.
"""

from asyncio import AbstractEventLoop, Future
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import Context
from types import GenericAlias, TracebackType
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    final,
    overload,
    type_check_only,
)

from typing_extensions import TypeVar, disjoint_base

from thalweg._config.secret import Secret
from thalweg.coordinator.steps import Heartbeats
from thalweg.errors import KafkaError
from thalweg.interceptor import ProducerRecord
from thalweg.structs import (
    BrokerMetadata,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "ArrowBatch",
    "AsyncConsumer",
    "AsyncProducer",
    "BatchMetadata",
    "BrokerFaults",
    "BrokerGroups",
    "BrokerSecurity",
    "Client",
    "ClusterMetadata",
    "Completions",
    "Consumer",
    "ConsumerCoroutine",
    "ConsumerRecord",
    "EmbeddedBroker",
    "FutureBatchMetadata",
    "FutureRecordMetadata",
    "PasswordReply",
    "PendingRequest",
    "PreparedTls",
    "Producer",
    "ProducerCoroutine",
    "RangeReader",
    "RecordFuture",
    "RecordTable",
    "Timer",
    "TokenReply",
    "__version__",
    "begin_exit",
    "call_after_callbacks",
    "call_every",
    "check_kerberos",
    "is_optimized",
    "set_log_level",
    "sign_jwt",
    "stop_threads",
    "wait_for_callbacks",
]

_K = TypeVar("_K", default=Any)
_V = TypeVar("_V", default=Any)
_K_co = TypeVar("_K_co", covariant=True, default=Any)
_V_co = TypeVar("_V_co", covariant=True, default=Any)

_Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

__version__: Final[str]

# False if the extension was built for tests.
is_optimized: Final[bool]

# ---------------------------------------------------------------- interpreter/runtime.rs

def set_log_level(logger: str, level: int) -> None:
    """Sets the lowest level that Rust passes on for the logger `thalweg.<name>`.

    The level is one of `logging`. An event below it costs one atomic comparison. Other events go
    through a bounded queue to the callback thread, which calls
    `thalweg._logging.emit(logger, level, message)`. `thalweg._logging` calls this when a client is
    created and in `refresh()`.
    """

def begin_exit() -> None:
    """Prevents other threads from starting application code within our calls.

    It is called first at exit. From now on, calls that would run a deserializer, serializer,
    listener or interceptor raise `IllegalStateError`. Functions that supply tokens or passwords can
    still be called until `stop_threads`.
    """

def stop_threads(timeout: float = 1.0) -> int:
    """Stops the runtime's threads, and returns the number of callbacks that did not run in time.

    It is called last at exit.

    Args:
        timeout: Seconds for the callbacks that are due. A callback that already runs gets 3
            seconds.
    """

def call_after_callbacks(f: Callable[[], object]) -> None:
    """Calls a function in the callback thread, after all callbacks that are due now.

    It calls the function at once if no callback is due, or inside a callback.
    """

def wait_for_callbacks(timeout: float) -> None:
    """Waits until all callbacks that are due have run, at most `timeout` seconds.

    Inside a callback it does nothing.
    """

# ---------------------------------------------------------------- client/cluster.rs

@final
class ClusterMetadata:
    """An immutable snapshot of the client's metadata of the cluster.

    Its methods are those of kafka.cluster.
    """

    @property
    def cluster_id(self) -> str | None:
        """The cluster's ID, or None if no broker has sent it yet."""

    @property
    def controller(self) -> BrokerMetadata | None:
        """The controller, or None if it is not known."""

    @property
    def update_version(self) -> int:
        """A version that grows by one with each metadata response that changes something."""

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Returns the names of the topics, with or without Kafka's internal topics."""

    def brokers(self) -> set[BrokerMetadata]:
        """Returns all brokers."""

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """Returns the broker with this node ID, or None if it is not known."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns all partition IDs, or None if the topic is not known, as in kafka-python."""

    def has_more_partitions(self, known: dict[str, int]) -> bool:
        """Whether a topic of {topic: number of partitions} now has more partitions.

        The driver calls it.
        """

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns the partitions that have a leader."""

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Returns the leader's node ID, -1 if there is no leader, or None if the partition is
        unknown.
        """

# ---------------------------------------------------------------- client/metrics.rs

@final
class Timer:
    """A function that the callback thread calls repeatedly, until `cancel`."""

    def cancel(self) -> None:
        """Stops the calls. A call that already runs continues."""

def call_every(seconds: float, f: Callable[[], object]) -> Timer:
    """Calls `f()` on the callback thread every `seconds`. Logs what it raises.

    It skips calls that would come too late. Do not call it at exit. A forked child has none of its
    parent's timers.
    """

# ---------------------------------------------------------------- producing/producer.rs

@type_check_only
class ProducerHooks(Protocol):
    """The Python steps of `send`. An attribute is None if there is no such step.

    `Producer._open` reads it once. `thalweg._client.producing.Hooks` is the only implementation. If
    hooks is None, `send` runs no Python code.
    """

    on_send: Callable[[ProducerRecord], ProducerRecord] | None
    """Runs the chain of interceptors. It never raises: it logs errors."""
    serialize: (
        Callable[
            [str, list[tuple[str, bytes]], Any, Any],
            tuple[bytes | bytearray | memoryview | None, bytes | bytearray | memoryview | None],
        ]
        | None
    )
    """(topic, headers, key, value) -> (key, value). It is called when the topic's metadata is
    known. It may append to the list of headers, so that is read after the call. An exception fails
    only this send, and is raised unchanged."""
    partition: (
        Callable[[str, Any, bytes | None, Any, bytes | None, ClusterMetadata], int | None] | None
    )
    """(topic, key, serialized key, value, serialized value, cluster) -> partition. It is called
    only if `send` got no partition. A result of None raises ValueError."""
    on_new_batch: Callable[[str, ClusterMetadata, int], None] | None
    """(topic, cluster, previous partition): the callback of KIP-480. If it is set, an append that
    would open a new batch for a record without a key calls it, and then calls `partition` again."""
    on_acknowledgement: Callable[[RecordMetadata | None, BaseException | None], None] | None
    """It is called for every record, also for records that failed before the append. It runs on the
    callback thread, or in the calling thread before the append. It never raises: it logs errors."""

@disjoint_base
class Producer(Generic[_K, _V]):
    """The producer core. `thalweg.producer.KafkaProducer` is its public subclass.

    The constructor accepts and ignores all arguments, so that a user's subclass may have its own
    `__init__`. Before `_open`, every method except `_open` and `close` raises `IllegalStateError`.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _open(self, config: Mapping[str, Any], hooks: ProducerHooks | None = None) -> None:
        """Bootstraps within `bootstrap_timeout_ms`. Call it once.

        Raises a `NoBrokersAvailable` that names each address with the cause. After an error, it has
        closed what it had opened.
        """

    def send(
        self,
        topic: str,
        value: _V | None = None,
        key: _K | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Sends a record, and returns a future of its `RecordMetadata`.

        It waits at most `max_block_ms` for metadata and buffer memory together. Without a
        serializer, value and key are bytes, and one of them is not None. headers is a list of
        (str, bytes or None). With `partition=None`, the partitioner chooses. `timestamp_ms` is in
        Unix ms. None: the time of the call.

        Raises `IllegalStateError` after close, or outside a transaction of a transactional
        producer. Raises `AbortableTransactionError` or `FatalTransactionError` if the transaction
        or the producer has failed.

        The steps, in order:
        1. Interceptors.
        2. Checks. `TypeError`: the topic is not a str, or headers is not a list of (str, bytes or
           None) tuples. `InvalidTopicError`: the topic name is not valid. `ValueError`: `value` and
           `key` are both None, or `timestamp_ms` is negative.
        3. Metadata. It waits at most `max_block_ms`, then raises `KafkaTimeoutError`. If a broker
           refuses the topic, for example with `TopicAuthorizationFailedError`, the returned future
           has failed with that error.
        4. Serializers. The result must be bytes, bytearray, memoryview or None, otherwise
           `TypeError`.
        5. Partition. Raises `ValueError` if it is negative, or does not exist after a metadata
           refresh.
        6. Size: `RecordTooLargeError`.
        7. Buffer memory. It waits for the rest of `max_block_ms`, then raises
           `BufferExhaustedError`.
        """

    def send_many(
        self,
        topic: str,
        values: Sequence[_V | None],
        keys: Sequence[_K | None] | None = None,
        headers: Sequence[_Headers | None] | None = None,
        partition: int | Sequence[int | None] | None = None,
        timestamps_ms: Sequence[int | None] | None = None,
    ) -> FutureBatchMetadata:
        """Sends a list of records in one call, and returns a future of their `BatchMetadata`.

        Each argument is a sequence of the same length as `values`. `partition` may also be one
        number for all rows.
        If rows are not written, the future raises a `BatchSendError` with the error of each row
        (docs/columns.md).

        The hooks apply to each record. Before it sends anything, it raises `ValueError` for
        sequences of different length or a negative timestamp. Without a serializer, it also raises
        `TypeError` for an element that is not bytes, and names its row. `max_block_ms` limits the
        wait for each part of the list.
        """

    def send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> FutureBatchMetadata:
        """Sends the rows of an Arrow table, data frame or stream.

        It returns a future of their `BatchMetadata`. The columns are found by name: value, key,
        partition, timestamp and headers. It ignores topic, offset, `timestamp_type` and
        `leader_epoch`. Any other column raises `ValueError`. `partition` is one partition for all
        rows, in place of the column. See docs/columns.md.

        `data` has `__arrow_c_stream__` or `__arrow_c_array__`. Raises `ValueError` for an unknown
        column, whose name is in the message, a timestamp before 1970 or a negative partition.
        Raises `IllegalStateError` if a serializer, a Python partitioner or an interceptor is set.
        """

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every record sent before has its result.

        Raises `KafkaTimeoutError` after `timeout` seconds. None means no limit.
        """

    def close(self, timeout: float | None = None) -> None:
        """Sends the remaining records for at most `timeout` seconds, then closes. None means no
        limit.

        The other records fail with a `KafkaTimeoutError`, and the client logs a warning with their
        number. A second call does nothing.
        """

    def init_transactions(self) -> None:
        """Prepares the producer for transactions.

        All calls on transactions wait at most `max_block_ms`, then raise `KafkaTimeoutError`. Call
        again to continue the same operation. `IllegalStateError` names the state. The messages of
        `AbortableTransactionError` and `FatalTransactionError` say what to do.
        """

    def begin_transaction(self) -> None:
        """Begins a transaction. It sends no request."""

    def _send_offsets(
        self,
        offsets: list[tuple[str, int, int, str, int]],
        group: tuple[str, int, str, str | None],
    ) -> None:
        """Commits a group's offsets with the transaction.

        The rows of `offsets` are (topic, partition, offset, metadata, leader epoch). `group` is
        (group id, generation, member id, instance id).
        """

    def _prepare_transaction(self) -> tuple[int, int] | None:
        """Returns the producer ID and epoch, or None if nothing was sent in the transaction."""

    def commit_transaction(self) -> None:
        """Waits for all records of the transaction, then commits it.

        Raises the errors of `init_transactions`.
        """

    def abort_transaction(self) -> None:
        """Aborts the transaction. Raises the errors of `init_transactions`."""

    def partitions_for(self, topic: str) -> set[int]:
        """Returns the partition ids of a topic.

        It waits for metadata at most `max_block_ms`, then raises `KafkaTimeoutError`.
        """

    def bootstrap_connected(self) -> bool:
        """Whether a broker is connected."""

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns {group: {name: value}} under Kafka's names, even of a closed producer.

        For example ('producer-metrics', 'record-send-total'). The name of a group for one node or
        topic ends in '.node-1' or in the topic's name.
        """

    @property
    def _core_client(self) -> Client:
        """A client for requests by name, on this producer's connections and metadata."""

    @property
    def closed(self) -> bool:
        """Whether it was never opened, was closed, or belongs to the parent of this process."""

# ---------------------------------------------------------------- asyncio/producer.rs

@disjoint_base
class AsyncProducer(Generic[_K, _V]):
    """The producer core for one event loop.

    `thalweg.aio.AIOKafkaProducer` is its public subclass. The constructor accepts and ignores all
    arguments, as that of `Producer`. Before `_open`, calls raise `IllegalStateError`.

    Its coroutines are `ProducerCoroutine` objects. A call does nothing before it is awaited. A
    cancelled call stops waiting. A call raises `IllegalStateError` in a loop other than that of
    `_open`, after the close, and in a forked child. No call blocks its thread.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _open(
        self,
        completions: Completions,
        config: Mapping[str, Any],
        hooks: ProducerHooks | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Opens the producer, as `Producer._open`.

        After a failure or cancellation, call it again.
        """

    def send(
        self,
        topic: str,
        value: _V | None = None,
        key: _K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: _Headers | None = None,
    ) -> Coroutine[Any, Any, RecordFuture]:
        """Adds a record to its batch, and returns a future of its result (aiokafka).

        If it does not have to wait, it appends the record without a task switch. After 512 such
        sends in a row, other tasks run. The steps, checks and errors are those of `Producer.send`.
        `await` raises the errors. If it is cancelled before the append, the record is not sent.
        Cancelling the returned future does not cancel the record.
        """

    def _send_many(
        self,
        topic: str,
        values: Sequence[_V | None],
        keys: Sequence[_K | None] | None = None,
        headers: Sequence[_Headers | None] | None = None,
        partition: int | Sequence[int | None] | None = None,
        timestamps_ms: Sequence[int | None] | None = None,
        *,
        serialized: bool = False,
    ) -> Coroutine[Any, Any, Future[BatchMetadata]]:
        """Sends a list of records, as `Producer.send_many`. `serialized` skips the Python steps."""

    def _send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> Coroutine[Any, Any, Future[BatchMetadata]]:
        """Sends the rows of an Arrow table, data frame or stream, as `Producer.send_arrow`."""

    def _flush(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Waits until every record sent before has its result, as `Producer.flush`."""

    def _partitions_for(self, topic: str) -> Coroutine[Any, Any, set[int]]:
        """Returns the partition IDs of a topic, as `Producer.partitions_for`."""

    def _init_transactions(self) -> Coroutine[Any, Any, None]:
        """Prepares the producer for transactions.

        The calls on transactions are as in `Producer`. If one is cancelled, its operation
        continues.
        """

    def _begin_transaction(self) -> Coroutine[Any, Any, None]:
        """Begins a transaction. It sends no request."""

    def _send_offsets(
        self,
        offsets: Sequence[tuple[str, int, int, str, int]],
        group: tuple[str, int, str, str | None],
    ) -> Coroutine[Any, Any, None]:
        """Commits a group's offsets with the transaction, as `Producer._send_offsets`."""

    def _prepare_transaction(self) -> Coroutine[Any, Any, tuple[int, int] | None]:
        """Returns the producer ID and epoch, as `Producer._prepare_transaction`."""

    def _commit_transaction(self) -> Coroutine[Any, Any, None]:
        """Waits for all records of the transaction, then commits it."""

    def _abort_transaction(self) -> Coroutine[Any, Any, None]:
        """Aborts the transaction."""

    def _close(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Closes the producer within `timeout` seconds. `None` waits for all acknowledgements.

        If it is cancelled, closing continues in the background. A second call waits for its end.
        """

    def _close_blocking(self, timeout: float) -> None:
        """Closes the producer at exit, when no loop runs."""

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns {group: {name: value}}, as `Producer.metrics`."""

    @property
    def _core_client(self) -> Client:
        """A client for requests by name, as `Producer._core_client`."""

    @property
    def closed(self) -> bool:
        """Whether it was stopped, or belongs to the parent of this process.

        It is False before the start.
        """

# ---------------------------------------------------------------- asyncio/coroutine.rs

@final
class ProducerCoroutine:
    """A coroutine of a producer.

    The method that creates it documents its result.
    """

    def __await__(self) -> Iterator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any:
        """Resumes the coroutine. The value is ignored. `StopIteration` has the result."""

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Ends the coroutine with this exception, and raises it."""

    def close(self) -> None:
        """Ends the coroutine, as if it was cancelled."""

@final
class ConsumerCoroutine:
    """A coroutine of a consumer.

    The method that creates it documents its result.
    """

    def __await__(self) -> Iterator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any:
        """Resumes the coroutine. The value is ignored. `StopIteration` has the result."""

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Ends the coroutine with this exception, and raises it."""

    def close(self) -> None:
        """Ends the coroutine, as if it was cancelled."""

# ---------------------------------------------------------------- asyncio/record_future.rs

@final
class RecordFuture(Awaitable[RecordMetadata]):
    """The result of one `send` for asyncio. You can await it like an `asyncio.Future`.

    You can also pass it to `gather`, `wait`, `shield` and `wait_for`. It completes when the batch
    of the record completes. Cancelling it does not cancel the record. If no code asks for its
    error, the loop's exception handler gets it.
    """

    @property
    def _asyncio_future_blocking(self) -> bool:
        """Whether a task of asyncio waits for the future. Only asyncio uses it."""

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, blocking: bool) -> None: ...
    @property
    def _cancel_message(self) -> Any | None:
        """`asyncio.gather` uses this, and `_make_cancelled_error`, for a cancelled future."""

    def done(self) -> bool:
        """Whether it has a result or an error, or was cancelled."""

    def cancelled(self) -> bool:
        """Whether it was cancelled."""

    def result(self) -> RecordMetadata:
        """Returns where the record was written.

        Raises the error of the record, `CancelledError`, or `asyncio.InvalidStateError` before it
        is done.
        """

    def exception(self) -> BaseException | None:
        """Returns the error of the record, or None if it was written. Raises as `result`."""

    def get_loop(self) -> AbstractEventLoop:
        """Returns the event loop of the producer."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancels the future, but not the record. Returns false if it is done."""

    def add_done_callback(
        self, function: Callable[[RecordFuture], object], *, context: Context | None = None
    ) -> None:
        """Calls the function soon after the future is done, in the loop's thread."""

    def remove_done_callback(self, function: Callable[[RecordFuture], object]) -> int:
        """Removes a callback, and returns how often it was there."""

    def _make_cancelled_error(self) -> BaseException:
        """Returns the `CancelledError` of a cancelled future, with its message."""

    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
    def __iter__(self) -> Generator[Any, None, RecordMetadata]: ...
    def __next__(self) -> RecordFuture: ...

# ---------------------------------------------------------------- asyncio/completions.rs

@final
class Completions:
    """The completions of one event loop. `thalweg.aio._completions` creates and watches it.

    Without `notify` it has a file descriptor to watch. With `notify`, a thread of ours calls
    `notify` when there is something to drain. `len()` is the number of awaited futures and waiting
    calls.
    """

    def __new__(
        cls, event_loop: AbstractEventLoop, notify: Callable[[], None] | None = None
    ) -> Self: ...
    def fileno(self) -> int:
        """Returns the file descriptor to watch. Raises `OSError` if there is none."""

    def drain(self) -> None:
        """Delivers completions. If there are many, it lets the loop run other callbacks in between.

        Call it in the loop's thread.
        """

    def wake(self, key: int) -> None:
        """Resumes the call that waits under this key, if there is one, because its time is over."""

    def __len__(self) -> int: ...

# ---------------------------------------------------------------- producing/futures.rs

@final
class FutureRecordMetadata:
    """The result of one `send`. It completes with the record's batch.

    Its methods are those of kafka.producer.future.
    """

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Waits for the result, at most `timeout` seconds. None means no limit.

        Raises the error of the record, or `KafkaTimeoutError` after the timeout, with
        `possibly_written`: the client continues to send the record. Call `get` again to keep
        waiting.
        """

    @property
    def is_done(self) -> bool:
        """Whether the result is known."""

    @property
    def value(self) -> RecordMetadata | None:
        """Where the record was written. None if it is not written, or not yet."""

    @property
    def exception(self) -> BaseException | None:
        """Why the record was not written. None if it was, or if the result is not known yet."""

    def succeeded(self) -> bool:
        """Whether it is done and the record was written."""

    def failed(self) -> bool:
        """Whether it is done and the record has an error."""

    def retriable(self) -> bool:
        """Whether it failed, and sending the record again may succeed."""

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, value, **kwargs)` when the record is written.

        The callback thread calls it, after the callbacks that are already due. If the result is
        known and no callback is due, it is called at once in this thread. If f raises, the error is
        logged.

        Raises:
            `TypeError`: If f is not callable.
        """

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, exception, **kwargs)` if the record fails. See `add_callback`."""

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, value or exception, **kwargs)` in both cases. See `add_callback`."""

# ---------------------------------------------------------------- producing/batch_futures.rs

@final
class FutureBatchMetadata:
    """The result of `send_many` or `send_arrow`. It is done when every row has its result.

    `len()` is the number of rows given to the call.
    """

    def get(self, timeout: float | None = None) -> BatchMetadata:
        """Waits for all rows, at most `timeout` seconds. None means no limit.

        Raises `BatchSendError(errors=[(row, exception)], metadata=...)` if any row failed, or
        `KafkaTimeoutError` after the timeout.
        """

    @property
    def is_done(self) -> bool:
        """Whether the result of every row is known."""

    @property
    def value(self) -> BatchMetadata | None:
        """Where the rows were written, if it is done and no row failed."""

    @property
    def exception(self) -> BaseException | None:
        """The `BatchSendError`, if it is done and a row failed."""

    def succeeded(self) -> bool:
        """Whether it is done and every row was written."""

    def failed(self) -> bool:
        """Whether it is done and a row failed."""

    def retriable(self) -> bool:
        """Whether it failed, and sending the failed rows again may succeed for each of them."""

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, BatchMetadata, **kwargs)` if no row fails. See `FutureRecordMetadata`."""

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, BatchSendError, **kwargs)` if a row fails. See `FutureRecordMetadata`."""

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls `f(*args, BatchMetadata or BatchSendError, **kwargs)` in both cases."""

    def __len__(self) -> int: ...

# ---------------------------------------------------------------- producing/batch_metadata.rs

@final
class BatchMetadata:
    """Where the rows of a `send_many` or `send_arrow` were written. It can be pickled.

    `len()` is the number of rows given to the call, written or not. The constructor's `offsets` is
    a sequence of little-endian int64. It raises `ValueError` if its length is wrong.
    """

    def __new__(
        cls, partitions: dict[TopicPartition, tuple[int, int, int]], offsets: bytes
    ) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def count(self) -> int:
        """The number of rows that were written."""

    @property
    def partitions(self) -> dict[TopicPartition, tuple[int, int, int]]:
        """`{TopicPartition: (count, first offset, last offset)}`."""

    @property
    def offsets(self) -> memoryview:
        """The offset of each row, as int64 (format 'q').

        -1: the row was not written, or the broker did not send its offset. Brokers send no offsets
        with acks=0, or for a duplicate whose offset they have forgotten.
        It is created on first access.
        """

    def __len__(self) -> int: ...

# ---------------------------------------------------------------- convert/records.rs

@final
class ConsumerRecord(Generic[_K_co, _V_co]):
    """One consumed record. It behaves like kafka-python's namedtuple, but is not a tuple subclass.

    It keeps the raw bytes of the headers and parses them on first access. All arguments are
    required, by position or keyword. It compares, orders and hashes like the tuple of its fields,
    including with plain tuples. You can pickle and copy it.
    """

    __match_args__: ClassVar[tuple[str, ...]]
    _fields: ClassVar[tuple[str, ...]]
    _field_defaults: ClassVar[dict[str, Any]]

    def __new__(
        cls,
        topic: str,
        partition: int,
        leader_epoch: int | None,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: _K_co,
        value: _V_co,
        headers: list[tuple[str, bytes | None]],
        checksum: int | None,
        serialized_key_size: int,
        serialized_value_size: int,
        serialized_header_size: int,
    ) -> Self: ...
    @property
    def topic(self) -> str:
        """The name of the topic."""

    @property
    def partition(self) -> int:
        """The number of the partition."""

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch of the record's batch, or None if the batch has none."""

    @property
    def offset(self) -> int:
        """The offset of the record in its partition."""

    @property
    def timestamp(self) -> int:
        """The timestamp in Unix milliseconds."""

    @property
    def timestamp_type(self) -> int:
        """The type of the timestamp: 0 is `CreateTime`, 1 is `LogAppendTime`."""

    @property
    def key(self) -> _K_co:
        """The key, as the deserializer returns it. Without a deserializer it is bytes or None."""

    @property
    def value(self) -> _V_co:
        """The value, as the deserializer returns it. Without a deserializer it is bytes or None."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers, as a list of (str, bytes or None) in the order of the record."""

    @property
    def checksum(self) -> int | None:
        """Always None in a record that a consumer returns. kafka-python has this field."""

    @property
    def serialized_key_size(self) -> int:
        """The size of the key in bytes, before it was deserialized, or -1 if there is no key."""

    @property
    def serialized_value_size(self) -> int:
        """The size of the value in bytes, before it was deserialized, or -1 if there is no
        value.
        """

    @property
    def serialized_header_size(self) -> int:
        """The total size of the headers' names and values in bytes, or -1 if there are no
        headers.
        """

    def _asdict(self) -> dict[str, Any]:
        """Returns a dict of the field names and values, as a namedtuple does."""

    def _replace(self, **kwargs: Any) -> Self:
        """Returns a copy of the record with new values for these fields.

        Raises a `ValueError` that names an unknown field.
        """

    @classmethod
    def _make(cls, iterable: Any) -> Self:
        """Creates a record from an iterable of all fields. Raises `TypeError` if their number is
        wrong.
        """

    def count(self, value: Any, /) -> int:
        """Returns how many fields have this value, as a tuple does."""

    def index(self, value: Any, start: SupportsIndex = 0, stop: SupportsIndex = ..., /) -> int:
        """Returns the index of the first field with this value. Raises `ValueError` if there is
        none.
        """

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, value: object, /) -> bool: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Any, ...]: ...
    def __add__(self, other: tuple[Any, ...], /) -> tuple[Any, ...]: ...
    def __radd__(self, value: tuple[Any, ...], /) -> tuple[Any, ...]: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Any, /) -> bool: ...
    def __le__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...
    def __ge__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

# ---------------------------------------------------------------- consuming/consumer.rs

@type_check_only
class ConsumerHooks(Protocol):
    """The Python steps of `poll`. An attribute is None if there is no such step.

    `Consumer._open` reads it once. `thalweg._client.consuming.Hooks` is the only implementation. If
    all attributes are None, `poll` and iteration run no Python code.
    """

    deserialize_key: Callable[[str, list[tuple[str, bytes | None]], bytes | None], Any] | None
    deserialize_value: Callable[[str, list[tuple[str, bytes | None]], bytes | None], Any] | None
    """(topic, headers, data) -> object. It is called while a record is built. If one raises, the
    call returns the records before it. The next call raises DeserializationError(topic, partition,
    offset, key, value, headers, timestamp, cause), with the position at that record (KIP-334)."""
    before_poll: Callable[[int | None, bool], int | None] | None
    """Coordinator work in the application's thread: groups, committed offsets, auto-commit.

    `poll`, `poll_arrow` and the refills of the iterator call it before they take any record. They
    call it first at once, and again when the returned time has passed or `_reenter()` was called.
    The arguments are the milliseconds that are left of the caller's timeout (None = no limit), and
    whether it is a poll. It returns the milliseconds until the next call (None = no time). It may
    raise, and may call _assign, seek, pause, resume and _set_committed. Between two calls, polls
    return buffered records at once.

    `position` also calls it while the position is not known, with False as the second argument:
    it is not a poll, so it commits nothing, runs no callback and assigns nothing. The next poll
    makes up for that: it calls the hook in any case."""
    on_consume: (
        Callable[
            [dict[TopicPartition, list[ConsumerRecord[Any, Any]]]],
            dict[TopicPartition, list[ConsumerRecord[Any, Any]]],
        ]
        | None
    )
    """Runs the chain of interceptors on the records of a `poll` or of an iterator's refill. It
    never raises: it logs errors."""

@disjoint_base
class Consumer(Generic[_K_co, _V_co]):
    """The consumer core. `thalweg.consumer.KafkaConsumer` is its public subclass.

    The constructor accepts and ignores all arguments, as that of `Producer`.

    Only one thread at a time may use it. A second thread gets an `IllegalStateError` at once: polls
    check it themselves, other calls use `_begin_use`. Any thread may call `wakeup` and `_reenter`.

    Iteration returns the next record, and moves the position record by record. It ends after
    `consumer_timeout_ms` without a record, or when the consumer is closed. You can use the iterator
    again after that. It skips buffered records of a partition that was revoked, paused or sought
    since.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _open(self, config: Mapping[str, Any], hooks: ConsumerHooks | None = None) -> None:
        """Bootstraps as `Producer._open`.

        With a `group_id`, an assigned partition without a position waits for `_set_committed`
        before the reset policy applies. Without a `group_id`, the policy applies at once.
        """

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment. Partitions that stay keep position, buffer and pause."""

    def _set_subscribed(self, subscribed: bool) -> None:
        """Sets whether there is a subscription. The driver calls it.

        Without a subscription and without an assignment, `poll`, `poll_arrow` and iteration raise
        `IllegalStateError`, because no record can arrive.
        """

    def assignment(self) -> set[TopicPartition]:
        """Returns the assigned partitions."""

    def poll(
        self, timeout_ms: float | None = ..., max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[_K_co, _V_co]]]:
        """Returns at most `max_records` records (None: `max_poll_records`).

        The result is {} if none arrived in time: an empty poll never raises `KafkaTimeoutError`.
        The error of a partition (`OffsetOutOfRangeError`, `NoOffsetForPartitionError`,
        `CorruptRecordError`, `TopicAuthorizationFailedError`, ...) is raised after all good records
        before it.
        """

    def __iter__(self) -> Self: ...
    def __next__(self) -> ConsumerRecord[_K_co, _V_co]: ...
    def poll_arrow(
        self,
        timeout_ms: float | None = ...,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> RecordTable:
        """Returns the buffered records as a `RecordTable`, at most `max_bytes`.

        If `max_bytes` is None, the limit is `poll_arrow_max_bytes`. It waits only for the first
        record.
        """

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = ...) -> None:
        """Sets the position of an assigned partition.

        Raises `IllegalStateError` if it is not assigned, or another thread uses the consumer.
        """

    def _seek_to(
        self, partitions: Sequence[TopicPartition], where: Literal["earliest", "latest"]
    ) -> None:
        """Moves positions as `seek_to_beginning` and `seek_to_end`, without their checks.

        A later call looks the offsets up. It raises the errors of `seek`.
        """

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Returns the offset of the next record, and waits until it is known.

        While it waits, it runs `before_poll` with False. It raises `KafkaTimeoutError` after the
        timeout, `IllegalStateError` if the partition is not assigned, and the error that prevents
        the lookup, as `poll` does.
        """

    def _positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what a commit would write for each assigned partition with a position.

        That is the next offset, and the leader epoch of the last batch before it, with or without
        records. It never waits.
        """

    def _awaiting_committed(self) -> list[TopicPartition]:
        """Returns the partitions that wait for their committed offset.

        They are assigned, have no position, and wait for `_set_committed`. The driver calls it.
        """

    def _set_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Sets the committed offsets that were found, or None where nothing is committed.

        A partition without a committed offset follows the reset policy. The call ignores partitions
        that got a position by a seek, or were revoked, since. The driver calls it.
        """

    def _pause_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Pauses partitions as `pause`, without its checks.

        It keeps the buffered records. Raises `IllegalStateError` if a partition is not assigned.
        """

    def _resume_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Resumes partitions as `resume`, without its checks."""

    def paused(self) -> set[TopicPartition]:
        """Returns the paused partitions."""

    def highwater(self, partition: TopicPartition) -> int | None:
        """Returns the high watermark as of the last fetch, or None before the first fetch.

        Raises `IllegalStateError` if the partition is not assigned.
        """

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset before which every transaction has ended, as of the last fetch.

        Returns None before the first fetch, and with brokers that have no transactions. Raises
        `IllegalStateError` if the partition is not assigned.
        """

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Returns the time of the last fetch response for the partition, in Unix ms.

        Returns None before the first fetch. Raises `IllegalStateError` if the partition is not
        assigned.
        """

    def lag(self, partition: TopicPartition) -> int | None:
        """Returns the number of offsets between the position and the end, as of the last fetch.

        With `read_committed` the end is the last stable offset. Returns None before the first
        fetch. Raises `IllegalStateError` if the partition is not assigned.
        """

    def _list_offsets(
        self, targets: Sequence[tuple[str, int, int]], timeout_ms: int | None = None
    ) -> list[tuple[str, int, int, int, int]]:
        """Looks up offsets by timestamp.

        A target is (topic, partition, timestamp). A row of the result is (topic, partition, offset,
        timestamp, leader epoch). The public calls are `beginning_offsets`, `end_offsets` and
        `offsets_for_times`.

        The rows are in the order of the targets, with the offset -1 if there is no such record. The
        timestamps of KIP-79 and KIP-734 work too: -1 latest, -2 earliest, -3 max timestamp. Raises
        `KafkaTimeoutError`.
        """

    def _reenter(self) -> None:
        """Makes a waiting call run the driver's work now. Any thread may call it.

        The call then runs `before_poll`.
        """

    def _heartbeat(self, heartbeats: Heartbeats, node: _Node) -> None:
        """Makes the I/O thread send heartbeats to the node every `interval_ms`.

        They replace the heartbeats of earlier calls, and need no Python thread. The first one is
        sent after one interval, counted from now or from the last earlier heartbeat. At most one is
        in flight. If it has no response within `response_timeout_ms` or `request_timeout_ms`,
        whichever is less, the client closes its connection and looks up the coordinator again.

        The I/O thread drops responses that contain nothing new: `ErrorCode` 0, the `MemberEpoch`
        that was sent (if the API has one), and a null Assignment. The `HeartbeatIntervalMs` of a
        response becomes the interval, and later heartbeats contain its `MemberEpoch` if that is
        higher. All other responses go to `_notable_heartbeats`:
        - After `REBALANCE_IN_PROGRESS`, heartbeats continue at the interval, because the group
          keeps only members that send them.
        - After `COORDINATOR_LOAD_IN_PROGRESS`, `NOT_COORDINATOR`, `COORDINATOR_NOT_AVAILABLE`, a
          lost connection or a timeout, they continue after a growing `retry_backoff_ms`, and the
          client looks up the coordinator again.
        - Any other error code, or an error that no retry can fix, pauses them until the next call
          of this method.

        If no poll, `poll_arrow` or iteration begins or ends for `max_poll_interval_ms` (time inside
        one of them does not count), the I/O thread sends `leave` (API, body) once and stops the
        heartbeats, and `_poll_expired` reports it. To send the same API with `_core_client`, stop
        the heartbeats first. Raises `ValueError` as `Client.request` does, and for intervals below
        1. A `TypeError` names the field.
        """

    def _join(
        self, join: _Body, timeout_ms: float, heartbeats: Heartbeats, node: _Node
    ) -> PendingRequest:
        """Ends the heartbeats, then sends a `JoinGroup` to the node as `Client.submit` does.

        When the response has `ErrorCode` 0, the new heartbeats begin as in `_heartbeat`, with the
        response's `GenerationId` and `MemberId` in the body, without Python. They do not begin if
        `_heartbeat`, `_stop_heartbeat` or this method was called since.

        `timeout_ms` is that of `Client.submit`. Raises `ValueError` as `Client.submit` and
        `_heartbeat` do.
        """

    def _stop_heartbeat(self) -> None:
        """Ends the heartbeats and the watch of `max_poll_interval_ms`.

        The response to a heartbeat in flight is reported only if it is a success that contains
        something new. The same applies if another `_heartbeat` has replaced it.
        """

    def _notable_heartbeats(self) -> list[tuple[dict[str, Any] | None, KafkaError | None, bool]]:
        """Takes the responses that contain something new, and the errors of heartbeats.

        It returns the newest 16, and the newest Assignment. With each: whether it belongs to the
        current heartbeats, and not to heartbeats that were replaced or stopped. When one of them
        arrives, a waiting call runs `before_poll`, as after `_reenter`.
        """

    def _old_heartbeat_is_in_flight(self) -> bool:
        """Whether a heartbeat that was replaced or stopped is still in flight.

        It is from before the last `_heartbeat`, `_join` or `_stop_heartbeat`. After these calls, no
        such heartbeat is sent. When it is not in flight any more, a waiting call runs
        `before_poll`.
        """

    def _poll_expired(self) -> bool:
        """Returns whether `max_poll_interval_ms` has passed without a poll, and clears this
        flag.
        """

    def _handed_out(
        self, partitions: Sequence[tuple[str, int]]
    ) -> list[tuple[int, int, int, int] | None]:
        """Returns (since, from, to, count) of each partition's returned records.

        Marks use it. `since` is a number that each assignment, seek or reset changes. `from` and
        `to` are the positions before the first record and after the last one. An entry is None if
        no record was returned.
        """

    def _records_handed_out(self) -> int:
        """Returns the number of records that all polls and iterations have returned so far."""

    def _begin_use(self) -> None:
        """Reserves the consumer for the calling thread: only one at a time is in a call or a poll.

        It ends with `_end_use`. Calls may be nested. A poll that waits, or does the coordinator's
        work, reserves it too. Raises `IllegalStateError` if another thread uses the consumer.
        """

    def _end_use(self) -> None:
        """Ends the innermost `_begin_use` of the calling thread."""

    def _hold(self, held: bool) -> None:
        """Sets whether polls return no records, so that positions stay as they were committed."""

    def wakeup(self) -> None:
        """Makes the waiting call, or the next one, raise `WakeupError`. Any thread may call it."""

    def bootstrap_connected(self) -> bool:
        """Whether a broker is connected."""

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns {group: {name: value}} under Kafka's names, even of a closed consumer."""

    def _shutdown(self, timeout_ms: int | None = None) -> None:
        """Closes connections and buffers. It commits nothing: use `close`.

        A second call does nothing. It does not leave the group (`KafkaConsumer.close` does):
        heartbeats only stop.
        """

    @property
    def _core_client(self) -> Client:
        """A client for requests by name, on this consumer's connections and metadata."""

    @property
    def closed(self) -> bool:
        """Whether it was never opened, was closed, or belongs to the parent of this process."""

# ---------------------------------------------------------------- asyncio/consumer/mod.rs

@final
class AsyncConsumer(Generic[_K_co, _V_co]):
    """The waiting calls of a consumer for one event loop.

    Each returns a `ConsumerCoroutine`. Several calls may wait at the same time. A poll that is
    cancelled while it waits loses no record. After the close, calls raise `ConsumerStoppedError`.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, consumer: Consumer[_K_co, _V_co], completions: Completions) -> Self: ...
    def open(
        self, config: Mapping[str, Any], hooks: ConsumerHooks | None = None
    ) -> Coroutine[Any, Any, None]:
        """Opens the consumer, as `Consumer._open`.

        After a failure or cancellation, call it again.
        """

    def getone(
        self, partitions: Sequence[TopicPartition] = ..., iterating: bool = False
    ) -> Coroutine[Any, Any, ConsumerRecord[_K_co, _V_co]]:
        """Waits for the next record. With `iterating`, a stopped consumer ends the iteration.

        It returns only records of these partitions. Without any, it returns records of all assigned
        partitions. The iteration ends with `StopAsyncIteration`.
        """

    def getmany(
        self,
        partitions: Sequence[TopicPartition],
        timeout_ms: float | None,
        max_records: int | None = None,
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord[_K_co, _V_co]]]]:
        """Returns records, as `Consumer.poll`.

        If there are no records, other tasks still get at least one turn.
        """

    def poll_arrow(
        self,
        timeout_ms: float | None,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> Coroutine[Any, Any, RecordTable]:
        """Returns the buffered records as a `RecordTable`, as `Consumer.poll_arrow`."""

    def position(
        self, partition: TopicPartition, timeout_ms: float | None
    ) -> Coroutine[Any, Any, int]:
        """Returns the position, as `Consumer.position`."""

    def until(
        self, condition: Callable[[], object], timeout_ms: float | None
    ) -> Coroutine[Any, Any, bool]:
        """Runs the coordinator's work until `condition()` is true.

        Returns False if the time was over first.
        """

    def _list_offsets(
        self, targets: Sequence[tuple[str, int, int]], timeout_ms: float | None
    ) -> Coroutine[Any, Any, list[tuple[str, int, int, int, int]]]:
        """Looks up offsets by timestamp, as `Consumer._list_offsets`."""

    def result(
        self, request: PendingRequest, timeout_ms: float | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Waits for the response to a request. Raises the errors of `PendingRequest.result`."""

    def close(self, timeout: float) -> Coroutine[Any, Any, None]:
        """Closes the connections within `timeout` seconds.

        It works as `Consumer._shutdown`. If it is cancelled, closing continues in the background.
        """

# ---------------------------------------------------------------- convert/tables.rs

@final
class RecordTable:
    """Consumed records as Arrow columns. It is immutable.

    You can export it several times without a copy. The columns, even of an empty table: topic
    string, partition int32, offset int64, timestamp timestamp[ms, UTC], `timestamp_type` int32,
    `leader_epoch` int32, key binary, value binary, headers
    `list<struct<key: string, value: binary>>`. key, value and headers may be null.
    """

    @property
    def num_rows(self) -> int:
        """The number of records."""

    @property
    def nbytes(self) -> int:
        """The size of the columns in bytes."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in their order."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

# ---------------------------------------------------------------- convert/passwords.rs

@final
class PasswordReply:
    """Takes the answer of a function that supplies passwords, once.

    Dropping it without an answer fails the authentication, too.
    """

    def password(self, value: str) -> None:
        """Answers with the password."""

    def failed(self, reason: str, error: BaseException) -> None:
        """Answers with the exception that was raised instead of a password."""

# ---------------------------------------------------------------- convert/kerberos.rs

def check_kerberos(config: Mapping[str, Any]) -> None:
    """Loads the Kerberos library, and looks for the keytab.

    Both may wait for the disk. The clients of asyncio do it outside of their event loop. Other
    clients do not need it: they do it when they open.
    """

# ---------------------------------------------------------------- convert/signing.rs

def sign_jwt(algorithm: str, pem: str, passphrase: str | None, message: bytes) -> bytes:
    """Returns the signature of a JSON Web Token.

    `pem` has the private key, and `message` the header and the payload. The text of a `ValueError`
    follows the name of an option and a colon.
    """

# ---------------------------------------------------------------- convert/tls.rs

@final
class PreparedTls:
    """The certificates and keys of a client, read from their files.

    The constructor reads the files. It may take seconds, because a private key may be encrypted.
    The clients of asyncio do it outside of their event loop. Other clients do not need it: they
    read the files when they open.

    Raises:
        `KafkaConfigurationError`: If some of the files cannot be used.
    """

    def __new__(cls, config: Mapping[str, Any]) -> PreparedTls: ...

# ---------------------------------------------------------------- convert/tokens.rs

@final
class TokenReply:
    """Takes the answer of a token provider, once.

    Dropping it without an answer fails the authentication, too.
    """

    def token(
        self,
        value: str,
        expires_at: float | None,
        principal: str | None,
        extensions: Sequence[tuple[str, str]],
    ) -> None:
        """Answers with a token. `expires_at` is in Unix seconds."""

    def failed(self, reason: str, error: BaseException) -> None:
        """Answers with the exception that was raised instead of a token."""

# ---------------------------------------------------------------- client/mod.rs

_Body: TypeAlias = Mapping[str, Any] | list[tuple[int, dict[str, Any]]]
_Node: TypeAlias = int | Literal["any", "controller"] | tuple[Literal["coordinator"], str, str]

@final
class Client:
    """Sends requests of any Kafka API by name.

    A body is a dict with the field names of Kafka's JSON schemas ("`TopicName`"): structs are
    dicts, arrays lists, bytes and records bytes, and null is None. UUIDs are str in Kafka's
    URL-safe base64 ("AAAAAAAAAAAAAAAAAAAAAA" is the zero ID). A missing field gets the schema's
    default. An unknown field raises a `ValueError` that names it. A field with a non-default value
    that the negotiated version does not have raises `UnsupportedVersionError`. If the fields differ
    by version, the body is a list of (min version, fields), and the last one that the negotiated
    version supports is sent. The caller must check the error codes inside a response.
    """

    def __new__(cls, config: Mapping[str, Any]) -> Self: ...
    def request(
        self,
        api: str,
        body: _Body,
        node: _Node | None = None,
        version: int | None = None,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> dict[str, Any]:
        """Sends one request and waits for the response.

        Args:
            api: Kafka's name of the API.
            body: The fields.
            node: A node ID, "controller", or the least loaded broker (None, "any"). Or a
                coordinator, ("coordinator", "group" | "transaction", key), which is looked up and
                cached. `forget_coordinator` drops it from the cache.
            version: The version to use. None means the highest version that both sides support, up
                to `max_version`.
            `timeout_ms`: The limit in milliseconds. None means `request_timeout_ms`.
            `max_version`: The highest version to use.

        It retries only to reach the node. Requests to a coordinator use the group connection.
        `JoinGroup` and `SyncGroup` wait at the coordinator, so they use a connection of their own.
        All other requests use the general connection.

        Raises:
            `IncompatibleBrokerVersion`: If there is no common version.
            `KafkaTimeoutError`: After `timeout_ms`.
            `KafkaConnectionError`: If the connection was lost.
        """

    def submit(
        self,
        api: str,
        body: _Body,
        node: _Node | None = None,
        version: int | None = None,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> PendingRequest:
        """Sends one request, as `request`, without waiting for the response."""

    def negotiate(self, api: str, node: _Node | None = None, max_version: int | None = None) -> int:
        """Returns the version that `request` would use, for bodies that differ by version.

        It connects if necessary. Raises `IncompatibleBrokerVersion` if there is no common version.
        """

    def forget_coordinator(self, kind: Literal["group", "transaction"], key: str) -> None:
        """Drops a coordinator from the cache, so that the next request looks it up again."""

    def forget_controller(self) -> None:
        """Forgets the controller. The client looks it up before the next request to it."""

    def metadata(
        self, topics: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> dict[str, Any]:
        """Requests metadata and returns the response as `request` does. It creates no topic.

        With None, it requests all topics. With [], it requests none.
        """

    def cluster(self) -> ClusterMetadata:
        """Returns a snapshot of the metadata that the client has now. It sends no request."""

    def watch_cluster_id(self, f: Callable[[str], object]) -> None:
        """Calls `f(cluster_id)` on the callback thread when the ID becomes known or changes.

        If the ID is already known, the first call is at once. The calls end when the client is
        closed. The client logs the errors of f.
        """

    def nodes(self) -> list[BrokerMetadata]:
        """Returns the brokers that the client knows now. It sends no request."""

    def api_versions(self, node: _Node | None = None) -> dict[str, tuple[int, int]]:
        """Returns {API name: (min version, max version)} of a node.

        Unknown APIs have their number as the name.
        """

    def bootstrap_connected(self) -> bool:
        """Whether a broker is connected."""

    def set_sasl_credentials(self, username: str, password: Secret) -> None:
        """Changes the credentials of PLAIN or SCRAM for the next authentication.

        Open connections stay open. Raises `KafkaConfigurationError` if the client has another
        mechanism.
        """

    def explained(self, text: str, api: str, code: int, resource: str) -> str:
        """Returns the text of an error, with the permission to grant.

        It adds the permission only if the code is about permissions. The resource may be "" if the
        text names it.
        """

    def close(self, timeout_ms: int | None = None) -> None:
        """Closes the client. Raises `IllegalStateError` if it belongs to a producer or consumer."""

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the parent of this process."""

# ---------------------------------------------------------------- client/pending.rs

@final
class PendingRequest:
    """A request that waits for its response."""

    @property
    def is_done(self) -> bool:
        """Whether the response or an error has arrived."""

    @property
    def response_bytes(self) -> int:
        """The size of a response that has arrived and was not read yet, otherwise 0."""

    def result(self, timeout_ms: int | None = None) -> dict[str, Any]:
        """Waits for the response. Raises the errors of `Client.request`."""

    def add_done_callback(self, f: Callable[[Self], object]) -> None:
        """Calls `f(self)` when the response or an error has arrived. f must be short.

        It calls f in a thread that no callback of the application blocks. If the response has
        arrived already, it calls f at once in this thread.
        """

# ---------------------------------------------------------------- broker/mod.rs

_FaultAction: TypeAlias = Literal[
    "fail",
    "delay",
    "disconnect",
    "apply_then_disconnect",
    "silence",
    "bad_server_signature",
    "scram_iterations",
    "close_in_tls_handshake",
    "only_tls_1_2",
    "only_tls_1_3",
]

class _GroupMember(TypedDict):
    instance_id: str | None
    session_timeout_ms: int
    epoch: int  # for a classic member: the generation
    heartbeat: int  # the error code of the response to a heartbeat
    watched: bool  # whether the session timeout runs

class _GroupView(TypedDict):
    group_id: str
    kind: Literal["classic", "consumer"]
    protocol_type: str
    state: str
    epoch: int
    topics: list[str]
    members: dict[str, _GroupMember]

# A request is (kind, token, api, version, client_id, client_host, principal, at_ms, group_id, body,
# draft).
# It has a group_id unless it is about several groups. The draft is the response for unknown groups,
# in the APIs that describe groups. "topics" is the first event, and is repeated whenever the result
# of `_topics_by_id` has changed.
_GroupEvent: TypeAlias = (
    tuple[
        Literal["request"],
        int,
        str,
        int,
        str,
        str,
        str,
        float,
        str,
        dict[str, Any],
        dict[str, Any] | None,
    ]
    | tuple[Literal["expired"], float, str, str]
    | tuple[Literal["deleted"], float, str]
    | tuple[Literal["topics"], float]
)

@final
class EmbeddedBroker:
    """The core of the embedded broker. `thalweg.broker.EmbeddedBroker` wraps it.

    The constructor takes the options, which `start` checks. It opens nothing. `configs` are Kafka's
    broker options under their dotted names. Port 0 means any free ports. With another port, the
    nodes use port, port + 1, ... `users` are names and passwords. `tls` has the chain, the key, and
    the authorities of clients, in PEM format. `jwks` is a JSON Web Key Set.

    The calls about topics, ports, nodes, requests and faults raise `IllegalStateError` unless the
    broker runs.

    Raises:
        `ValueError`: If nodes < 1, or the broker does not support the protocol or the mechanism.
    """

    def __new__(
        cls,
        nodes: int = 1,
        port: int = 0,
        host: str = "127.0.0.1",
        configs: Mapping[str, str] | None = None,
        security_protocol: str = "PLAINTEXT",
        sasl_mechanisms: Sequence[str] | None = None,
        users: Mapping[str, str] | None = None,
        tls: tuple[str, str, str | None] | None = None,
        jwks: str | None = None,
    ) -> Self: ...
    def faults(self) -> BrokerFaults:
        """Returns the object that adds and removes faults."""

    def security(self) -> BrokerSecurity:
        """Returns the object for users, ACLs, certificates and sessions."""

    def groups(self) -> BrokerGroups:
        """Returns the object for the coordinator of groups."""

    def start(self) -> None:
        """Starts the broker. Returns when all nodes accept connections.

        A second call does nothing.

        Raises:
            `OSError`: If a port is in use (`EADDRINUSE`). The error names the port.
            `KafkaConfigurationError`: If an option is unknown, a value is wrong, or a port is above
                65535.
            `IllegalStateError`: After `close()`.
        """

    def close(self) -> None:
        """Stops all nodes. A second call does nothing."""

    @property
    def host(self) -> str:
        """The address that the nodes listen on."""

    @property
    def nodes(self) -> list[int]:
        """The node IDs."""

    @property
    def ports(self) -> list[int]:
        """The port of each node. It raises `IllegalStateError` before `start()`."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes: 'host:port,host:port'.

        Raises `IllegalStateError` before `start()`.
        """

    @property
    def running(self) -> bool:
        """Whether the broker runs: between `start()` and `close()`."""

    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Creates a topic.

        Raises Kafka's errors: `TopicAlreadyExistsError`, `InvalidTopicError`,
        `InvalidPartitionsError`, and others.
        """

    def delete_topic(self, name: str) -> None:
        """Deletes a topic. Raises `UnknownTopicOrPartitionError` if it does not exist."""

    def topics(self) -> dict[str, int]:
        """Returns {name: number of partitions}."""

    def leader(self, partition: tuple[str, int]) -> int:
        """Returns the node ID of a partition's leader, or -1 if no node runs.

        Raises `UnknownTopicOrPartitionError` if the partition does not exist.
        """

    def move_leader(self, partition: tuple[str, int], node: int) -> None:
        """Makes a node the leader of a partition, with a higher leader epoch.

        Raises:
            `ValueError`: If there is no such node.
            `BrokerNotAvailableError`: If the node is stopped.
            `UnknownTopicOrPartitionError`: If the partition does not exist.
        """

    def move_coordinator(self, key: str, node: int) -> None:
        """Makes a node the coordinator of the group and the transactional id with this name.

        Raises `ValueError` if there is no such node.
        """

    def stop_node(self, node: int) -> None:
        """Stops a node: closes its port and connections, and moves its partitions' leaders.

        Raises `ValueError` if there is no such node.
        """

    def start_node(self, node: int) -> None:
        """Starts a stopped node on its old port. Raises `ValueError` if there is no such node."""

    @staticmethod
    def api_names() -> list[str]:
        """Returns the names of all Kafka APIs, for faults and `requests`."""

    @staticmethod
    def option_names() -> list[str]:
        """Returns the names of the options that `configs` may have."""

    def requests(self, api: str | None = None) -> dict[str, int]:
        """Returns {API name: number of requests since the start, with or without a response}."""

# ---------------------------------------------------------------- broker/security.rs

@final
class BrokerSecurity:
    """The users, ACLs, certificates and sessions of an embedded broker."""

    def set_user(self, user: str, password: str) -> None:
        """Adds a user, or changes its password. Raises `KafkaConfigurationError` if the name or
        the password is not valid.
        """

    def remove_user(self, user: str) -> bool:
        """Removes a user. Returns whether it existed."""

    def set_jwks(self, jwks: str) -> None:
        """Replaces the keys that verify tokens. Raises `ValueError` if it is not a JSON Web Key
        Set.
        """

    def create_acl(
        self,
        resource_type: str,
        pattern_type: str,
        name: str,
        principal: str,
        host: str,
        operation: str,
        permission: str,
    ) -> None:
        """Creates an ACL with Kafka's words in upper case. Raises `ValueError` for an unknown word.

        Raises `KafkaConfigurationError` without an authorizer.
        """

    def authority_pem(self) -> str | None:
        """Returns the certificate of the broker's own authority, or None if it has none."""

    def client_certificate(self, name: str) -> tuple[str, str]:
        """Returns a certificate and its key. Raises `KafkaConfigurationError` without an
        authority.
        """

    def revoke_certificate(self, certificate: str) -> None:
        """Refuses a client certificate from now on.

        Raises `KafkaConfigurationError` if the broker has not created it, or does not check
        certificates.
        """

    def expire_sessions(self) -> None:
        """Ends all SASL sessions. Raises `KafkaConfigurationError` without SASL."""

# ---------------------------------------------------------------- broker/faults.rs

@final
class BrokerFaults:
    """The faults of an embedded broker."""

    def add(
        self,
        api: str | None,
        action: _FaultAction,
        node: int | None = None,
        topic: str | None = None,
        error_code: int = 0,
        delay_ms: int = 0,
        times: int | None = ...,
        iterations: int = 0,
    ) -> int:
        """Adds a fault and returns its ID.

        If `api` is None, the fault applies to any API. If `times` is None, it stays until you
        remove it. At most one fault hits a request: the first that matches, in the order in which
        you added them.
        """

    def remove(self, fault: int) -> None:
        """Removes a fault. If there is no fault with this ID, it does nothing."""

    def clear(self) -> None:
        """Removes all faults."""

    def hits(self, fault: int) -> int:
        """Returns how many requests the fault has hit, even after it is used up."""

# ---------------------------------------------------------------- broker/groups.rs

@final
class BrokerGroups:
    """The groups of an embedded broker, for their coordinator."""

    def serve(self) -> None:
        """Makes the broker announce the APIs of groups and pass on their requests.

        A second call does nothing. Raises `IllegalStateError` unless the broker runs. Before this
        call, all methods but `options` raise `IllegalStateError`.
        """

    def options(self) -> dict[str, str]:
        """Returns Kafka's broker options that begin with 'group.', given or default."""

    def next_events(self, timeout_ms: float | None = None) -> list[_GroupEvent] | None:
        """Waits without the GIL, and returns the oldest events, at most 500, in order.

        Returns an empty list when the time is over, and None when the broker is closed. Only one
        thread may wait.
        """

    def respond(self, token: int, body: Mapping[str, Any]) -> bool:
        """Responds to a request. Returns False if the client no longer waits.

        Raises `ValueError` or `TypeError` if the body does not fit the schema or version of the
        response. The client then gets `UNKNOWN_SERVER_ERROR`.
        """

    def publish(self, view: _GroupView, at_ms: float) -> None:
        """Sets the broker's view of a group, as of the event at `at_ms`.

        The session of a member begins now if it was not watched before, or has a new timeout.
        """

    def forget(self, group_id: str) -> None:
        """Removes the broker's view of a group. Its committed offsets stay."""

    def topics(self) -> list[tuple[str, str, int]]:
        """Returns (name, id, number of partitions) of all topics."""

    def visible_topics(self, principal: str, host: str, names: list[str]) -> list[str]:
        """Returns those of the topics that a user may describe from a host."""

    def now_ms(self) -> float:
        """Returns the time on the clock of events: milliseconds since `start()`."""

# ---------------------------------------------------------------- consuming/reader.rs

@final
class RangeReader:
    """Reads ranges of offsets as Arrow batches, with one client.

    It is for Spark's executors.
    """

    def __new__(cls, config: Mapping[str, Any], /) -> Self: ...
    def start(
        self,
        ranges: Sequence[tuple[str, int, int, int]],
        *,
        columns: Sequence[str] | None = None,
        fail_on_data_loss: bool = True,
        batch_rows: int = 65536,
        batch_bytes: int = 16777216,
        timeout_ms: float = 120000.0,
    ) -> None:
        """Starts to read other ranges, and drops unread batches of the earlier ones."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    @property
    def lost(self) -> list[tuple[str, int, int, int]]:
        """The skipped offsets that the logs no longer have.

        They belong to the ranges that were started last. Empty after close.
        """

    def close(self) -> None:
        """Closes the connections. A second call does nothing."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

# ---------------------------------------------------------------- convert/tables.rs

@final
class ArrowBatch:
    """One record batch with the schema of the Spark connector."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
