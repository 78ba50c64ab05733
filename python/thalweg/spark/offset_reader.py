"""Looks up partitions and their offsets for the driver.

It runs only on the driver, in the worker process that plans a batch or serves a stream. It holds
one consumer, which is opened at first use and never pickled. After a retriable error it waits
``fetchOffset.retryIntervalMs`` and asks again, at most ``fetchOffset.numRetries`` times in total.
Any other error is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from thalweg.errors import (
    AuthorizationError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NoError,
    RetriableError,
    UnknownTopicOrPartitionError,
    for_code,
)
from thalweg.spark.client_config import ClientConfig
from thalweg.spark.group_offsets import GroupOffsets
from thalweg.spark.offset_specs import EARLIEST, LATEST, OffsetSpec, flat, mismatch
from thalweg.spark.offsets import Offsets, Partition
from thalweg.spark.options import SourceOptions
from thalweg.spark.workers.files import with_local_files
from thalweg.structs import TopicPartition

T = TypeVar("T")

# How long to wait for offsets before checking whether the topics still exist.
_PATIENCE_MS = 5_000


class OffsetReader:
    """Looks up the partitions and offsets of the topics that the options name."""

    def __init__(self, options: SourceOptions) -> None:
        """Opens no connection yet.

        Args:
            options: The checked options of the read.
        """
        self._options = options
        self._consumer: Any = None
        self._group: GroupOffsets | None = None

    def __getstate__(self) -> SourceOptions:
        """Pickles only the options. A copy opens its own consumer."""
        return self._options

    def __setstate__(self, options: SourceOptions) -> None:
        """Restores a copy without a connection."""
        self.__init__(options)  # type: ignore[misc]

    def close(self) -> None:
        """Closes the connections that are open. The next request opens new ones."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        if self._group is not None:
            self._group.close()

    def partitions(self, *, lenient: bool = False) -> set[Partition]:
        """Returns the partitions to read now.

        Args:
            lenient: Whether topics of the option ``subscribe`` may be missing. They have no
                partitions.

        Raises:
            UnknownTopicOrPartitionError: If a topic of the option ``subscribe`` does not exist.
        """
        strategy = self._options.strategy
        if strategy.kind == "assign":
            return set(strategy.assigned)
        return self._retried(lambda: self._subscribed(lenient))

    def existing(self, wanted: Iterable[Partition]) -> set[Partition]:
        """Returns those of the partitions that exist now."""
        asked = set(wanted)
        topics = sorted({topic for topic, _ in asked})
        if not topics:
            return set()
        return asked & self._retried(
            lambda: _partitions_of(self._open()._core_client.metadata(topics))
        )

    def earliest(self, partitions: Iterable[Partition]) -> Offsets:
        """Returns the first available offset of each partition that exists.

        Raises:
            UnknownTopicOrPartitionError: If a partition of the option ``assign`` does not exist.
        """
        return self._ask("beginning_offsets", partitions)

    def latest(self, partitions: Iterable[Partition]) -> Offsets:
        """Returns the end offset of each partition that exists.

        With ``read_committed``, it is the last stable offset.

        Raises:
            UnknownTopicOrPartitionError: If a partition of the option ``assign`` does not exist.
        """
        return self._ask("end_offsets", partitions)

    def resolve(self, spec: OffsetSpec, partitions: set[Partition], option: str) -> Offsets:
        """Returns the offsets that a starting or ending option means now.

        Args:
            spec: The parsed option.
            partitions: The partitions to read.
            option: The name of the option without its suffix: ``"starting"`` or ``"ending"``.

        Returns:
            An offset for each of ``partitions`` that still exists.

        Raises:
            ValueError: If offsets by partition do not cover the partitions. Or if a starting
                timestamp has no record at or after it, and the strategy is ``error``.
        """
        if spec.of_group:
            committed = self._committed(partitions)
            rest = self.resolve(replace(spec, of_group=False), partitions - set(committed), option)
            return {**committed, **rest}
        if spec.everywhere == EARLIEST:
            return self.earliest(partitions)
        if spec.everywhere == LATEST:
            return self.latest(partitions)
        if spec.timestamp_ms is not None:
            return self._by_time(dict.fromkeys(partitions, spec.timestamp_ms), option)
        if spec.timestamps is not None:
            times = flat(spec.timestamps)
            _check_cover(times, partitions, f"{option}OffsetsByTimestamp")
            return self._by_time(times, option)
        offsets = flat(spec.offsets or {})
        offsets |= {tp: spec.topics[tp[0]] for tp in partitions if tp[0] in spec.topics}
        _check_topics(spec.topics, partitions, f"{option}Offsets")
        _check_cover(offsets, partitions, f"{option}Offsets")
        earliest = self.earliest(tp for tp, at in offsets.items() if at == EARLIEST)
        latest = self.latest(tp for tp, at in offsets.items() if at == LATEST)
        # The words of partitions that were deleted since are not offsets.
        known = {tp: at for tp, at in offsets.items() if at >= 0}
        return {**known, **earliest, **latest}

    def at_time(self, partitions: Iterable[Partition], timestamp_ms: int) -> Offsets:
        """Returns the offset of the first record that is not older than a time.

        Args:
            partitions: The partitions to ask for.
            timestamp_ms: The Unix time in ms.

        Returns:
            An offset for each partition: the end offset if all its records are older.
        """
        return self._by_time(dict.fromkeys(partitions, timestamp_ms), "ending")

    def commit(self, offsets: Offsets) -> None:
        """Commits offsets to the group of ``commitGroupId``, if the option is set."""
        group = self._open_group()
        if group is not None:
            group.commit(offsets)

    def _committed(self, partitions: set[Partition]) -> Offsets:
        group = self._open_group()
        assert group is not None, "the options have been checked"
        return self._retried(lambda: group.committed(partitions))

    def _open_group(self) -> GroupOffsets | None:
        group = self._options.commit_group_id
        if self._group is None and group is not None:
            self._group = GroupOffsets(consumer_config(self._options), group)
        return self._group

    def _subscribed(self, lenient: bool) -> set[Partition]:
        strategy = self._options.strategy
        consumer = self._open()
        if strategy.kind == "subscribepattern":
            topics = sorted(topic for topic in consumer.topics() if strategy.matches(topic))
        else:
            topics = sorted(set(strategy.topics))
        # Request fresh metadata: the next batch of a long stream must include new partitions.
        found = _partitions_of(consumer._core_client.metadata(topics)) if topics else set()
        missing = strategy.missing(found)
        if missing and not lenient:
            raise unknown_topic(min(missing))
        return found

    def _ask(self, method: str, partitions: Iterable[Partition]) -> Offsets:
        asked = set(partitions)
        return self._retried(lambda: self._offsets_of(method, asked))

    def _offsets_of(self, method: str, wanted: set[Partition]) -> Offsets:
        """Returns the offsets of those partitions that exist until they are known.

        No broker responds for a topic that was deleted since its partitions were looked up. Without
        a second look, the query would wait for it until its timeout, and then fail.
        """
        begun = time.monotonic()
        while wanted:
            places = [TopicPartition(*tp) for tp in sorted(wanted)]
            consumer = self._open()
            limit_ms = consumer.config["default_api_timeout_ms"]
            left_ms = limit_ms - (time.monotonic() - begun) * 1_000
            try:
                result = getattr(consumer, method)(places, timeout_ms=min(left_ms, _PATIENCE_MS))
            except KafkaTimeoutError:
                if left_ms <= _PATIENCE_MS:
                    raise
                found = self.existing(wanted)
                gone = wanted - found
                if gone and self._options.strategy.kind == "assign":
                    # The user named it, so an empty result would hide a mistake.
                    topic, partition = min(gone)
                    raise UnknownTopicOrPartitionError(
                        f"Partition {topic}-{partition} does not exist. Check the option 'assign'."
                    ) from None
                wanted = found
            else:
                return {(tp.topic, tp.partition): offset for tp, offset in result.items()}
        return {}

    def _by_time(self, times: Mapping[Partition, int], option: str) -> Offsets:
        wanted = {TopicPartition(*tp): at for tp, at in sorted(times.items())}
        result = self._retried(lambda: self._open().offsets_for_times(wanted)) if wanted else {}
        found = {(tp.topic, tp.partition): at.offset for tp, at in result.items() if at is not None}
        missing = [tp for tp in times if tp not in found]
        if missing and option == "starting" and self._options.timestamp_strategy == "error":
            topic, partition = missing[0]
            raise ValueError(
                f"No offset matched from request of topic-partition {topic}-{partition} and "
                f"timestamp {times[missing[0]]}. Choose an earlier time, or set "
                "'startingOffsetsByTimestampStrategy' to 'latest'."
            )
        return {**found, **self.latest(missing)}

    def _retried(self, question: Callable[[], T]) -> T:
        for attempt in range(1, self._options.fetch_retries + 1):
            try:
                return question()
            except RetriableError as error:
                # Retry with a new consumer: the cause may be its connection or its metadata. If no
                # broker was available, the consumer has retried for bootstrap_timeout_ms already.
                self.close()
                if attempt == self._options.fetch_retries or isinstance(error, NoBrokersAvailable):
                    raise
                time.sleep(self._options.retry_interval_ms / 1_000)
        raise AssertionError("fetch_retries is at least 1")

    def _open(self) -> Any:
        if self._consumer is None:
            from thalweg.consumer import KafkaConsumer

            self._consumer = KafkaConsumer.from_config(consumer_config(self._options))
        return self._consumer


