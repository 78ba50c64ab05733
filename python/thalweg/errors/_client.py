"""Errors found by the client itself, without a code of the protocol."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thalweg.errors._base import (
    AbortableTransactionError,
    InvalidMetadataError,
    KafkaError,
    RetriableError,
)
from thalweg.errors._broker import MessageSizeTooLargeError, UnsupportedVersionError
from thalweg.structs import TopicPartition

__all__ = [
    "BatchSendError",
    "BufferExhaustedError",
    "Cancelled",
    "CommitFailedError",
    "ConsumerStoppedError",
    "CorrelationIdError",
    "DeserializationError",
    "IllegalArgumentError",
    "IllegalStateError",
    "IncompatibleBrokerVersion",
    "InvalidReceiveError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaProtocolError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "MetadataEmptyBrokerList",
    "NoBrokersAvailable",
    "NoOffsetForPartitionError",
    "NodeNotReadyError",
    "QuotaViolationError",
    "RecordTooLargeError",
    "StaleMetadata",
    "TooManyInFlightRequests",
    "TransactionAbortedError",
    "TransactionCommitFailedError",
    "UnknownBrokerIdError",
    "UnrecognizedBrokerVersion",
    "UnsupportedCodecError",
    "UnsupportedOperationError",
    "WakeupError",
]


class Cancelled(RetriableError):
    """The request was given up before an answer came."""


class CommitFailedError(KafkaError):
    """The group has moved on: this commit cannot succeed any more (`CommitFailedException`).

    The message says why and what to do.
    """

    def __init__(self, *args: object) -> None:
        """Without arguments, Kafka's own explanation is used."""
        super().__init__(
            *args
            or (
                "Commit cannot be completed since the group has already rebalanced and assigned"
                " the partitions to another member. The time between two polls was longer than"
                " max_poll_interval_ms, or the session ended: raise max_poll_interval_ms, or"
                " lower max_poll_records, and poll again to rejoin.",
            )
        )


class IllegalArgumentError(KafkaError):
    """An argument makes no sense (Java's IllegalArgumentException)."""


class IllegalStateError(KafkaError):
    """The call makes no sense now: after close, in a forked child, without assignment."""


class ConsumerStoppedError(IllegalStateError):
    """The AIOKafkaConsumer was stopped (aiokafka)."""


class UnsupportedOperationError(KafkaError, NotImplementedError):
    """The call exists in Kafka's API and is not offered by this version of thalweg."""


class KafkaConfigurationError(KafkaError, ValueError):
    """Options that are unknown, malformed or contradictory; all of them in one error.

    Attributes:
        problems: One sentence for each problem, in the order of the table of options.
    """

    def __init__(self, *args: object, problems: Iterable[str] = ()) -> None:
        """Takes the whole message, and the single problems it is made of."""
        super().__init__(*args)
        self.problems = tuple(problems)


class KafkaConnectionError(InvalidMetadataError):
    """A connection could not be made or was lost."""


class KafkaProtocolError(KafkaError):
    """Bytes that are not what Kafka's protocol allows."""


class CorrelationIdError(RetriableError, KafkaProtocolError):
    """An answer to no question of ours; the connection is closed."""


class InvalidReceiveError(KafkaProtocolError):
    """A frame of impossible size; often TLS or HTTP on a plain port."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The time given was over (`org.apache.kafka.common.errors.TimeoutException`).

    Attributes:
        possibly_written: For a record that expired in flight: whether the broker may have
            written it all the same.
    """

    def __init__(self, *args: object, possibly_written: bool = False) -> None:
        """Takes the message; `possibly_written` is set by the producer's expiry."""
        super().__init__(*args)
        self.possibly_written = possibly_written


class BufferExhaustedError(KafkaTimeoutError):
    """No memory of `buffer_memory` came free within `max_block_ms` (`BufferExhaustedException`)."""


class NoBrokersAvailable(KafkaTimeoutError):
    """None of the bootstrap servers answered within `bootstrap_timeout_ms`.

    Attributes:
        addresses: {"host:port": why it failed}.
    """

    def __init__(self, *args: object, addresses: Mapping[str, str] | None = None) -> None:
        """Takes the message, which names each address with its cause, and the mapping."""
        super().__init__(*args)
        self.addresses = dict(addresses or {})


class RecordTooLargeError(MessageSizeTooLargeError):
    """A record above `max_request_size` or `buffer_memory` (`RecordTooLargeException`)."""


