"""KafkaConsumer: reads records; kafka-python's class on the native core.

    poll(), poll_arrow(), for record in consumer ──> fetch buffer <── brokers            (Rust)
      └─ before each: Driver.before_poll: topics' partitions, the group's membership,
         committed offsets, auto-commit                                                  (Python)

Reading is the native core's own. This module turns kafka-python's calls into the core's, and
keeps what a group needs: `coordinator/driver.py`.

One thread at a time may use a consumer: who polls, subscribes or commits meanwhile from another
gets an IllegalStateError. `wakeup` and `mark` may be called from any.

`subscribe` with a group_id joins the group, within `poll`; heartbeats go on in Rust. `assign` with
a group_id commits and finds committed offsets; topics without a group_id are read whole by this
consumer, as in kafka-python.
"""

import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    overload,
)

from thalweg import _closing, _consuming, _core, _logging, metrics
from thalweg._core import ConsumerRecord
from thalweg.config import Config, configured, options_of
from thalweg.coordinator.driver import Driver, run
from thalweg.coordinator.listener import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from thalweg.serializer import Deserializer
from thalweg.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from thalweg.tables import RecordTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from thalweg._config_types import ConsumerConfig

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaConsumer",
    "RecordTable",
]

_EARLIEST, _LATEST = -2, -1


