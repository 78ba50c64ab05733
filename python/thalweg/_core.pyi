"""The extension module: what Python may rely on, in the order of the binding's files.

Everything here converts and delegates; the semantics live in the Rust crates. The public
API (`thalweg.producer`, `.consumer`, `.admin`, `.broker`) subclasses or wraps these classes.
Errors raised from here are the classes of `thalweg.errors`, looked up by name.

Conventions of the whole module:
- a `config` is a mapping of resolved option values under their canonical snake_case names
  (`thalweg.config` makes it; `thalweg/_config_types.py` lists each key with its type in the
  `Core*Config` TypedDicts); an unknown key is a ValueError that names it;
- times are milliseconds as int and `None` means "no limit", except for `timeout` arguments
  of futures, `flush` and `close`, which are seconds as kafka-python has them;
- a partition is `(topic, partition)`, so a `TopicPartition` is accepted everywhere; what is
  returned are `thalweg.structs` tuples;
- every call that may wait releases the GIL, wakes at once on a signal (Ctrl-C raises
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

from thalweg.coordinator.steps import Heartbeats
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
    "Call",
    "Client",
    "ClusterMetadata",
    "Completions",
    "Consumer",
    "ConsumerRecord",
    "EmbeddedBroker",
    "FutureBatchMetadata",
    "FutureRecordMetadata",
    "JobCall",
    "PartitionReader",
    "PendingRequest",
    "Producer",
    "RecordFuture",
    "RecordTable",
    "Timer",
    "__version__",
    "begin_exit",
    "call_every",
    "runtime_threads",
    "set_log_level",
    "stop_threads",
    "wait_for_callbacks",
]

_K = TypeVar("_K", default=Any)
_V = TypeVar("_V", default=Any)
_K_co = TypeVar("_K_co", covariant=True, default=Any)
_V_co = TypeVar("_V_co", covariant=True, default=Any)

_Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

__version__: Final[str]

# ---------------------------------------------------------------- runtime.rs

def set_log_level(logger: str, level: int) -> None:
    """Sets the least `logging` level that Rust passes on for the logger `thalweg.<name>`.

    Records below it cost one comparison of an atomic; the others cross by a bounded queue
    and are emitted by the callback thread through `thalweg._logging.emit(logger, level,
    message)`. Called by `thalweg._logging` when a client is made and from `refresh()`.
    """

def runtime_threads() -> list[str]:
    """Names of this process's runtime threads; empty until the first client exists."""

def begin_exit() -> None:
    """Lets other threads begin no code of the application any more; called first at exit.

    Calls that would run a deserializer, serializer, listener or interceptor raise
    `IllegalStateError` from now on.
    """

def stop_threads(timeout: float = 1.0) -> int:
    """Stops the runtime's threads; called last at exit.

    Args:
        timeout: Seconds for the callbacks that are due. One that runs already has 3 seconds.

    Returns:
        The number of callbacks that did not run in time.
    """

def wait_for_callbacks(timeout: float) -> None:
    """Waits until all callbacks that are due have run, for so many seconds at most.

    In a callback it does nothing.
    """

# ---------------------------------------------------------------- cluster.rs

@final
class ClusterMetadata:
    """A snapshot of what a client knows about the cluster; never changes (kafka.cluster)."""

    @property
    def cluster_id(self) -> str | None: ...
    @property
    def controller(self) -> BrokerMetadata | None: ...
    @property
    def update_version(self) -> int:
        """Grows by one with each metadata answer that changed something."""

    def topics(self, exclude_internal_topics: bool = True) -> set[str]: ...
    def brokers(self) -> set[BrokerMetadata]: ...
    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None: ...
    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """All partition ids; None if the topic is not known (kafka-python's contract)."""

    def has_more_partitions(self, known: dict[str, int]) -> bool:
        """Whether a topic of these has more partitions than this number of them."""

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions that have a leader."""

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Node id; None if the partition is unknown; -1 if it has no leader."""

# ---------------------------------------------------------------- metrics.rs

@final
class Timer:
    """A function that is called again and again, until `cancel`."""

    def cancel(self) -> None: ...

def call_every(seconds: float, f: Callable[[], object]) -> Timer:
    """Calls f() on the callback thread each time so much has passed; what it raises is logged.

    Calls that come late are not made up for. Call with the interpreter running; a forked child
    inherits none."""

# ---------------------------------------------------------------- producer.rs