def unknown_topic(topic: str) -> UnknownTopicOrPartitionError:
    """Returns the error about a topic of the option ``subscribe`` that does not exist."""
    return UnknownTopicOrPartitionError(
        f"Topic '{topic}' does not exist. Create it, or correct the option 'subscribe'."
    )


def consumer_config(options: SourceOptions) -> ClientConfig:
    """Returns the consumer's options: the user's ``kafka.*`` options and those of the source."""
    fixed = {
        "enable.auto.commit": False,
        "auto.offset.reset": "none",
        "allow.auto.create.topics": False,
    }
    given = options.client_config.without("c", fixed)
    return with_local_files({**given, **fixed}, options.driver_files)


def _partitions_of(metadata: Mapping[str, Any]) -> set[Partition]:
    """Returns the partitions in a Metadata response. A topic that does not exist has none.

    Raises:
        KafkaError: If the brokers refuse to describe a topic.
    """
    found: set[Partition] = set()
    for topic in metadata["Topics"]:
        error = for_code(topic["ErrorCode"])
        if error is not NoError and error is not UnknownTopicOrPartitionError:
            advice = (
                " Grant the permission DESCRIBE" if issubclass(error, AuthorizationError) else ""
            )
            raise error(
                f"The brokers refuse to describe topic '{topic['Name']}':"
                f" {error.description or error.__name__}{advice}"
            )
        found.update((topic["Name"], each["PartitionIndex"]) for each in topic["Partitions"])
    return found


def _check_topics(words: Mapping[str, int], partitions: set[Partition], option: str) -> None:
    unknown = sorted(set(words).difference(topic for topic, _ in partitions))
    if unknown:
        raise ValueError(
            f"{option} names the topic '{unknown[0]}', which the query does not read. "
            "Remove it, or add the topic to the query."
        )


def _check_cover(given: Offsets, partitions: set[Partition], option: str) -> None:
    if set(given) != partitions:
        raise mismatch(option, partitions, set(given))
