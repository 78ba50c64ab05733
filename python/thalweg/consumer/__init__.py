"""KafkaConsumer: reads records; kafka-python's class on the native core.

    poll(), poll_arrow(), for record in consumer ──> fetch buffer <── brokers            (Rust)
      └─ before each: Driver.before_poll: topics' partitions, the group's membership,
         committed offsets, auto-commit                                                  (Python)

Reading is the native core's own. This module and `_consumer_offsets.py` turn kafka-python's calls
into the core's, and keep what a group needs: `coordinator/driver`.

One thread at a time may use a consumer: a second thread that polls, subscribes, seeks, commits or
closes it meanwhile gets an IllegalStateError. `wakeup` and `mark` may be called from any.

`subscribe` with a group_id joins the group, within `poll`; heartbeats go on in Rust. `assign` with
a group_id commits and finds committed offsets; topics without a group_id are read whole by this
consumer, as in kafka-python.
"""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from thalweg import _closing, _consuming, _logging, metrics
from thalweg._arguments import constructor_topics, partitions_given, shown
from thalweg._consumer_offsets import ConsumerOffsets, alone
from thalweg._core import ConsumerRecord
from thalweg._option_help import options_listed
from thalweg.config import Config, configured, options_of
from thalweg.coordinator.driver import CHECKS, Driver, run
from thalweg.coordinator.listener import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.serializer import Deserializer
from thalweg.structs import TopicPartition
from thalweg.tables import RecordTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg._config_types import ConsumerConfig

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaConsumer",
    "RecordTable",
]