@type_check_only
class ProducerHooks(Protocol):
    """What of the per-record path is Python: each attribute is None if it is not.

    Read once by `Producer._open`. `thalweg._producing.Hooks` is the only
    implementation. If hooks is None, `send` touches no Python code at all.
    """

    on_send: Callable[[ProducerRecord], ProducerRecord] | None
    """Runs the interceptors' chain; never raises (it logs)."""
    serialize: (
        Callable[
            [str, list[tuple[str, bytes]], Any, Any],
            tuple[bytes | bytearray | memoryview | None, bytes | bytearray | memoryview | None],
        ]
        | None
    )
    """(topic, headers, key, value) -> (key, value). Called when the topic's metadata is
    known. May append to the headers list, which is therefore read after it. An exception
    fails this send alone and is raised unchanged."""
    partition: (
        Callable[[str, Any, bytes | None, Any, bytes | None, ClusterMetadata], int | None] | None
    )
    """(topic, key, serialized key, value, serialized value, cluster) -> partition, called
    only if none was given. None -> ValueError."""
    on_new_batch: Callable[[str, ClusterMetadata, int], None] | None
    """(topic, cluster, previous partition): KIP-480's callback. Where it is set, an append
    that would open a new batch for a keyless record calls it and asks `partition` again."""
    on_acknowledgement: Callable[[RecordMetadata | None, BaseException | None], None] | None
    """For every record, also those that failed before the append; on the callback thread
    (before the append: in the calling thread). Never raises (it logs)."""

@disjoint_base
class Producer(Generic[_K, _V]):
    """The producer core; `thalweg.producer.KafkaProducer` is its public subclass."""

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Takes and ignores everything, so that users may subclass with an __init__ of their
        own; every method but `_open` and `close` raises IllegalStateError until `_open`."""

    def _open(self, config: Mapping[str, Any], hooks: ProducerHooks | None = None) -> None:
        """Bootstraps within `bootstrap_timeout_ms`; NoBrokersAvailable names each address
        with its cause. Whatever was opened is closed if it raises. Once only."""

    def send(
        self,
        topic: str,
        value: _V | None = None,
        key: _K | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """kafka-python's send.

        Order: interceptors; checks (topic a str, else TypeError, with a valid name, else
        InvalidTopicError; `value` and `key` both None -> ValueError; headers a list of (str, bytes)
        tuples, a None value allowed, else TypeError; `timestamp_ms` not negative, else
        ValueError); metadata (at most `max_block_ms`: KafkaTimeoutError raised; a broker's
        error for the topic, such as TopicAuthorizationFailedError, fills a failed future);
        serialize; values must be bytes, bytearray, memoryview or None (TypeError); partition
        (ValueError if it does not exist after a refresh, or is negative); size
        (RecordTooLargeError raised); buffer memory (BufferExhaustedError raised when the rest
        of `max_block_ms` is over). After close(): IllegalStateError.
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
        """One crossing for a whole list; hooks apply element by element.

        Sequences of unequal length, negative timestamps (ValueError) and, where no serializer is
        set, an element that is no bytes (TypeError, with its row) are refused before anything is
        sent. Each row has exactly one outcome, seen in the future; `max_block_ms` bounds the wait
        for each piece.
        """

    def send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> FutureBatchMetadata:
        """`data` has `__arrow_c_stream__` (or `__arrow_c_array__`): columns value, key,
        partition, timestamp, headers by name; topic, offset, timestamp_type and leader_epoch
        are ignored, any other column is a ValueError that names it, as is a timestamp before
        1970. `partition` is one for all rows, in place of their column; it is a ValueError if
        negative. IllegalStateError if a Python serializer is set."""

    def flush(self, timeout: float | None = None) -> None:
        """Seconds; KafkaTimeoutError when they are over. All that was appended before the
        call is done when it returns."""

    def close(self, timeout: float | None = None) -> None:
        """Seconds, None waits. What is left is failed with a KafkaTimeoutError that says how
        many and is logged at WARNING. Idempotent."""

    def init_transactions(self) -> None:
        """As the other calls on transactions: waits for at most `max_block_ms`, then
        KafkaTimeoutError; called again it takes up the same operation. IllegalStateError names the
        state; AbortableTransactionError and FatalTransactionError say what is left to do."""

    def begin_transaction(self) -> None:
        """Asks no broker."""

    def _send_offsets(
        self,
        offsets: list[tuple[str, int, int, str, int]],
        group: tuple[str, int, str, str | None],
    ) -> None:
        """(topic, partition, offset, metadata, leader epoch); (group id, generation, member id,
        instance id)."""

    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...
    def partitions_for(self, topic: str) -> set[int]:
        """Waits for metadata at most `max_block_ms`, then KafkaTimeoutError."""

    def bootstrap_connected(self) -> bool: ...
    def metrics(self) -> dict[str, dict[str, float]]:
        """{group: {name: value}}, Kafka's names ('producer-metrics', 'record-send-total'); groups
        of one node or topic end in '.node-1' or its name. Also of a closed producer."""

    @property
    def client(self) -> Client:
        """Requests by name on this producer's own connections and metadata."""

    @property
    def closed(self) -> bool:
        """Never opened, closed, or made before a fork in the parent of this process."""

# ---------------------------------------------------------------- async_producer.rs

