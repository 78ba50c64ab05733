"""Converts the arguments of the producers' transaction calls for the native core.

The core does the rest: states, requests and retries. `Transaction` is the `with` block.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from thalweg._client.arguments import offsets_given
from thalweg._client.notes import add_note
from thalweg.errors import AbortableTransactionError, FatalTransactionError, KafkaError
from thalweg.structs import ConsumerGroupMetadata

__all__ = ["Transaction", "abort_failed", "group_fields", "offset_rows"]

Row = tuple[str, int, int, str, int]
Fields = tuple[str, int, str, str | None]


def offset_rows(offsets: Mapping[Any, Any]) -> list[Row]:
    """Converts {TopicPartition: OffsetAndMetadata} to rows for the core.

    Returns:
        [(topic, partition, offset, metadata, leader epoch)].

    Raises:
        TypeError: If a key or value has a wrong type.
        ValueError: If an offset is negative.
    """
    return [
        (*where, at.offset, at.metadata or "", at.leader_epoch)
        for where, at in offsets_given(offsets).items()
    ]


def group_fields(group_metadata: Any, consumer_group_id: str | None) -> Fields:
    """Returns (group ID, generation, member ID, instance ID) of either argument.

    Raises:
        TypeError: If the group is neither a ConsumerGroupMetadata nor a str, or both arguments are
            given, or neither.
        ValueError: If the group has no id, or a generation but no member.
    """
    if (group_metadata is None) == (consumer_group_id is None):
        raise TypeError("give exactly one of group_metadata and consumer_group_id")
    group = consumer_group_id if group_metadata is None else group_metadata
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    if not isinstance(group, ConsumerGroupMetadata):
        raise TypeError(f"group_metadata must be a ConsumerGroupMetadata or a str, not {group!r}")
    if not group.group_id:
        raise ValueError("group_metadata has no group_id: set group_id on the consumer")
    if group.generation_id > 0 and not group.member_id:
        raise ValueError(
            f"group_metadata has generation_id={group.generation_id}, but no member_id. Pass the"
            " result of consumer.group_metadata()"
        )
    return group.group_id, group.generation_id, group.member_id, group.group_instance_id


def abort_failed(failed: KafkaError, error: BaseException) -> FatalTransactionError | None:
    """Adds a note to an error that the abort after it failed too.

    Returns:
        The error of the abort if it is fatal. For example, only the abort may find out that there
        is a newer producer.
    """
    add_note(error, f"abort_transaction() failed as well: {failed}")
    return failed if isinstance(failed, FatalTransactionError) else None


class _Transactional(Protocol):
    def begin_transaction(self) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


class Transaction:
    """`with producer.transaction():` commits at the end, and aborts if the block raises."""

    def __init__(self, producer: _Transactional) -> None:
        self._producer = producer

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self._commit()
        else:
            self._abort_after(exc)

    def _commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except AbortableTransactionError as error:
            fatal = self._abort_after(error)
            if fatal is not None:
                raise fatal from error
            raise

    def _abort_after(self, error: BaseException) -> FatalTransactionError | None:
        """Aborts the transaction. Returns the fatal error if that shows the producer has failed."""
        if isinstance(error, FatalTransactionError):
            return None
        try:
            self._producer.abort_transaction()
        except KafkaError as failed:
            return abort_failed(failed, error)
        return None
