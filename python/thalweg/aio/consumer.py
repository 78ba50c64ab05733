"""AIOKafkaConsumer: aiokafka's consumer on the native core of KafkaConsumer.

    getone(), getmany(), poll_arrow(), async for record in consumer
      └─ records in the buffer: returns at once
         else: the task sleeps until the I/O thread wakes it (_core.ConsumerCoroutine)
    commit(), committed(), stop(): calls of the driver, which the task runs (_waits.py)

As in KafkaConsumer, only the calls that return records do the work of a group member. Between these
calls, the consumer does not give up partitions. The I/O thread keeps sending heartbeats. A consumer
starts no thread. Several tasks may wait for records of one consumer.
"""

import asyncio
import functools
import os
import warnings
import weakref
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, overload

from thalweg import _core, _logging, metrics
from thalweg._client import closing, consuming
from thalweg._client.arguments import (
    constructor_topics,
    partitions_named,
)
from thalweg._config.concealment import concealed, mappings_hidden
from thalweg._config.option_help import options_listed
from thalweg._config.secret import Secret, hidden, revealed
from thalweg._core import ConsumerRecord
from thalweg.aio import _completions
from thalweg.aio._core_options import core_options
from thalweg.aio._subscription import ConsumerSubscription
from thalweg.aio._waits import awaited
from thalweg.config import Config, configured
from thalweg.coordinator.driver import CHECKS, Driver, heard
from thalweg.coordinator.listener import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from thalweg.errors import IllegalStateError
from thalweg.serializer import Deserializer
from thalweg.structs import TopicPartition
from thalweg.tables import RecordTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg.typing import AIOConsumerConfig

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = [
    "AIOKafkaConsumer",
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "RecordTable",
]

_UNUSED: Final = {
    "consumer_timeout_ms": "async iteration waits for the next record. To limit the wait, await"
    " getmany(timeout_ms=...)"
}

# How often a call that waits for records of given partitions checks that they are still assigned.
_LOOK_MS: Final = 1000


class _NotStarted:
    """Takes the place of the objects that start() creates; using it raises IllegalStateError."""

    def __getattr__(self, name: str) -> Any:
        raise IllegalStateError("the consumer was not started: await its start() first")