@disjoint_base
class AsyncProducer(Generic[_K, _V]):
    """The same core for one event loop; `thalweg.aio.AIOKafkaProducer` is its public subclass.

    What it calls a coroutine is a `Call`: nothing happens before it is awaited; cancelled while
    it waits, it gives up what it waits for. Every one raises IllegalStateError in another loop
    than that of `_open`, after the close and in a forked child. None blocks its thread.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Takes and ignores everything, as `Producer`; IllegalStateError until `_open` is done."""

    def _open(
        self,
        completions: Completions,
        config: Mapping[str, Any],
        hooks: ProducerHooks | None = None,
    ) -> Coroutine[Any, Any, None]:
        """As `Producer._open`. Given up or failed, it may be tried again."""

    def send(
        self,
        topic: str,
        value: _V | None = None,
        key: _K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: _Headers | None = None,
    ) -> Coroutine[Any, Any, RecordFuture]:
        """aiokafka's send: awaited, it gives a future of the record's outcome.

        Where nothing is to be waited for, the record is appended without a task switch; after
        some hundred such sends the loop gets a turn. Order, checks and errors are those of
        `Producer.send`; what that raises, awaiting this raises. Cancelled before the append, the
        record is not sent; cancelling the future never takes it back.
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
        """As `Producer.send_many`; with `serialized` no Python step applies."""

    def _send_arrow(
        self, topic: str, data: object, partition: int | None = None
    ) -> Coroutine[Any, Any, Future[BatchMetadata]]: ...
    def _flush(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """When it is done, all futures of what was sent before have their outcome."""

    def _partitions_for(self, topic: str) -> Coroutine[Any, Any, set[int]]: ...
    def _init_transactions(self) -> Coroutine[Any, Any, None]:
        """This and the next four are `Producer`'s; given up, what was begun goes on."""

    def _begin_transaction(self) -> Coroutine[Any, Any, None]: ...
    def _send_offsets(
        self,
        offsets: Sequence[tuple[str, int, int, str, int]],
        group: tuple[str, int, str, str | None],
    ) -> Coroutine[Any, Any, None]: ...
    def _commit_transaction(self) -> Coroutine[Any, Any, None]: ...
    def _abort_transaction(self) -> Coroutine[Any, Any, None]: ...
    def _close(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """As `Producer.close`; given up, it goes on behind. After it, waits for the same."""

    def _close_blocking(self, timeout: float) -> None:
        """For the interpreter's exit, when no loop runs any more."""

    def metrics(self) -> dict[str, dict[str, float]]: ...
    def _bootstrap_connected(self) -> bool: ...
    @property
    def _client(self) -> Client: ...
    @property
    def closed(self) -> bool:
        """Not started, stopped, or made before a fork in the parent of this process."""

# ---------------------------------------------------------------- call.rs

@final
class Call:
    """A coroutine of an `AsyncProducer`; what it returns is said where it is made."""

    def __await__(self) -> Iterator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any: ...
    def close(self) -> None: ...

@final
class JobCall:
    """A coroutine of an `AsyncConsumer`: as `Call`, and seen through by the garbage collector."""

    def __await__(self) -> Iterator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any: ...
    def close(self) -> None: ...

# ---------------------------------------------------------------- record_future.rs

@final
class RecordFuture(Awaitable[RecordMetadata]):
    """The outcome of one send for asyncio: what `asyncio.Future` has for whoever awaits it, for
    `gather`, `wait`, `shield` and `wait_for`. Its batch tells it; cancelling it takes no record
    back. An error that nobody asks for goes to the loop's exception handler.
    """

    _asyncio_future_blocking: bool
    @property
    def _cancel_message(self) -> Any | None: ...
    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def result(self) -> RecordMetadata:
        """asyncio.InvalidStateError before it is done; the record's error; CancelledError."""

    def exception(self) -> BaseException | None:
        """As `result`; None if the record was written."""

    def get_loop(self) -> AbstractEventLoop: ...
    def cancel(self, msg: Any | None = None) -> bool:
        """False if it is done. The record is sent all the same."""

    def add_done_callback(
        self, function: Callable[[RecordFuture], object], *, context: Context | None = None
    ) -> None:
        """Called soon after it is done, in the loop's thread."""

    def remove_done_callback(self, function: Callable[[RecordFuture], object]) -> int: ...
    def _make_cancelled_error(self) -> BaseException: ...
    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
    def __iter__(self) -> Generator[Any, None, RecordMetadata]: ...
    def __next__(self) -> RecordFuture: ...

# ---------------------------------------------------------------- completions.rs

@final
class Completions:
    """What is done, for one event loop; `thalweg.aio._completions` makes and watches it."""

    def __new__(
        cls, event_loop: AbstractEventLoop, notify: Callable[[], None] | None = None
    ) -> Self:
        """Without `notify` there is a descriptor to watch. `notify` is called by the callback
        thread when there is something to drain."""

    def fileno(self) -> int:
        """OSError if there is no descriptor."""

    def drain(self) -> None:
        """Calls back for what is done, in the loop's thread; for some thousand at once."""

    def wake(self, key: int) -> None:
        """The time of the call that waits under this key is over."""

    def __len__(self) -> int:
        """Futures that somebody waits for, and calls that wait."""

# ---------------------------------------------------------------- futures.rs

@final
class FutureRecordMetadata:
    """The outcome of one send (kafka.producer.future); completes with its batch."""

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Waits for the outcome, `timeout` seconds at most; None: for as long as it takes.

        Raises the record's error, or KafkaTimeoutError when the time is over: the record is still
        under way then, and `get` may be called again."""

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""

    @property
    def value(self) -> RecordMetadata | None:
        """Where the record was written; None if it was not, or not yet."""

    @property
    def exception(self) -> BaseException | None:
        """Why the record was not written; None if it was, or while that is open."""

    def succeeded(self) -> bool:
        """Whether it is done and the record was written."""

    def failed(self) -> bool:
        """Whether it is done and the record has an error."""

    def retriable(self) -> bool:
        """Whether it failed with an error that sending the record again may cure."""

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, value, **kwargs) on the callback thread, behind the callbacks that are due.

        At once, in this thread, if the outcome is known and no callback is due before it. Not
        called if the record failed. What f raises is logged.

        Raises:
            TypeError: If f cannot be called.
        """

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, exception, **kwargs) if the record fails; else as `add_callback`."""

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, value or exception, **kwargs) either way; else as `add_callback`."""