@options_listed("c")
class KafkaConsumer(ConsumerOffsets[K, V], Generic[K, V]):
    """Reads records of topics or partitions (`consumer.KafkaConsumer`).

        with KafkaConsumer(bootstrap_servers="localhost:9092") as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            for record in consumer:
                print(record.offset, record.value)

    Options are in docs/configuration.md; `K` and `V` are what the deserializers give, bytes or
    None without them. Iteration raises what `poll` raises, and ends after consumer_timeout_ms
    without a record.

    Args:
        *topics: Topics to subscribe to.
        **configs: Options.

    Raises:
        KafkaConfigurationError: If options are unknown, bad or contradictory, with all of them.
        NoBrokersAvailable: If no bootstrap server answers within `bootstrap_timeout_ms`.
        TypeError: If a topic is no str; options as one dict are for `from_config`.
        InvalidTopicError: If no topic can have a name.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        name: row.default for name, row in options_of("c").items()
    }

    config: Config
    _driver: Driver
    _pid: int

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "KafkaConsumer[bytes | None, bytes | None]",
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: None = None,
            **configs: Unpack[ConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaConsumer[K, bytes | None]",
            *topics: str,
            key_deserializer: Deserializer[K] | Callable[[Any], K],
            value_deserializer: None = None,
            **configs: Unpack[ConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaConsumer[bytes | None, V]",
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: Deserializer[V] | Callable[[Any], V],
            **configs: Unpack[ConsumerConfig],
        ) -> None: ...
        @overload
        def __init__(
            self: "KafkaConsumer[K, V]",
            *topics: str,
            key_deserializer: Deserializer[K] | Callable[[Any], K],
            value_deserializer: Deserializer[V] | Callable[[Any], V],
            **configs: Unpack[ConsumerConfig],
        ) -> None: ...
        def __init__(self, *topics: str, **configs: Any) -> None: ...

    else:

        def __init__(self, *topics, **configs):
            self._start(topics, configs)

    def _start(self, topics: tuple[str, ...], given: Mapping[str, Any]) -> None:
        names = constructor_topics("KafkaConsumer", topics)
        self.config = config = configured("c", "KafkaConsumer", given, checks=CHECKS)
        _logging.refresh()
        self._driver = Driver(self, config)
        self._open(config.core(), _consuming.Hooks(config, self._driver.before_poll))
        config.opened(self, lambda opened: opened.client.api_versions("any"))
        self._pid = os.getpid()
        self._watch = _consuming.watched(self, self.client, config)
        _closing.watch(self, _close_at_exit)
        if names:
            self.subscribe(names)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str) -> Self:
        """A consumer from a mapping, for Kafka's dotted names and librdkafka's.

        Args:
            config: Options under any of their names: {"bootstrap.servers": ..., ...}.
            *topics: Topics to subscribe to.

        Raises:
            KafkaConfigurationError: As the constructor.
        """
        return cls(*topics, **config)

    # ------------------------------------------------------------------ what is read

    @alone
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        Partitions that stay keep their position and what is buffered.

        Args:
            partitions: TopicPartitions; none at all is `unsubscribe`.

        Raises:
            IllegalStateError: If topics are subscribed to.
            TypeError: If it is no list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If no topic can have a name.
        """
        self._driver.assign(partitions_given(partitions))

    @alone
    def subscribe(
        self,
        topics: Iterable[str] | None = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
    ) -> None:
        """Reads topics by name or pattern, in place of those subscribed to before.

        With a group_id it joins the group with the next poll, and reads the partitions that the
        group gives it. Without one it reads all partitions, and new ones once it hears of them.

        Args:
            topics: Names.
            pattern: A regular expression that topics' names are matched with at their start; or a
                SubscriptionPattern, which the broker matches with whole names (KIP-848).
            listener: A ConsumerRebalanceListener; told of changes from within `poll`.

        Raises:
            IllegalStateError: If partitions are assigned, or both kinds are given.
            ValueError: If neither is given.
            TypeError: If topics is no list of str, or the pattern or the listener is none.
            InvalidTopicError: If no topic can have a name.
            UnsupportedOperationError: If pattern is a SubscriptionPattern, without group_id or
                without group_protocol='consumer'.
        """
        names, pattern = _consuming.subscription_given(topics, pattern)
        if listener is not None:
            _check_listener(listener)
        self._driver.subscribe(names, pattern, listener)

    def subscription(self) -> set[str] | None:
        """The topics subscribed to; None without subscription."""
        return self._driver.subscription()

    @alone
    def unsubscribe(self) -> None:
        """Reads nothing any more, and leaves the group; commits first, if auto-commit is on."""
        run(self._driver.unsubscribe())

    # ------------------------------------------------------------------ records

    def poll(
        self,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Records that were fetched, by partition.

        Args:
            timeout_ms: How long to wait if there are none; None waits for ever.
            max_records: Most of them; None: max_poll_records.
            update_offsets: kafka-python's internal switch; must be True.

        Returns:
            {TopicPartition: [ConsumerRecord]}; {} when the time is over.

        Raises:
            IllegalStateError: If nothing is subscribed to or assigned, another thread uses the
                consumer, or it is closed.
            NoOffsetForPartitionError: Without committed offset and with auto_offset_reset none.
            OffsetOutOfRangeError: If the position is gone and auto_offset_reset is none.
            LogTruncationError: If the log was cut off below the position, or its topic was made
                anew, and auto_offset_reset is none (KIP-320); until the application seeks.
            CorruptRecordError: If a batch's checksum is wrong; the position stays.
            DeserializationError: If a deserializer raised; the position stays (KIP-334).
            FencedInstanceIdError: If another consumer has this group_instance_id, for good.
            AuthorizationError: A TopicAuthorizationFailedError or GroupAuthorizationFailedError.
            SaslAuthenticationFailedError: If a broker refuses the credentials (KIP-152).
            KafkaConnectionError: If no TLS connection can be had until a setting changes.
            BrokerResponseError: What else a broker refuses and no retry cures, by its own class.
            WakeupError: If `wakeup` was called.
            TypeError: If timeout_ms is no number, or max_records no int.
            ValueError: If an argument is out of range.
        """
        _consuming.check_limits(max_records)
        if not update_offsets:
            raise ValueError("update_offsets=False is not offered: use seek()")
        return super().poll(_consuming.whole_ms(timeout_ms), max_records)

    def poll_arrow(  # type: ignore[override]
        self,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> RecordTable:
        """Records as columns, without making an object of each.

        Args:
            timeout_ms: How long to wait if there are none; None waits for ever.
            max_records: Most of them; None: all that is buffered (max_poll_records is not
                applied).
            max_bytes: Most bytes; None: poll_arrow_max_bytes.

        Returns:
            A table, empty when the time is over; raw bytes, so deserializers do not apply.

        Raises:
            IllegalStateError: If a deserializer is set: its values could not be columns.
            TypeError: If timeout_ms is no number, or a limit no int.
            ValueError: If an argument is out of range.
            KafkaError: And what `poll` raises.
        """
        _consuming.check_bytes(self.config)
        _consuming.check_limits(max_records, max_bytes)
        limit = _consuming.whole_ms(timeout_ms)
        return RecordTable(super().poll_arrow(limit, max_records, max_bytes))

    # ------------------------------------------------------------------ the client itself

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """kafka-python 3's: the constructor has bootstrapped; `refresh` asks for metadata again.

        Raises:
            KafkaTimeoutError: When the time is over.
        """
        if refresh:
            self.client.metadata([], self._limit(timeout_ms))

    def metrics(self, raw: bool = False) -> Any:
        """Metrics of this consumer under Kafka's names (monitoring page of Kafka's docs).

        Args:
            raw: False: {group: {name: value}}, where groups of one node end in its name
                ('consumer-node-metrics.node-1'); True: {MetricName: KafkaMetric}.

        Returns:
            The metrics; None with metrics_enabled=False.
        """
        found = self._driver.with_metrics(super().metrics())
        return metrics.snapshot(found, self.config, raw)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Gives everything up: commits, if auto-commit is on, and leaves the group.

        A static member (group_instance_id) stays in the group until its session ends. A second
        call does nothing.

        Args:
            autocommit: False leaves the commit out.
            timeout_ms: Limit of it all; None: default_api_timeout_ms.

        Raises:
            TypeError: If timeout_ms is no number.
            ValueError: If it is NaN.
            IllegalStateError: If another thread uses the consumer. End its poll by `wakeup` first.
        """
        if self.closed:
            return
        limit = self._limit(timeout_ms)
        self._begin_use()
        try:
            self._close(autocommit, limit)
        finally:
            self._end_use()

    def _close(self, autocommit: bool, limit: int) -> None:
        began = time.monotonic()
        try:
            run(self._driver.close(autocommit, limit))
        finally:
            self.shutdown(max(0, limit - int((time.monotonic() - began) * 1000)))
            self._watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What was in work when an exception left the block may not be done: do not commit it.
        self.close(autocommit=exc_type is None)

    def __del__(self) -> None:
        # The parent's consumer is not the child's to close.
        if getattr(self, "_pid", None) == os.getpid() and not self.closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return (
            f"<KafkaConsumer client_id={config.get('client_id')} group_id={config.get('group_id')}>"
        )


def _check_listener(listener: Any) -> None:
    if not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError(f"listener must be a ConsumerRebalanceListener, got {shown(listener)}")
    for name in ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"):
        if iscoroutinefunction(getattr(listener, name)):
            raise TypeError(f"{name} is a coroutine: that takes an AIOKafkaConsumer")


def _close_at_exit(consumer: Any) -> None:
    # What was in work may not be done: an exception, or Ctrl-C, may have ended the program. Nobody
    # ends the poll of a daemon thread, so it is closed under that.
    consumer._close(autocommit=False, limit=int(_closing.AT_EXIT_SECONDS * 1000))
