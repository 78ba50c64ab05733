"""The roots of the error classes; what every error has."""

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
    """Root of all errors raised by thalweg; a RuntimeError as in kafka-python 2.x.

    Attributes:
        retriable: Whether the same call may succeed later.
        invalid_metadata: Whether the client's cluster metadata is stale.
        errno: The protocol's error code; None for errors found by the client.
    """

    errno: ClassVar[int | None] = None
    message: ClassVar[str | None] = None
    description: ClassVar[str | None] = None
    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        """`ClassName: what happened`, kafka-python's form."""
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name

    def __eq__(self, other: object) -> bool:
        """Equal class and arguments, as kafka-python compares errors."""
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        """By class only: arguments may be unhashable."""
        return hash(type(self))


class RetriableError(KafkaError):
    """A retry may succeed (`org.apache.kafka.common.errors.RetriableException`)."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """A retry may succeed once the metadata is fresh (`InvalidMetadataException`)."""

    invalid_metadata = True


class AbortableTransactionError(KafkaError):
    """The open transaction can only be aborted: `abort_transaction()`, then begin again (KIP-1050).

    The error of the record or request that failed is its `__cause__`.
    """


class FatalTransactionError(KafkaError):
    """The transactional producer cannot go on: close it. Each later call raises the same error.

    The coordinator's own error, if it said one, is its `__cause__`.
    """


class BrokerResponseError(KafkaError):
    """An error code in a broker's answer.

    Attributes:
        errno: The code.
        message: Kafka's name of it (`UNKNOWN_TOPIC_OR_PARTITION`).
        description: Kafka's sentence about it.
    """

    def __str__(self) -> str:
        """`[Error code] ClassName: what happened`; the table's sentence if nothing was said."""
        text = super().__str__()
        if not self.args and self.description:
            text = f"{text}: {self.description}"
        return f"[Error {self.errno}] {text}"


class AuthorizationError(BrokerResponseError):
    """The principal may not do this (`AuthorizationException`)."""


class NoError(BrokerResponseError):
    """Code 0: never raised, but `for_code(0)` has to give something."""

    errno = 0
    message = "NONE"
    description = "No error--it worked!"


class UnknownError(BrokerResponseError):
    """Code -1, UNKNOWN_SERVER_ERROR, and the base of codes this version does not know."""

    errno = -1
    message = "UNKNOWN_SERVER_ERROR"
    description = "The server experienced an unexpected error when processing the request."
