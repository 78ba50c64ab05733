"""Errors that the client itself finds. They have no error code of the protocol."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thalweg.errors._base import (
    AbortableTransactionError,
    InvalidMetadataError,
    KafkaError,
    RetriableError,
)
from thalweg.errors._broker import (
    MessageSizeTooLargeError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
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
    "NoCredentialsError",
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
    """A name of kafka-python. thalweg does not raise this error."""


class CommitFailedError(KafkaError):
    """The group has rebalanced without this member, so the commit fails (`CommitFailedException`).

    The message says why, and what to do.
    """

    def __init__(self, *args: object) -> None:
        """Uses Kafka's own explanation if there are no arguments."""
        super().__init__(
            *args
            or (
                "Commit cannot be completed since the group has already rebalanced and assigned"
                " the partitions to another member. The time between two polls was longer than"
                " max_poll_interval_ms, or the session ended: raise max_poll_interval_ms, or"
                " lower max_poll_records, and poll again to rejoin.",
            )
        )


class IllegalArgumentError(KafkaError, ValueError):
    """An argument is wrong, or does not fit into a request (Java's IllegalArgumentException)."""


class IllegalStateError(KafkaError):
    """The call is not possible now, for example after `close()` or in a forked child."""


class ConsumerStoppedError(IllegalStateError):
    """The AIOKafkaConsumer was stopped (aiokafka)."""


class UnsupportedOperationError(KafkaError, NotImplementedError):
    """The call needs other options, such as group_protocol='consumer' for a SubscriptionPattern."""


class KafkaConfigurationError(KafkaError, ValueError):
    """Some options are unknown, malformed or contradictory. One error names all of them.

    Attributes:
        problems: One sentence for each problem, in the order of the options' documentation.
    """

    def __init__(self, *args: object, problems: Iterable[str] = ()) -> None:
        """Takes the message and the problems that it names."""
        super().__init__(*args)
        self.problems = tuple(problems)


class KafkaConnectionError(InvalidMetadataError):
    """The client could not connect to a broker, or lost the connection."""


class KafkaProtocolError(KafkaError):
    """A broker sent bytes that Kafka's protocol does not allow."""


class CorrelationIdError(RetriableError, KafkaProtocolError):
    """A response does not belong to any request of the client. The client closes the connection."""


class InvalidReceiveError(KafkaProtocolError):
    """A name of kafka-python. thalweg raises KafkaProtocolError instead."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """A timeout was reached (`org.apache.kafka.common.errors.TimeoutException`)."""

    def __init__(self, *args: object, possibly_written: bool = False) -> None:
        """Takes the message, and whether the record may be written."""
        super().__init__(*args)
        self.possibly_written = possibly_written


class BufferExhaustedError(KafkaTimeoutError):
    """`buffer_memory` stayed full for `max_block_ms` (`BufferExhaustedException`)."""


class NoBrokersAvailable(KafkaTimeoutError):
    """None of the bootstrap servers responded within `bootstrap_timeout_ms`.

    Attributes:
        addresses: {"host:port": why it failed}.
    """

    def __init__(self, *args: object, addresses: Mapping[str, str] | None = None) -> None:
        """Takes the message, and the cause for each address."""
        super().__init__(*args)
        self.addresses = dict(addresses or {})


class NoCredentialsError(RetriableError, SaslAuthenticationFailedError):
    """The client has nothing to log in with: no token, no password, or no Kerberos ticket.

    A token provider or password function raised, did not return, or returned a wrong value. Then
    the `__cause__` is what it raised. Or the Kerberos library got no ticket. The client tries again
    when it next authenticates, so a later call can succeed.
    """

    def __init__(self, *args: object, by_client: bool = True) -> None:
        """Takes the message. The client itself finds this error."""
        super().__init__(*args, by_client=by_client)


class RecordTooLargeError(MessageSizeTooLargeError):
    """The record exceeds `max_request_size` or `buffer_memory` (`RecordTooLargeException`)."""


class MetadataEmptyBrokerList(RetriableError):
    """A name of kafka-python. thalweg does not raise this error."""


class NoOffsetForPartitionError(KafkaError):
    """There is no committed offset, and `auto_offset_reset` is 'none'.

    Attributes:
        partitions: The TopicPartitions without a position.
    """

    def __init__(self, *args: object, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Takes the message and the partitions."""
        super().__init__(*args)
        self.partitions = list(partitions)