@final
class FutureBatchMetadata:
    """The outcome of `send_many` or `send_arrow`; done when every row has its outcome."""

    def get(self, timeout: float | None = None) -> BatchMetadata:
        """Waits for all rows, `timeout` seconds at most; None: for as long as it takes.

        Raises BatchSendError(errors=[(row, exception)], metadata=...) if any row failed, or
        KafkaTimeoutError when the time is over."""

    @property
    def is_done(self) -> bool:
        """Whether the outcome of every row is known."""

    @property
    def value(self) -> BatchMetadata | None:
        """What was written, if it is done and no row failed."""

    @property
    def exception(self) -> BaseException | None:
        """The BatchSendError, if it is done and a row failed."""

    def succeeded(self) -> bool:
        """Whether it is done and every row was written."""

    def failed(self) -> bool:
        """Whether it is done and a row failed."""

    def retriable(self) -> bool:
        """Whether sending the failed rows again may help: if it may for each of them."""

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, BatchMetadata, **kwargs) if no row fails; as FutureRecordMetadata's."""

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, BatchSendError, **kwargs) if a row fails; as FutureRecordMetadata's."""

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """f(*args, BatchMetadata or BatchSendError, **kwargs); as FutureRecordMetadata's."""

    def __len__(self) -> int:
        """Rows handed in."""

@final
class BatchMetadata:
    """What was written of a `send_many` or `send_arrow`; it can be pickled."""

    def __new__(
        cls, partitions: dict[TopicPartition, tuple[int, int, int]], offsets: bytes
    ) -> Self:
        """`offsets` are int64, little-endian; ValueError if their bytes are none."""

    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def count(self) -> int:
        """Rows that were written."""

    @property
    def partitions(self) -> dict[TopicPartition, tuple[int, int, int]]:
        """{TopicPartition: (count, first offset, last offset)}."""

    @property
    def offsets(self) -> memoryview:
        """One int64 (format 'q') a row handed in, -1 where it was not written or acks=0;
        made on first access."""

    def __len__(self) -> int:
        """Rows handed in, written or not."""

# ---------------------------------------------------------------- records.rs

@final
class ConsumerRecord(Generic[_K_co, _V_co]):
    """One record, as kafka-python's namedtuple behaves (tests/unit/test_records.py runs the
    same assertions on both); it is not a tuple subclass, everything else holds.

    Headers are kept as their raw section and parsed on first access. Takes its arguments by
    position or keyword, all required. Compares, orders and hashes as the tuple of its
    fields, also against plain tuples; pickles and copies.
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
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Unix milliseconds."""

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""

    @property
    def key(self) -> _K_co: ...
    @property
    def value(self) -> _V_co: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...
    @property
    def checksum(self) -> int | None: ...
    @property
    def serialized_key_size(self) -> int: ...
    @property
    def serialized_value_size(self) -> int: ...
    @property
    def serialized_header_size(self) -> int: ...
    def _asdict(self) -> dict[str, Any]: ...
    def _replace(self, **kwargs: Any) -> Self: ...
    @classmethod
    def _make(cls, iterable: Any) -> Self: ...
    def count(self, value: Any, /) -> int: ...
    def index(self, value: Any, start: SupportsIndex = 0, stop: SupportsIndex = ..., /) -> int: ...
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

# ---------------------------------------------------------------- consumer.rs

