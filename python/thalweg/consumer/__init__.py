"""KafkaConsumer: reads records; kafka-python's class on the native core.

    poll(), poll_arrow(), for record in consumer ──> fetch buffer <── brokers            (Rust)
      └─ before each: Driver.before_poll: topics' partitions, the group's membership,
         committed offsets, auto-commit                                                  (Python)

The native core reads the records. This module and `_offsets.py` turn kafka-python's calls
into calls of the core. `coordinator/driver` does the work of a group member.

Only one thread at a time may use a consumer. A second thread that polls, subscribes, seeks, commits
or closes it at the same time gets an IllegalStateError. Any thread may call `wakeup`, `mark` and
`mark_through`.

After `subscribe` with a group_id, the next `poll` joins the group, and Rust sends the heartbeats.
After `assign` with a group_id, the consumer commits offsets and begins at the committed ones, but
does not join. After `subscribe` without a group_id, it reads all partitions of the topics.
"""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from thalweg import _logging, metrics
from thalweg._client import closing, consuming
from thalweg._client.arguments import constructor_topics, partitions_given, shown
from thalweg._config.concealment import concealed, mappings_hidden
from thalweg._config.option_help import options_listed
from thalweg._config.secret import Secret, hidden, revealed
from thalweg._core import ConsumerRecord
from thalweg.config import Config, configured, options_of
from thalweg.consumer._offsets import ConsumerOffsets, alone
from thalweg.coordinator.driver import CHECKS, Driver, run
from thalweg.coordinator.listener import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.serializer import Deserializer
from thalweg.structs import TopicPartition
from thalweg.tables import RecordTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg.typing import ConsumerConfig

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
    """Reads records from topics or partitions (`consumer.KafkaConsumer`).

        with KafkaConsumer(bootstrap_servers="localhost:9092") as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            for record in consumer:
                print(record.offset, record.value)

    docs/configuration.md describes the options. `K` and `V` are the types that the deserializers
    return: bytes or None without a deserializer. Iteration raises the same errors as `poll`. If you
    set consumer_timeout_ms, iteration ends after this time without a record.

    Args:
        *topics: Topics to subscribe to.
        **configs: Options.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
        NoBrokersAvailable: If no bootstrap server responds within `bootstrap_timeout_ms`.
        SaslAuthenticationFailedError: If the brokers refuse the login.
        KafkaConnectionError: If TLS fails in a way that no retry can change, for example because
            the client does not trust the brokers' certificate.
        TypeError: If a topic is not a str. If you have a dict of options, use `from_config`.
        InvalidTopicError: If a topic name is not valid.
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
            topics, configs = mappings_hidden(topics), concealed(configs)
            self._start(topics, configs)

    def _start(self, topics: tuple[str, ...], given: Mapping[str, Any]) -> None:
        names = constructor_topics("KafkaConsumer", topics)
        self.config = config = configured("c", "KafkaConsumer", given, checks=CHECKS)
        _logging.refresh()
        self._driver = Driver(self, config.driver())
        self._open(config.core(), consuming.Hooks(config, self._driver.before_poll))
        config.opened(self, lambda opened: opened._core_client.api_versions("any"))
        self._pid = os.getpid()
        self._watch = consuming.watched(self, self._core_client, config)
        closing.watch(self, _close_at_exit)
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

    # ------------------------------------------------------------------ what is read

    @alone
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        Partitions that were assigned before keep their position and their buffered records.

        Args:
            partitions: The TopicPartitions. An empty list stops reading, as `unsubscribe` does.

        Raises:
            IllegalStateError: If the consumer is subscribed to topics.
            TypeError: If `partitions` is not a list of TopicPartitions.
            ValueError: If a partition is negative.
            InvalidTopicError: If a topic name is not valid.
        """
        self._driver.assign(partitions_given(partitions))

    @alone
    def subscribe(
        self,
        topics: Iterable[str] | None = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribes to topics by name or pattern. This replaces an earlier subscription.

        With a group_id, the next poll joins the group, and the consumer reads the partitions that
        the group assigns to it. Without a group_id, the consumer reads all partitions. It also
        reads new partitions when it finds them in the metadata.

        Args:
            topics: Topic names.
            pattern: A regular expression that must match at the start of a topic name. Or a
                SubscriptionPattern, which the broker matches against complete names (KIP-848).
            listener: A ConsumerRebalanceListener. `poll` calls it when partitions change.

        Raises:
            IllegalStateError: If `assign` is in use, or both topics and pattern are given.
            ValueError: If neither topics nor pattern is given.
            TypeError: If topics, pattern or listener has a wrong type.
            InvalidTopicError: If a topic name is not valid.
            UnsupportedOperationError: If pattern is a SubscriptionPattern, and the consumer has no
                group_id or does not use group_protocol='consumer'.
        """
        names, pattern = consuming.subscription_given(topics, pattern)
        if listener is not None:
            _check_listener(listener)
        self._driver.subscribe(names, pattern, listener)

    def subscription(self) -> set[str] | None:
        """Returns the subscribed topics, or None if there is no subscription."""
        return self._driver.subscription()

    @alone
    def unsubscribe(self) -> None:
        """Stops reading and leaves the group. With auto-commit it commits first."""
        run(self._driver.unsubscribe())

    # ------------------------------------------------------------------ records

    def poll(
        self,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Returns fetched records, by partition.

        Args:
            timeout_ms: How many milliseconds to wait for the first record. None: without limit.
            max_records: The maximum number of records. None: max_poll_records.
            update_offsets: kafka-python's internal switch. It must be True.

        Returns:
            {TopicPartition: [ConsumerRecord]}. It is empty if no record arrived in time.

        Raises:
            IllegalStateError: If there is no subscription or assignment, if another thread uses the
                consumer, or if the consumer is closed.
            NoOffsetForPartitionError: If no offset is committed and auto_offset_reset is 'none'.
            OffsetOutOfRangeError: If the log no longer has the position, and auto_offset_reset is
                'none'.
            LogTruncationError: If the log was truncated below the position, or the topic was
                deleted and created again, and auto_offset_reset is 'none' (KIP-320). Every poll
                raises this error until you seek.
            CorruptRecordError: If the checksum of a batch is wrong. The position does not move.
            DeserializationError: If a deserializer raised. The position does not move (KIP-334).
            FencedInstanceIdError: If another consumer uses this group_instance_id. Every later
                poll raises this error, too.
            AuthorizationError: A TopicAuthorizationFailedError or GroupAuthorizationFailedError.
            SaslAuthenticationFailedError: If a broker refuses the credentials (KIP-152).
            KafkaConnectionError: If a TLS connection cannot work until you change a setting.
            UnsupportedVersionError: If a broker is too old for Fetch or ListOffsets. Every poll
                raises this error until the broker is upgraded.
            BrokerResponseError: If a broker refuses a request for another reason, and a retry
                cannot help. The class of the error names the reason.
            WakeupError: If `wakeup` was called.
            TypeError: If timeout_ms is not a number, or max_records is not an int.
            ValueError: If an argument is out of range.
        """
        consuming.check_limits(max_records)
        if not update_offsets:
            raise ValueError(
                "update_offsets=False is not supported: call seek() to read the records again"
            )
        return super().poll(consuming.whole_ms(timeout_ms), max_records)

    def poll_arrow(  # type: ignore[override]
        self,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> RecordTable:
        """Returns fetched records as Arrow columns, without a Python object for each record.

        Args:
            timeout_ms: How many milliseconds to wait for the first record. None: without limit.
            max_records: The maximum number of records. None: everything in the buffer
                (max_poll_records does not apply).
            max_bytes: The maximum number of bytes. None: poll_arrow_max_bytes.

        Returns:
            A table with the raw bytes of keys and values. It is empty if no record arrived in time.

        Raises:
            IllegalStateError: If a deserializer is set, because the columns contain bytes.
            TypeError: If timeout_ms is not a number, or a limit is not an int.
            ValueError: If an argument is out of range.
            KafkaError: As in `poll`.
        """
        consuming.check_bytes(self.config)
        consuming.check_limits(max_records, max_bytes)
        limit = consuming.whole_ms(timeout_ms)
        return RecordTable(super().poll_arrow(limit, max_records, max_bytes))

    # ------------------------------------------------------------------ the client itself

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Requests the metadata again if `refresh` is True (kafka-python 3).

        Otherwise it does nothing: the constructor has already connected.

        Raises:
            KafkaTimeoutError: After timeout_ms.
        """
        if refresh:
            self._core_client.metadata([], self._limit(timeout_ms))

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

    def metrics(self, raw: bool = False) -> Any:
        """Returns the metrics of this consumer under Kafka's names.

        Args:
            raw: False: returns {group: {name: value}}. If a group is about one node, its name ends
                with the node ('consumer-node-metrics.node-1'). True: returns
                {MetricName: KafkaMetric}.

        Returns:
            The metrics. None if metrics_enabled is False.
        """
        found = self._driver.with_metrics(super().metrics())
        return metrics.snapshot(found, self.config, raw)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commits if auto-commit is on, leaves the group, and closes the consumer.

        A static member (group_instance_id) stays in the group until its session times out. A second
        call does nothing.

        Args:
            autocommit: False skips the commit.
            timeout_ms: The limit for the complete call. None: default_api_timeout_ms.

        Raises:
            TypeError: If timeout_ms is not a number.
            ValueError: If it is NaN.
            IllegalStateError: If another thread uses the consumer. Call `wakeup` first, which ends
                the poll of the other thread.
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
            try:
                self._shutdown(max(0, limit - int((time.monotonic() - began) * 1000)))
            finally:
                self._watch.close()
                consuming.close_steps(self.config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an exception, the application may not have processed the last records: do not
        # commit them.
        self.close(autocommit=exc_type is None)

    def __del__(self) -> None:
        # A forked child must not close its parent's consumer.
        if getattr(self, "_pid", None) == os.getpid() and not self.closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return (
            f"<KafkaConsumer client_id={config.get('client_id')} group_id={config.get('group_id')}>"
        )


def _check_listener(listener: Any) -> None:
    if isinstance(listener, type):
        name = listener.__name__
        raise TypeError(f"listener must be an object, not the class {name}: use {name}()")
    if not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError(f"listener must be a ConsumerRebalanceListener, got {shown(listener)}")
    for name in ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"):
        if iscoroutinefunction(getattr(listener, name)):
            raise TypeError(
                f"{name} is a coroutine function: make it a plain method, or use AIOKafkaConsumer"
            )


def _close_at_exit(consumer: Any) -> None:
    # No commit: an exception or Ctrl-C may have ended the program before it processed the last
    # records. A daemon thread may still be in `poll`, and nothing ends that poll. So this does not
    # check for other threads, as `close` does.
    consumer._close(autocommit=False, limit=int(closing.AT_EXIT_SECONDS * 1000))