class LogTruncationError(KafkaError):
    """An unclean election removed records before the consumer's position (KIP-320).

    The topic may also have been deleted and created again.

    Attributes:
        divergent_offsets: {TopicPartition: OffsetAndMetadata to seek to, or None if unknown}.
        offsets: {TopicPartition: the consumer's position, which is past the end of the log}.
    """

    def __init__(
        self,
        divergent_offsets: Mapping[Any, Any],
        *args: object,
        offsets: Mapping[Any, int] | None = None,
    ) -> None:
        """Takes the offsets to seek to, an optional message, and the positions."""
        self.divergent_offsets = divergent_offsets
        self.offsets = dict(offsets or {})
        super().__init__(*args or (f"Detected truncated partitions: {divergent_offsets}",))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the mapping as the constructor's first argument."""
        return type(self), (self.divergent_offsets, *self.args), self.__dict__


class DeserializationError(KafkaError):
    """A deserializer raised. The position stays at the record (`RecordDeserializationException`).

    To skip the record, call `seek(error.topic_partition, error.offset + 1)` (KIP-334, KIP-1036).
    The deserializer's exception is the `__cause__`.

    Attributes:
        topic: The record's topic.
        partition: The record's partition.
        offset: The record's offset.
        timestamp: Unix ms.
        key: The key's bytes, or None.
        value: The value's bytes, or None.
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
        """Takes the message and the record."""
        super().__init__(*args)
        self.topic, self.partition, self.offset = topic, partition, offset
        self.timestamp, self.key, self.value = timestamp, key, value
        self.headers = list(headers)
        self.part = part
        self.topic_partition = TopicPartition(topic or "", -1 if partition is None else partition)


class BatchSendError(KafkaError):
    """Some rows of a `send_many` or `send_arrow` were not written.

    Attributes:
        errors: [(row, exception)], in the order of the rows.
        metadata: BatchMetadata of all rows. Rows that were not written have the offset -1.
        possibly_written: Whether the broker may have written one of the rows that failed.
    """

    def __init__(
        self,
        *args: object,
        errors: Sequence[tuple[int, BaseException]] = (),
        metadata: Any = None,
    ) -> None:
        """Takes an optional message, the errors, and the metadata."""
        self.errors = list(errors)
        self.metadata = metadata
        self.possibly_written = any(
            getattr(each, "possibly_written", False) for _, each in self.errors
        )
        if not args and self.errors:
            row, first = self.errors[0]
            args = (f"{len(self.errors)} rows were not written, the first is row {row}: {first}",)
        super().__init__(*args)


class NodeNotReadyError(RetriableError):
    """The client is not connected to the node, or has too many requests in flight to it."""


class UnknownBrokerIdError(KafkaError):
    """The metadata has no broker with this ID."""


class QuotaViolationError(KafkaError):
    """A name of kafka-python. thalweg does not raise this error."""


class StaleMetadata(InvalidMetadataError):
    """A name of kafka-python. thalweg does not raise this error."""


class TooManyInFlightRequests(RetriableError):
    """A name of kafka-python. thalweg does not raise this error."""


class UnrecognizedBrokerVersion(KafkaError):
    """A name of kafka-python. thalweg does not raise this error."""


class UnsupportedCodecError(KafkaError):
    """A name of kafka-python. thalweg does not raise this error."""


class IncompatibleBrokerVersion(UnsupportedVersionError):
    """The brokers do not support this call. The message names the API and the versions."""


class TransactionAbortedError(KafkaError):
    """The record was not sent, because the application aborted its transaction (KIP-654)."""

    message = "Failing batch since transaction was aborted"


class TransactionCommitFailedError(CommitFailedError, AbortableTransactionError):
    """The group has rebalanced, so the transaction cannot commit its offsets (KIP-447).

    Abort the transaction. The new owner of the partitions reads the records again.
    """


class WakeupError(KafkaError):
    """`wakeup()` ended the call (`org.apache.kafka.common.errors.WakeupException`)."""