@type_check_only
class ConsumerHooks(Protocol):
    """What of the consumer is Python; each attribute is None if it is not. Read once.

    `thalweg._consuming.Hooks` is the only implementation. With all None, `poll` and iteration
    touch no Python code.
    """

    deserialize_key: Callable[[str, list[tuple[str, bytes | None]], bytes | None], Any] | None
    deserialize_value: Callable[[str, list[tuple[str, bytes | None]], bytes | None], Any] | None
    """(topic, headers, data) -> object, called while a record is built. If one raises:
    records before it are returned first; the next call raises DeserializationError(topic,
    partition, offset, key, value, headers, timestamp, cause) with the position at that record
    (KIP-334)."""
    before_poll: Callable[[int | None, bool], int | None] | None
    """Coordinator work in the application's thread (groups, committed offsets, auto-commit).

    Called from within `poll`, `poll_arrow` and the iterator's refills, before any record is
    drained: first at once, then whenever the time that it returned is over or `reenter()` was
    called. (ms left of the caller's timeout, None = no limit; whether it is a poll) -> ms after
    which it wants to be called again (None = not by time). May raise; may call assign, seek,
    pause, resume, set_committed. Between two calls buffered records are handed out at once.

    `position` calls it too while the position is not known, with False: that is no poll, so it
    then commits nothing, runs no callback and assigns nothing. The next poll does what was left
    out: it calls the whole hook, whatever was due or was told before."""
    on_consume: (
        Callable[
            [dict[TopicPartition, list[ConsumerRecord[Any, Any]]]],
            dict[TopicPartition, list[ConsumerRecord[Any, Any]]],
        ]
        | None
    )
    """Runs the interceptors' chain over what `poll` (or an iterator's refill) returns; never
    raises (it logs)."""

