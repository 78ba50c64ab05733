"""The base classes of all errors."""

from typing import ClassVar

__all__ = [
    "AbortableTransactionError",
    "AuthorizationError",
    "BrokerResponseError",
    "FatalTransactionError",
    "InvalidMetadataError",
    "KafkaError",
    "NoError",
    "RetriableError",
    "UnknownError",
]


class KafkaError(RuntimeError):
    """Base class of all errors that thalweg raises. A RuntimeError, as in kafka-python 2.

    Attributes:
        possibly_written: For the error of a record: whether the broker may have written the record
            without acknowledging it. If False, you can send the record again without a duplicate.
        retriable: Whether the same call may succeed later.
        invalid_metadata: Whether the client's cluster metadata is stale.
        errno: The protocol's error code. None if the client itself found the error.
    """

    errno: ClassVar[int | None] = None
    message: ClassVar[str | None] = None
    description: ClassVar[str | None] = None
    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False
    possibly_written: bool = False

    def __str__(self) -> str:
        """Returns `ClassName: message`, as kafka-python does."""
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name

    def __eq__(self, other: object) -> bool:
        """Compares class and arguments, as kafka-python does."""
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        """Hashes the class only, because arguments may be unhashable."""
        return hash(type(self))


class RetriableError(KafkaError):
    """A retry may succeed (`org.apache.kafka.common.errors.RetriableException`)."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """A retry may succeed after a metadata refresh (`InvalidMetadataException`)."""

    invalid_metadata = True


class AbortableTransactionError(KafkaError):
    """The transaction has failed: call `abort_transaction()` and begin again (KIP-1050).

    The `__cause__` is the error of the record or request that failed.
    """


class FatalTransactionError(KafkaError):
    """The transactional producer has failed: close it. Every later call raises the same error.

    The `__cause__` is the coordinator's error, if there is one.
    """


class BrokerResponseError(KafkaError):
    """A broker responded with an error code.

    Attributes:
        errno: The code.
        message: Kafka's name for it (`UNKNOWN_TOPIC_OR_PARTITION`).
        description: Kafka's explanation.
    """

    def __str__(self) -> str:
        """Returns `[Error code] ClassName: message`, or Kafka's explanation without a message."""
        text = super().__str__()
        if not self.args and self.description:
            text = f"{text}: {self.description}"
        return f"[Error {self.errno}] {text}"


class AuthorizationError(BrokerResponseError):
    """The principal has no permission to do this (`AuthorizationException`)."""


class NoError(BrokerResponseError):
    """Code 0: no error. Never raised, but `for_code(0)` returns it."""

    errno = 0
    message = "NONE"
    description = "No error--it worked!"


class UnknownError(BrokerResponseError):
    """Code -1, UNKNOWN_SERVER_ERROR. Also the base class of codes that thalweg does not know."""

    errno = -1
    message = "UNKNOWN_SERVER_ERROR"
    description = "The server experienced an unexpected error when processing the request."