@options_listed("c", _UNUSED)
class AIOKafkaConsumer(ConsumerSubscription, Generic[K, V]):
    """Reads records from topics or partitions, in the event loop in which you await `start`.

        async with AIOKafkaConsumer("topic", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    The options are those of KafkaConsumer: see docs/configuration.md. `consumer_timeout_ms` has no
    effect, and `loop` is deprecated.

    Args:
        *topics: Topics to subscribe to.
        **configs: Options.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
        TypeError: If a topic is not a str. If you have a dict of options, use `from_config`.
        InvalidTopicError: If a topic name is not valid.
    """

    config: Config
    _committing: asyncio.Lock
    _calls: _core.AsyncConsumer[K, V]
    _completions: _core.Completions | None
    _consumer: _core.Consumer[K, V]
    _driver: Driver
    _loop: asyncio.AbstractEventLoop | None
    _pid: int
    _ended: bool
    _started: bool
    _stopping: asyncio.Task[None] | None
    _tasks: set[asyncio.Task[None]]
    _watch: metrics.Watch

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "AIOKafkaConsumer[bytes | None, bytes | None]",
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: None = None,
            **configs: Unpack[AIOConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaConsumer[K, bytes | None]",
            *topics: str,
            key_deserializer: Deserializer[K] | Callable[[Any], K],
            value_deserializer: None = None,
            **configs: Unpack[AIOConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaConsumer[bytes | None, V]",
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: Deserializer[V] | Callable[[Any], V],
            **configs: Unpack[AIOConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "AIOKafkaConsumer[K, V]",
            *topics: str,
            key_deserializer: Deserializer[K] | Callable[[Any], K],
            value_deserializer: Deserializer[V] | Callable[[Any], V],
            **configs: Unpack[AIOConsumerConfig],
        ) -> None: ...
        def __init__(self, *topics: str, **configs: Any) -> None: ...

    else:

        def __init__(self, *topics, loop=None, **configs):
            topics, configs = mappings_hidden(topics), concealed(configs)
            names = constructor_topics("AIOKafkaConsumer", topics)
            if loop is not None:
                text = "loop is deprecated: a consumer belongs to the loop in which start() runs"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
            self._loop, self._completions = loop, None
            self._calls = _NotStarted()
            self._started = self._ended = self._is_leaving = False
            self._stopping = self._leaving = None
            self._tasks = set()
            self._committing = asyncio.Lock()
            self._pid = os.getpid()
            self.config = configured("c", "AIOKafkaConsumer", configs, _UNUSED, CHECKS)
            self._consumer = _core.Consumer()
            # The core holds the driver. A strong reference back to this object would be a cycle.
            spawn = functools.partial(_spawn, weakref.ref(self))
            self._driver = Driver(self._consumer, self.config.driver(), spawn)
            self._begin = None
            if names:
                self.subscribe(names)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str) -> Self:
        """Creates a consumer from a mapping, which may have Kafka's or librdkafka's names.

        Args:
            config: The options: {"bootstrap.servers": ..., ...}.
            *topics: Topics to subscribe to.

        Raises:
            KafkaConfigurationError: As in the constructor.
        """
        config = concealed(config)
        return cls(*topics, **config)

    # ------------------------------------------------------------------ its life

    async def start(self) -> None:
        """Connects to the cluster. Before `start`, you may call only `subscribe` and `assign`.

        With a subscription, `start` also waits until partitions are assigned, for at most
        default_api_timeout_ms. If the group takes longer, the calls that return records continue
        to join.

        Raises:
            NoBrokersAvailable: If no bootstrap server responds within `bootstrap_timeout_ms`. You
                may then await `start` again. You may also do this if `start` was cancelled before
                it had connected.
            IllegalStateError: If the consumer was already started, or was created for another event
                loop.
            KafkaError: If the brokers refuse the group or the topics. This stops the consumer.
        """
        loop = asyncio.get_running_loop()
        if self._completions is not None:
            raise IllegalStateError("the consumer was already started: await start() only once")
        if self._loop is not None and self._loop is not loop:
            raise IllegalStateError(
                "the consumer was created for another event loop (loop=...): await start() in that"
                " loop"
            )
        _logging.refresh()
        self._pid = os.getpid()  # the constructor may have run before a fork
        self._completions = completions = _completions.attach(loop)
        try:
            core = await core_options(self.config, loop)
            calls = _core.AsyncConsumer(self._consumer, completions)
            await calls.open(core, consuming.Hooks(self.config, self._driver.before_poll))
        except BaseException:
            self._completions = None
            _completions.detach(loop, completions)
            raise
        self._loop, self._calls, self._started = loop, calls, True
        self._watch = consuming.watched(self, self._consumer._core_client, self.config)
        closing.watch(self, _close_at_exit)
        try:
            await self._begun()
        except BaseException:
            await self.stop(autocommit=False)
            raise

    def set_sasl_credentials(self, username: str, password: "str | Secret") -> None:
        """Changes the user name and the password of PLAIN or SCRAM for the next authentication.

        It does not close open connections. confluent-kafka has a method of the same name.

        Raises:
            IllegalStateError: If the client does not log in with PLAIN or SCRAM, or is closed.
            TypeError: If an argument is not a str.
            ValueError: If the mechanism cannot send a NUL character that one of them contains.
        """
        password = hidden(revealed(password))
        self.config.set_credentials(
            username, password, self._consumer._core_client if self._started else None
        )

    async def stop(self, autocommit: bool = True) -> None:
        """Commits if auto-commit is on, leaves the group, and closes the consumer.

        A static member (group_instance_id) stays in the group until its session times out. You may
        call it again. If the await is cancelled, stopping continues in the background.

        Args:
            autocommit: False skips the commit.

        Raises:
            IllegalStateError: If you await it in another event loop, or in a coroutine of this
                consumer's rebalance listener.
        """
        if not self._started or self._pid != os.getpid():
            return
        self._check_loop()
        if asyncio.current_task() in self._tasks:
            # The two would wait for each other.
            raise IllegalStateError(
                "a rebalance listener must not await stop(), which waits until the listener has"
                " returned. Use asyncio.create_task(consumer.stop())"
            )
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(autocommit))
        await asyncio.shield(self._stopping)

    async def _stop(self, autocommit: bool) -> None:
        loop, completions = self._loop, self._completions
        assert loop is not None
        assert completions is not None
        limit: int = self.config["default_api_timeout_ms"]
        began = loop.time()
        try:
            if self._leaving is not None:
                await asyncio.wait([self._leaving])
            left = max(0, limit - int((loop.time() - began) * 1000))
            await awaited(self._driver.close(autocommit, left), self._calls)
        finally:
            self._ended = True
            try:
                await self._calls.close(max(0.0, limit / 1000 - (loop.time() - began)))
            finally:
                _completions.detach(loop, completions)
                self._watch.close()
                consuming.close_steps(self.config)  # no task reads any more

    @property
    def closed(self) -> bool:
        """Whether `stop` was called, or the consumer belongs to the parent of this process.

        False before the start.
        """
        if self._started and self._pid != os.getpid():
            return True
        return self._stopping is not None

    # ------------------------------------------------------------------ records

    def getone(self, *partitions: TopicPartition) -> Coroutine[Any, Any, ConsumerRecord[K, V]]:
        """Waits for the next record without a limit. A cancelled call loses no record.

        Args:
            *partitions: The partitions to read from. Without arguments: all assigned partitions.

        Raises:
            ConsumerStoppedError: If the consumer was stopped, before the call or during it.
            IllegalStateError: If there is no subscription or assignment, or if none of the given
                partitions is assigned, for example because the consumer lost them in a rebalance
                during the call.
            TypeError: If an argument is not a TopicPartition.
            KafkaError: As in `KafkaConsumer.poll`.
        """
        self._check_running()
        named = partitions_named(partitions)
        return self._getone_of(named) if named else self._calls.getone(named)

    async def _getone_of(self, partitions: list[TopicPartition]) -> ConsumerRecord[K, V]:
        while True:
            self._check_running()
            self._check_may_come(partitions)
            found = await self._calls.getmany(partitions, _LOOK_MS, 1)
            # An interceptor may have removed the record.
            for records in found.values():
                for record in records:
                    return record

    def _check_may_come(self, partitions: list[TopicPartition]) -> None:
        """Raises if none of these partitions is assigned, and no rebalance is in progress."""
        if partitions and self._driver.is_settled():
            consuming.check_any_assigned(self._consumer, partitions)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Returns fetched records, by partition. A cancelled call loses no record.

        Args:
            *partitions: The partitions to read from. Without arguments: all assigned partitions.
            timeout_ms: How many milliseconds to wait for the first record.
            max_records: The maximum number of records. None: max_poll_records.

        Returns:
            {TopicPartition: [ConsumerRecord]}. It is empty if no record arrived in time.

        Raises:
            TypeError: If timeout_ms is not a number, or max_records is not an int.
            ValueError: If an argument is out of range.
            ConsumerStoppedError: If the consumer was stopped.
            IllegalStateError: As in `getone`, but only at the start of the call.
            KafkaError: As in `KafkaConsumer.poll`.
        """
        self._check_running()
        consuming.check_limits(max_records)
        limit = consuming.whole_ms(timeout_ms)
        named = partitions_named(partitions)
        self._check_may_come(named)
        return await self._calls.getmany(named, limit, max_records)

    async def poll_arrow(
        self,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> RecordTable:
        """Returns fetched records as Arrow columns, like `KafkaConsumer.poll_arrow`.

        Raises:
            IllegalStateError: If a deserializer is set, because the columns contain bytes.
            TypeError: If timeout_ms is not a number, or a limit is not an int.
            ValueError: If an argument is out of range.
            ConsumerStoppedError: If the consumer was stopped.
            KafkaError: As in `KafkaConsumer.poll`.
        """
        self._check_running()
        consuming.check_bytes(self.config)
        consuming.check_limits(max_records, max_bytes)
        limit = consuming.whole_ms(timeout_ms)
        return RecordTable(await self._calls.poll_arrow(limit, max_records, max_bytes))

    def __aiter__(self) -> Self:
        self._check_running()
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord[K, V]]:
        return self._calls.getone((), True)

    # ------------------------------------------------------------------ the client itself

    def metrics(self, raw: bool = False) -> Any:
        """Returns the metrics of this consumer, like `KafkaConsumer.metrics`."""
        found = self._driver.with_metrics(self._consumer.metrics())
        return metrics.snapshot(found, self.config, raw)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an exception, the application may not have processed the last records: do not
        # commit them.
        await self.stop(autocommit=exc_type is None)

    def __del__(self) -> None:
        if not getattr(self, "_started", False) or self.closed:
            return
        warnings.warn(f"{self!r} was not stopped", ResourceWarning, stacklevel=2, source=self)
        running = asyncio._get_running_loop()
        if running is None:
            _close_at_exit(self)
        elif running is self._loop and self._completions is not None:
            _completions.detach(running, self._completions)
            self._watch.close()

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        names = f"client_id={config.get('client_id')} group_id={config.get('group_id')}"
        return f"<AIOKafkaConsumer {names}>"


def _spawn(
    reference: "weakref.ref[AIOKafkaConsumer[Any, Any]]", told: Awaitable[object]
) -> "asyncio.Task[None]":
    """Runs the awaitable that a listener returned, then has the core call the driver again."""
    task = asyncio.get_running_loop().create_task(heard(told))
    consumer = reference()
    if consumer is not None:
        consumer._tasks.add(task)
        task.add_done_callback(consumer._tasks.discard)
        task.add_done_callback(consumer._driver.reenter)
    return task


def _close_at_exit(consumer: Any) -> None:
    """Closes a consumer whose loop has ended.

    It cannot commit or leave the group, so the group removes the member at its session timeout.
    """
    consumer._consumer._shutdown(closing.AT_EXIT_SECONDS * 1000)
    consumer._watch.close()