@disjoint_base
class Consumer(Generic[_K_co, _V_co]):
    """The consumer core; `thalweg.consumer.KafkaConsumer` is its public subclass.

    One thread at a time may use it: a second one gets an IllegalStateError at once, in polls by
    itself, elsewhere through `_begin_use`; `wakeup` and `reenter` may be called from anywhere.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """As Producer's."""

    def _open(self, config: Mapping[str, Any], hooks: ConsumerHooks | None = None) -> None:
        """Bootstraps as Producer does. With `group_id` set, an assigned partition without a
        position waits for `set_committed` before the reset policy applies; without it the
        policy applies at once."""

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment; partitions that stay keep position, buffer and pause."""

    def set_subscribed(self, subscribed: bool) -> None:
        """Whether topics are subscribed to. Without that and without assignment, `poll`,
        `poll_arrow` and iteration raise an IllegalStateError: nothing would ever come."""

    def assignment(self) -> set[TopicPartition]: ...
    def poll(
        self, timeout_ms: float | None = ..., max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[_K_co, _V_co]]]:
        """At most `max_records` (None: max_poll_records); {} when the time is over. Raises
        what is wrong with a partition (OffsetOutOfRangeError, NoOffsetForPartitionError,
        CorruptRecordError, TopicAuthorizationFailedError, ...) once no good record is left
        before it. KafkaTimeoutError is never raised for an empty poll."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ConsumerRecord[_K_co, _V_co]:
        """The next record; the position moves record by record. StopIteration after
        `consumer_timeout_ms` without one (the iterator may be used again), or when closed.
        A record whose partition was revoked, paused or sought meanwhile is not handed out."""

    def poll_arrow(
        self,
        timeout_ms: float | None = ...,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> RecordTable:
        """All that is buffered, up to `max_bytes` (None: poll_arrow_max_bytes); waits for the
        first record only. The schema is RecordTable's."""

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = ...) -> None:
        """IllegalStateError if it is not assigned, or another thread uses the consumer."""

    def seek_to(
        self, partitions: Sequence[TopicPartition], where: Literal["earliest", "latest"]
    ) -> None:
        """Lazy, as kafka-python's seek_to_beginning and seek_to_end; else as `seek`."""

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Next offset to be handed out; waits (running `before_poll` as no poll) until it is known,
        then KafkaTimeoutError; what keeps it from being known is raised, as by `poll`;
        IllegalStateError if not assigned."""

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit would write: next offset and the leader epoch of the last batch before
        it, with or without records, for each assigned partition that has a position; never
        waits."""

    def awaiting_committed(self) -> list[TopicPartition]:
        """Assigned partitions without position that wait for `set_committed`."""

    def set_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """The committed offsets found; None: there is none, the reset policy applies. Ignored
        for partitions that got a position (a seek) or were revoked meanwhile."""

    def pause_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """IllegalStateError if one is not assigned. Keeps what is buffered."""

    def resume_partitions(self, partitions: Sequence[TopicPartition]) -> None: ...
    def paused(self) -> set[TopicPartition]: ...
    def highwater(self, partition: TopicPartition) -> int | None:
        """From the last fetch; None if there was none."""

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """As highwater; brokers that know no transactions tell none."""

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Unix ms of the last answer to a fetch that named the partition."""

    def lag(self, partition: TopicPartition) -> int | None:
        """High watermark (last stable offset under read_committed) minus position."""

    def list_offsets(
        self, targets: Sequence[tuple[str, int, int]], timeout_ms: int | None = None
    ) -> list[tuple[str, int, int, int, int]]:
        """(topic, partition, timestamp) -> (topic, partition, offset, timestamp, leader
        epoch), in the order asked. Timestamps of KIP-79/734: -1 latest, -2 earliest, -3 max
        timestamp; offset -1 if there is none. KafkaTimeoutError."""

    def reenter(self) -> None:
        """Makes a waiting call run `before_poll` now; from any thread."""

    def _heartbeat(self, heartbeats: Heartbeats, node: _Node) -> None:
        """Has the I/O thread send them to the node every `interval_ms`, whatever Python does, in
        place of what it sent before; the first goes out after an interval, or an interval after
        the last of those. At most one is in flight, for `answer_within_ms` or `request_timeout_ms`,
        whichever is less; then its connection is given up, and the coordinator looked up again.

        Answers without news are swallowed: ErrorCode 0, MemberEpoch (where there is one) as sent,
        Assignment null. An answer's HeartbeatIntervalMs becomes the interval, a higher MemberEpoch
        goes into the heartbeats that follow. Everything else is for `_notable_heartbeats`:
        REBALANCE_IN_PROGRESS lets heartbeats go on at the interval (the group keeps only members
        that do); after COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
        lost connections and timeouts they go on after a growing retry_backoff_ms, with the
        coordinator looked up again; any other error code, or an error that no retry cures, pauses
        them until the next call of this.

        If no poll, poll_arrow or iteration is entered or left for `max_poll_interval_ms` (being
        inside of one counts as polling), `leave` (API, body) is sent once, heartbeats stop, and
        `_poll_expired` says so. Who sends the same API by `client` stops heartbeats before.
        ValueError as `Client.request`, and for intervals below 1; a TypeError names the field."""

    def _join(
        self, join: _Body, timeout_ms: float, heartbeats: Heartbeats, node: _Node
    ) -> PendingRequest:
        """Sends a JoinGroup to the node as `Client.submit` does, and ends the heartbeats before it.
        Once it is answered with ErrorCode 0, these begin as by `_heartbeat`, with the answer's
        GenerationId and MemberId in the body, whatever Python does; unless `_heartbeat`,
        `_stop_heartbeat` or this was called meanwhile.

        `timeout_ms` is that of `Client.submit`. ValueError as `Client.submit` and `_heartbeat`."""

    def _stop_heartbeat(self) -> None:
        """Ends heartbeats and the watch over polls. The answer to one in flight is told only if
        it is good and has news; so it is if another `_heartbeat` replaced it."""

    def _notable_heartbeats(self) -> list[tuple[dict[str, Any] | None, Exception | None]]:
        """Takes the answers with news, and the errors in their place; the newest 16. A waiting
        call runs `before_poll` as each of them comes, as after `reenter`."""

    def _poll_expired(self) -> bool:
        """Takes the flag that max_poll_interval_ms passed without a poll."""

    def _handed_out(
        self, partitions: Sequence[tuple[str, int]]
    ) -> list[tuple[int, int, int, int] | None]:
        """What was handed out of each partition since its last assignment, seek or reset: a number
        that each of these changes, the position before the first record and after the last, and
        how many records. None: nothing was."""

    def _records_handed_out(self) -> int:
        """Of all polls and iterations so far."""

    def _begin_use(self) -> None:
        """The calling thread uses the consumer until `_end_use`, as often as it is called. A poll
        that waits, or does the coordinator's work, counts too.

        Raises:
            IllegalStateError: Another thread does.
        """

    def _end_use(self) -> None: ...
    def _hold(self, held: bool) -> None:
        """While held, polls hand nothing out: positions stay where a commit took them."""

    def wakeup(self) -> None:
        """The waiting (or next) call raises WakeupError; from any thread."""

    def bootstrap_connected(self) -> bool: ...
    def metrics(self) -> dict[str, dict[str, float]]: ...
    def shutdown(self, timeout_ms: int | None = None) -> None:
        """Closes sockets and buffers; commits nothing (`KafkaConsumer.close` does) and leaves no
        group: heartbeats just end. Idempotent."""

    @property
    def client(self) -> Client: ...
    @property
    def closed(self) -> bool:
        """Never opened, closed, or made before a fork in the parent of this process."""

@final
class AsyncConsumer(Generic[_K_co, _V_co]):
    """The calls of a Consumer that wait, in one event loop: each gives a `JobCall`, which see.

    Several may wait at a time. Cancelled while it waits, a poll has taken nothing. After the close
    they raise a ConsumerStoppedError.
    """

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, consumer: Consumer[_K_co, _V_co], completions: Completions) -> Self: ...
    def open(
        self, config: Mapping[str, Any], hooks: ConsumerHooks | None = None
    ) -> Coroutine[Any, Any, None]:
        """Opens the consumer, as its `_open`. Given up or failed, it may be tried again."""

    def getone(
        self, partitions: Sequence[TopicPartition] = ..., iterating: bool = False
    ) -> Coroutine[Any, Any, ConsumerRecord[_K_co, _V_co]]:
        """The next record of these partitions, of all if none is named. `iterating`: after the
        close it raises StopAsyncIteration."""

    def getmany(
        self,
        partitions: Sequence[TopicPartition],
        timeout_ms: float | None,
        max_records: int | None = None,
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord[_K_co, _V_co]]]]:
        """As `Consumer.poll`; where there is nothing, the loop's other tasks have a turn at
        least."""

    def poll_arrow(
        self,
        timeout_ms: float | None,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> Coroutine[Any, Any, RecordTable]: ...
    def position(
        self, partition: TopicPartition, timeout_ms: float | None
    ) -> Coroutine[Any, Any, int]:
        """As `Consumer.position`."""

    def until(
        self, condition: Callable[[], object], timeout_ms: float | None
    ) -> Coroutine[Any, Any, bool]:
        """Does the coordinator's work (`before_poll`) until the condition is true."""

    def list_offsets(
        self, targets: Sequence[tuple[str, int, int]], timeout_ms: float | None
    ) -> Coroutine[Any, Any, list[tuple[str, int, int, int, int]]]: ...
    def result(
        self, request: PendingRequest, timeout_ms: float | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """The answer to a request; raises as `PendingRequest.result`."""

    def close(self, timeout: float) -> Coroutine[Any, Any, None]:
        """As `Consumer.shutdown`; seconds. Given up, it goes on behind."""

# ---------------------------------------------------------------- tables.rs

@final
class RecordTable:
    """Columns of consumed records; immutable, exported any number of times without a copy.

    Schema, also when empty: topic string, partition int32, offset int64, timestamp
    timestamp[ms, UTC], timestamp_type int32, leader_epoch int32, key binary, value binary,
    headers list<struct<key: string, value: binary>>; key, value and headers are nullable.
    """

    @property
    def num_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

# ---------------------------------------------------------------- client.rs

_Body: TypeAlias = Mapping[str, Any] | list[tuple[int, dict[str, Any]]]
_Node: TypeAlias = int | Literal["any", "controller"] | tuple[Literal["coordinator"], str, str]

@final
class Client:
    """Any Kafka API by name: what admin/ and coordinator/ are built on.

    A body is a dict with the field names of Kafka's JSON schemas ("TopicName"), nested
    structs as dicts, arrays as lists, bytes and records as bytes, uuids as Kafka's url-safe
    base64 str ("AAAAAAAAAAAAAAAAAAAAAA" is the zero id), nullable fields as None. A missing
    field takes the schema's default; an unknown one is a ValueError that names it; a field
    that the negotiated version cannot carry with a non-default value is an
    UnsupportedVersionError. Where the fields differ by version the body is a list of
    (least version, fields): of those that the negotiated version reaches the highest is sent.
    Error codes inside an answer are left to the caller.
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
        """One request to a node id, the least loaded broker (None, "any"), the controller, or a
        coordinator: ("coordinator", "group" | "transaction", key), looked up and cached;
        `forget_coordinator` drops it.

        Requests to a coordinator go by the group connection, but JoinGroup and SyncGroup, which
        wait there, by one of their own; all others by the general one.
        version None: the highest that both sides speak, up to `max_version`;
        IncompatibleBrokerVersion if there is none.
        timeout_ms None: request_timeout_ms. KafkaTimeoutError, KafkaConnectionError; no
        retries but for reaching the node.
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
        """`request` without waiting."""

    def negotiate(self, api: str, node: _Node | None = None, max_version: int | None = None) -> int:
        """The version that `request` would use; for bodies that differ by version. Connects if
        need be. IncompatibleBrokerVersion if there is none."""

    def forget_coordinator(self, kind: Literal["group", "transaction"], key: str) -> None: ...
    def metadata(
        self, topics: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> dict[str, Any]:
        """A fresh Metadata answer as `request` gives it; None: all topics, []: none. Creates
        no topic."""

    def cluster(self) -> ClusterMetadata: ...
    def watch_cluster_id(self, f: Callable[[str], object]) -> None:
        """f(cluster_id) on the callback thread: at once if it is known, and whenever it is
        another one, until the client is closed. What f raises is logged."""

    def nodes(self) -> list[BrokerMetadata]: ...
    def api_versions(self, node: _Node | None = None) -> dict[str, tuple[int, int]]:
        """{API name: (least, highest)} that the node announced (unknown keys as their number)."""

    def bootstrap_connected(self) -> bool: ...
    def close(self, timeout_ms: int | None = None) -> None:
        """Of a client that belongs to a producer or consumer: IllegalStateError."""

    @property
    def closed(self) -> bool:
        """Closed, or made before a fork in the parent of this process."""

@final
class PendingRequest:
    """A request under way."""

    @property
    def is_done(self) -> bool: ...
    @property
    def answer_bytes(self) -> int:
        """The size of an answer that is there and was not read yet; else 0."""

    def result(self, timeout_ms: int | None = None) -> dict[str, Any]:
        """Waits for the answer or raises what `Client.request` would."""

    def add_done_callback(self, f: Callable[[Self], object]) -> None:
        """On the callback thread; at once, in this thread, if done."""

# ---------------------------------------------------------------- broker.rs

_FaultAction: TypeAlias = Literal["fail", "delay", "disconnect", "apply_then_disconnect", "silence"]

class _GroupMember(TypedDict):
    instance_id: str | None
    session_timeout_ms: int
    epoch: int  # of a classic member: the generation
    heartbeat: int  # the error code that a heartbeat is answered with
    watched: bool  # whether the session's time runs

class _GroupView(TypedDict):
    group_id: str
    kind: Literal["classic", "consumer"]
    protocol_type: str
    state: str
    epoch: int
    topics: list[str]
    members: dict[str, _GroupMember]

# A request: (kind, token, api, version, client_id, client_host, at_ms, group_id, body, draft). It
# has a group_id unless it is about several; its draft is what is to be answered for unknown groups,
# by the APIs that describe. "topics": `_topics_by_id` gives something else; the first event, too.
_GroupEvent: TypeAlias = (
    tuple[
        Literal["request"],
        int,
        str,
        int,
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
    """The embedded broker's core; `thalweg.broker.EmbeddedBroker` wraps it."""

    def __new__(
        cls,
        nodes: int = 1,
        port: int = 0,
        host: str = "127.0.0.1",
        configs: Mapping[str, str] | None = None,
    ) -> Self:
        """Opens nothing and checks no option yet: start() does. `configs`: Kafka's broker options,
        dotted names. port 0: any free ones; else port, port + 1, ... ValueError: nodes < 1."""

    def start(self) -> None:
        """Returns when all nodes accept connections. OSError (EADDRINUSE) names the port.
        KafkaConfigurationError: an unknown option, a bad value, or ports above 65535.
        Idempotent; after close(): IllegalStateError."""

    def close(self) -> None: ...
    @property
    def host(self) -> str: ...
    @property
    def nodes(self) -> list[int]: ...
    @property
    def ports(self) -> list[int]: ...
    @property
    def bootstrap_servers(self) -> str:
        """'host:port,host:port'; IllegalStateError before start()."""

    @property
    def running(self) -> bool: ...
    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, ..."""

    def delete_topic(self, name: str) -> None: ...
    def topics(self) -> dict[str, int]:
        """{name: number of partitions}."""

    def leader(self, partition: tuple[str, int]) -> int: ...
    def move_leader(self, partition: tuple[str, int], node: int) -> None: ...
    def move_coordinator(self, key: str, node: int) -> None:
        """Of the group and of the transactional id of that name; ValueError: no such node."""

    def stop_node(self, node: int) -> None: ...
    def start_node(self, node: int) -> None: ...
    @staticmethod
    def api_names() -> list[str]:
        """All of Kafka's APIs, for `add_fault` and `requests`."""

    @staticmethod
    def option_names() -> list[str]:
        """What `configs` may hold."""

    def add_fault(
        self,
        api: str | None,
        action: _FaultAction,
        node: int | None = None,
        topic: str | None = None,
        error_code: int = 0,
        delay_ms: int = 0,
        times: int | None = ...,
    ) -> int:
        """Returns the fault's id. api None: any; times None: until removed. Faults apply in
        the order in which they were added, one a request."""

    def remove_fault(self, fault: int) -> None: ...
    def clear_faults(self) -> None: ...
    def fault_hits(self, fault: int) -> int:
        """How often it has applied; also after it was used up."""

    def requests(self, api: str | None = None) -> dict[str, int]:
        """{API name: requests that came since start, answered or not}."""

    def _serve_groups(self) -> None:
        """Announces the APIs of groups and hands their requests over. IllegalStateError unless the
        broker runs; the methods below: unless this one was called. Again: nothing."""

    def _group_options(self) -> dict[str, str]:
        """Kafka's broker options that begin with 'group.', as given or by default."""

    def _next_group_events(self, timeout_ms: float | None = None) -> list[_GroupEvent] | None:
        """The oldest events (at most 500), in the order in which they happened; waits for one
        without the GIL. Empty: the time is over; None: the broker is closed. One thread waits."""

    def _answer_group_request(self, token: int, body: Mapping[str, Any]) -> bool:
        """Answers a request; False if nobody waits for it any more. ValueError, TypeError: the body
        does not fit the response's schema or version; the client gets UNKNOWN_SERVER_ERROR."""

    def _publish_group(self, view: _GroupView, at_ms: float) -> None:
        """What the coordinator knows of a group, as of the event at `at_ms`. A member that was not
        watched before, or with another timeout, begins its session now."""

    def _forget_group(self, group_id: str) -> None:
        """The coordinator knows nothing of the group any more; its offsets stay."""

    def _topics_by_id(self) -> list[tuple[str, str, int]]:
        """(name, id, number of partitions) of all topics."""

    def _broker_now_ms(self) -> float:
        """The clock of events: milliseconds since start()."""

# ---------------------------------------------------------------- reader.rs

@final
class PartitionReader:
    """A bounded range of one partition as Arrow batches (Spark's executors)."""

    def __new__(
        cls,
        config: Mapping[str, Any],
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
        batch_rows: int = 65536,
        batch_bytes: int = 16777216,
        timeout_ms: float = 120000.0,
    ) -> Self:
        """[start, end); -2 and -1 stand for earliest and latest."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    @property
    def lost(self) -> list[tuple[int, int]]:
        """Ranges [from, to) of offsets that were gone and passed over; empty once closed."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class ArrowBatch:
    """One RecordBatch in the Spark connector's schema."""

    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