def _alone(
    call: "Callable[Concatenate[KafkaConsumer[Any, Any], P], T]",
) -> "Callable[Concatenate[KafkaConsumer[Any, Any], P], T]":
    """The call, for one thread at a time: the driver's state has no lock."""

    @functools.wraps(call)
    def guarded(self: "KafkaConsumer[Any, Any]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._begin_use()
        try:
            return call(self, *args, **kwargs)
        finally:
            self._end_use()

    return guarded


class KafkaConsumer(_core.Consumer[K, V], Generic[K, V]):
    """Reads records of topics or partitions (`consumer.KafkaConsumer`).

        with KafkaConsumer(bootstrap_servers="localhost:9092") as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            for record in consumer:
                print(record.offset, record.value)

    Options are in docs/configuration.md; `K` and `V` are what the deserializers give, bytes or
    None without them.

    Args:
        *topics: Topics to subscribe to.
        **configs: Options.

    Raises:
        KafkaConfigurationError: If options are unknown, bad or contradictory, with all of them.
        NoBrokersAvailable: If no bootstrap server answers within `bootstrap_timeout_ms`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        name: row.default for name, row in options_of("c").items()
    }

    config: Config
    _driver: Driver

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
        self.config = config = configured("c", "KafkaConsumer", given)
        _logging.refresh()
        self._driver = Driver(self, config)
        self._open(config.core(), _consuming.Hooks(config, self._driver.before_poll))
        self._watch = _consuming.watched(self, self.client, config)
        _closing.watch(self, _close_at_exit)
        if topics:
            self.subscribe(topics)

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

    @_alone
    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Reads these partitions from now on, and no others.

        Partitions that stay keep their position and what is buffered.

        Args:
            partitions: TopicPartitions; none at all is `unsubscribe`.

        Raises:
            IllegalStateError: If topics are subscribed to.
        """
        self._driver.assign(_consuming.checked(partitions))

    @_alone
    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
    ) -> None:
        """Reads topics by name or pattern, in place of those subscribed to before.

        With a group_id it joins the group with the next poll, and reads the partitions that the
        group gives it. Without one it reads all partitions, and new ones once it hears of them.

        Args:
            topics: Names.
            pattern: A regular expression that topics' names are matched with at their start.
            listener: A ConsumerRebalanceListener; told of changes from within `poll`.

        Raises:
            IllegalStateError: If partitions are assigned, or both kinds are given.
            ValueError: If neither is given.
            TypeError: If topics is a str, or the listener is none.
        """
        names = _consuming.names_given(topics)
        if listener is not None:
            _check_listener(listener)
        self._driver.subscribe(names, pattern, listener)

    def subscription(self) -> set[str] | None:
        """The topics subscribed to; None without subscription."""
        return self._driver.subscription()

    @_alone
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
            NoOffsetForPartitionError: Without committed offset and with auto_offset_reset none.
            OffsetOutOfRangeError: If the position is gone and auto_offset_reset is none.
            CorruptRecordError: If a batch's checksum is wrong; the position stays.
            DeserializationError: If a deserializer raised; the position stays (KIP-334).
            WakeupError: If `wakeup` was called.
            ValueError: If an argument is out of range.
        """
        if timeout_ms is not None and timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        if max_records is not None:
            if not isinstance(max_records, int):
                raise TypeError("max_records must be an integer")
            if max_records <= 0:
                raise ValueError("max_records must be positive")
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
        """
        _consuming.check_bytes(self.config)
        limit = _consuming.whole_ms(timeout_ms)
        return RecordTable(super().poll_arrow(limit, max_records, max_bytes))

    # ------------------------------------------------------------------ positions

    def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """Offset of the next record to be handed out.

        Args:
            partition: An assigned TopicPartition.
            timeout_ms: How long to wait until it is known; None: default_api_timeout_ms.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
            KafkaTimeoutError: When the time is over.
        """
        _consuming.check_assigned(self, partition)
        return super().position(partition, self._limit(timeout_ms))

    def seek(
        self,
        partition: tuple[str, int],
        offset: "int | OffsetAndMetadata",
        leader_epoch: int = -1,
    ) -> None:
        """Reads on from an offset.

        Args:
            partition: An assigned TopicPartition.
            offset: The next offset to read, or an OffsetAndMetadata with its leader epoch.
            leader_epoch: Of the record before, for truncation detection (KIP-320).

        Raises:
            TypeError: If it is no TopicPartition.
            ValueError: If the offset is negative, or the partition is not assigned.
        """
        at, epoch = _consuming.offset_given(self, partition, offset, leader_epoch)
        super().seek(partition, at, epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Reads on from the first offset there is; looked up when it is needed.

        Args:
            *partitions: Assigned ones; none: all.

        Raises:
            TypeError: If one is no TopicPartition.
            ValueError: If one is not assigned, or nothing is.
        """
        self.seek_to(_consuming.chosen(self, partitions), "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Reads on from the end; see `seek_to_beginning`."""
        self.seek_to(_consuming.chosen(self, partitions), "latest")

    @_alone
    def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> None:
        """Reads on from the committed offsets (aiokafka); where there is none, by reset policy.

        Raises:
            IllegalStateError: Without group_id.
            KafkaTimeoutError: When the time is over.
            NoOffsetForPartitionError: If nothing is committed and `auto_offset_reset` is 'none';
                no position has moved then.
        """
        chosen = _consuming.chosen(self, partitions)
        found = run(self._driver.fetch(chosen, self._limit(timeout_ms)))
        missing = [where for where, at in found.items() if at is None]
        if missing:
            self._seek_by_policy(missing)
        for where, at in found.items():
            if at is not None:
                self.seek(where, at)

    def _seek_by_policy(self, partitions: list[TopicPartition]) -> None:
        kind = _consuming.reset_kind(self.config, partitions)
        if kind != "by_duration":
            self.seek_to(partitions, kind)
            return
        since_ms = _consuming.reset_since_ms(self.config)
        at_time = self.offsets_for_times(dict.fromkeys(partitions, since_ms))
        for where, at in at_time.items():
            if at is None:
                self.seek_to([where], "latest")
            else:
                self.seek(where, at.offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hands out nothing of these partitions until `resume`; what is buffered stays.

        Raises:
            TypeError: If one is no TopicPartition.
            IllegalStateError: If one is not assigned.
        """
        self.pause_partitions(_consuming.checked(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Undoes `pause`."""
        self.resume_partitions(_consuming.checked(partitions))

    def highwater(self, partition: tuple[str, int]) -> int | None:
        """Offset after the partition's last record, as of the last fetch; None before one.

        Raises:
            TypeError: If it is no TopicPartition.
            IllegalStateError: If it is not assigned.
        """
        _consuming.check_assigned(self, partition)
        return super().highwater(partition)

    # ------------------------------------------------------------------ lookups

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition; they need not be assigned.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Offset after each partition's last record; the last stable one under read_committed.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        return self._ends(partitions, _LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a timestamp (KIP-79).

        Args:
            timestamps: {TopicPartition: Unix ms}.
            timeout_ms: None: default_api_timeout_ms.

        Returns:
            {TopicPartition: OffsetAndTimestamp, or None if there is no such record}.

        Raises:
            ValueError: If a timestamp is negative.
            KafkaTimeoutError: When the time is over.
        """
        targets = _consuming.time_targets(timestamps)
        return _consuming.times_of(self.list_offsets(targets, self._limit(timeout_ms)))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Names of all topics that this client may see; asks the cluster.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        answer = self.client.metadata(None, self._limit(timeout_ms))
        return _consuming.visible_topics(answer, self.config)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Partition ids of a topic; asks the cluster if it is not known yet.

        Returns:
            The ids; none if there is no such topic.

        Raises:
            KafkaTimeoutError: When the time is over (None: default_api_timeout_ms).
        """
        known = self.client.cluster().partitions_for_topic(topic)
        if known:
            return known
        answer = self.client.metadata([topic], self._limit(timeout_ms))
        return {row["PartitionIndex"] for found in answer["Topics"] for row in found["Partitions"]}

    # ------------------------------------------------------------------ committed offsets

    @_alone
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits offsets for the group, and waits until it is done.

        Args:
            offsets: {TopicPartition: OffsetAndMetadata(next offset to read)}; None: the positions.
            timeout_ms: How long to retry; None: default_api_timeout_ms.

        Raises:
            IllegalStateError: Without group_id.
            CommitFailedError: If the group has moved on.
            RebalanceInProgressError: While the group rebalances: poll, then commit again.
            KafkaTimeoutError: When the time is over.
        """
        run(self._driver.commit(offsets, self._limit(timeout_ms)))

    @_alone
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Any], object] | None = None,
    ) -> Any:
        """Commits offsets without waiting and without retries.

        Args:
            offsets: As for `commit`.
            callback: Called as f(offsets, answer or exception) from a later `poll`, `commit` or
                `close`, in the order of the calls; default_offset_commit_callback if None.

        Returns:
            A future with is_done, value, exception, succeeded() and failed().

        Raises:
            IllegalStateError: Without group_id.
        """
        return self._driver.commit_async(offsets, callback)

    def mark(self, records: Any) -> None:
        """Marks records as done, for `commit_marked` and, with auto_commit_marks, auto-commit.

        A mark moves a partition's offset forward only; marks of partitions that go are forgotten.
        From any thread.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else.
        """
        self._driver.mark(records)

    @_alone
    def commit_marked(self, timeout_ms: float | None = None) -> None:
        """Commits the offsets after the marked records, and waits until it is done.

        Raises:
            KafkaError: As `commit`.
        """
        run(self._driver.commit_marked(self._limit(timeout_ms)))

    @_alone
    def allow_rebalance(self) -> None:
        """With block_rebalance_on_poll: what was polled before is done.

        Its partitions may go, with the next poll. Without that option they always may.
        """
        self._driver.allow_rebalance()

    @_alone
    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """The group's committed offset of a partition; asks the coordinator.

        Args:
            partition: Any TopicPartition.
            metadata: Whether to return the whole OffsetAndMetadata.
            timeout_ms: None: default_api_timeout_ms.

        Returns:
            The offset; None if nothing is committed.

        Raises:
            IllegalStateError: Without group_id.
            TypeError: If it is no TopicPartition.
            KafkaTimeoutError: When the time is over.
        """
        if not isinstance(partition, TopicPartition):
            raise TypeError("partition must be a TopicPartition namedtuple")
        found = run(self._driver.fetch([partition], self._limit(timeout_ms)))[partition]
        return found if found is None or metadata else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """A snapshot of the membership, for transactions (KIP-447)."""
        return self._driver.group_metadata()

    # ------------------------------------------------------------------ the client itself

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """kafka-python 3's: the constructor has bootstrapped; `refresh` asks for metadata again.

        Raises:
            KafkaTimeoutError: When the time is over.
        """
        if refresh:
            self.client.metadata([], self._limit(timeout_ms))

    def metrics(self, raw: bool = False) -> Any:
        """Figures of this consumer under Kafka's names (monitoring page of Kafka's docs).

        Args:
            raw: False: {group: {name: value}}, where groups of one node end in its name
                ('consumer-node-metrics.node-1'); True: {MetricName: KafkaMetric}.

        Returns:
            The figures; None with metrics_enabled=False.
        """
        found = self._driver.with_figures(super().metrics())
        return metrics.figures(found, self.config, raw)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Gives everything up: commits, if auto-commit is on, and leaves the group.

        A static member (group_instance_id) stays in the group until its session ends. A second
        call does nothing.

        Args:
            autocommit: False leaves the commit out.
            timeout_ms: Limit of it all; None: default_api_timeout_ms.
        """
        if self.closed:
            return
        limit = self._limit(timeout_ms)
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

    def __repr__(self) -> str:
        config = getattr(self, "config", {})
        return (
            f"<KafkaConsumer client_id={config.get('client_id')} group_id={config.get('group_id')}>"
        )

    # ------------------------------------------------------------------ helpers

    def _limit(self, timeout_ms: float | None) -> int:
        found = self.config["default_api_timeout_ms"] if timeout_ms is None else timeout_ms
        return max(0, int(found))

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        targets = _consuming.targets_of(partitions, timestamp)
        return _consuming.offsets_of(self.list_offsets(targets, self._limit(timeout_ms)))


def _check_listener(listener: Any) -> None:
    if not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError("listener must be a ConsumerRebalanceListener")
    for name in ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"):
        if iscoroutinefunction(getattr(listener, name)):
            raise TypeError(f"{name} is a coroutine: that takes an AIOKafkaConsumer")


def _close_at_exit(consumer: Any) -> None:
    consumer.close(timeout_ms=_closing.AT_EXIT_SECONDS * 1000)