class MetadataEmptyBrokerList(RetriableError):
    """A metadata answer without brokers; counts as a failed update."""


class NoOffsetForPartitionError(KafkaError):
    """No committed offset and `auto_offset_reset='none'` (`NoOffsetForPartitionException`).

    Attributes:
        partitions: The TopicPartitions without a position.
    """

    def __init__(self, *args: object, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Takes the message, which names the partitions, and the partitions."""
        super().__init__(*args)
        self.partitions = list(partitions)


class LogTruncationError(KafkaError):
    """The log was truncated below the position by an unclean election (KIP-320).

    Attributes:
        divergent_offsets: {TopicPartition: OffsetAndMetadata to seek to, or None if unknown}.
        offsets: {TopicPartition: the position, which the log does not reach any more}.
    """

    def __init__(
        self,
        divergent_offsets: Mapping[Any, Any],
        *args: object,
        offsets: Mapping[Any, int] | None = None,
    ) -> None:
        """Takes the mapping and, if the default does not do, a message; and the positions."""
        self.divergent_offsets = divergent_offsets
        self.offsets = dict(offsets or {})
        super().__init__(*args or (f"Detected truncated partitions: {divergent_offsets}",))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the mapping as the first argument, where the constructor wants it."""
        return type(self), (self.divergent_offsets, *self.args), self.__dict__


class DeserializationError(KafkaError):
    """A deserializer raised; the position stays at the record (`RecordDeserializationException`).

    `seek` to `offset + 1` to skip it (KIP-334, KIP-1036). The deserializer's own exception is
    the `__cause__`.

    Attributes:
        topic: Where the record is.
        partition: Where the record is.
        offset: Where the record is.
        timestamp: Unix ms.
        key: Raw bytes or None.
        value: Raw bytes or None.
        headers: [(str, bytes or None)].
        part: "key" or "value": which deserializer raised.
        topic_partition: The TopicPartition, for `seek`.
    """

    def __init__(
        self,
        *args: object,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        timestamp: int | None = None,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        part: str | None = None,
    ) -> None:
        """Takes the message and the raw record."""
        super().__init__(*args)
        self.topic, self.partition, self.offset = topic, partition, offset
        self.timestamp, self.key, self.value = timestamp, key, value
        self.headers = list(headers)
        self.part = part
        self.topic_partition = TopicPartition(topic or "", -1 if partition is None else partition)


class BatchSendError(KafkaError):
    """Some rows of a `send_many` or `send_arrow` were not written.

    Attributes:
        errors: [(row, exception)], by row.
        metadata: The BatchMetadata of what was written.
    """

    def __init__(
        self,
        *args: object,
        errors: Sequence[tuple[int, BaseException]] = (),
        metadata: Any = None,
    ) -> None:
        """Takes the message (or makes one), each row's error and what was written."""
        self.errors = list(errors)
        self.metadata = metadata
        if not args and self.errors:
            row, first = self.errors[0]
            args = (f"{len(self.errors)} rows were not written; row {row}: {first}",)
        super().__init__(*args)


class NodeNotReadyError(RetriableError):
    """The node is not connected or has too much in flight."""


class UnknownBrokerIdError(KafkaError):
    """No broker of this id in the metadata."""


class QuotaViolationError(KafkaError):
    """A metric's quota was exceeded."""


class StaleMetadata(InvalidMetadataError):
    """The metadata is older than what it was needed for."""


class TooManyInFlightRequests(RetriableError):
    """`max_in_flight_requests_per_connection` requests wait for their answers."""


class UnrecognizedBrokerVersion(KafkaError):
    """The broker's version cannot be told from its API versions."""


class UnsupportedCodecError(KafkaError):
    """No such compression type."""


class IncompatibleBrokerVersion(UnsupportedVersionError):
    """The brokers are too old for this call; the message names the API and the versions."""


class TransactionAbortedError(KafkaError):
    """The record was not sent as its transaction was aborted by the application (KIP-654)."""

    message = "Failing batch since transaction was aborted"


class TransactionCommitFailedError(CommitFailedError, AbortableTransactionError):
    """The group has moved on, so the offsets of the transaction cannot be committed (KIP-447).

    Abort the transaction; the group's new owner of the partitions reads their records again.
    """


class WakeupError(KafkaError):
    """`wakeup()` ended the waiting call (`org.apache.kafka.common.errors.WakeupException`)."""
