"""The calls on transactions of `AIOKafkaProducer`, and the block `async with`."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self

from thalweg import _core
from thalweg._client import transactions
from thalweg._client.transactions import abort_failed
from thalweg.errors import AbortableTransactionError, FatalTransactionError, KafkaError
from thalweg.structs import ConsumerGroupMetadata, PreparedTransaction

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from thalweg.config import Config

    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["Transaction", "TransactionCalls"]


class _Transactional(Protocol):
    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...


class Transaction:
    """Commits at the end of the block, and aborts if the block raises or is cancelled."""

    def __init__(self, producer: _Transactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            await self._commit()
        else:
            await self._abort_after(exc)

    async def _commit(self) -> None:
        try:
            await self._producer.commit_transaction()
        except AbortableTransactionError as error:
            fatal = await self._abort_after(error)
            if fatal is not None:
                raise fatal from error
            raise

    async def _abort_after(self, error: BaseException) -> FatalTransactionError | None:
        """Aborts the transaction. Returns the fatal error if that shows the producer has failed."""
        if isinstance(error, FatalTransactionError):
            return None
        try:
            await self._producer.abort_transaction()
        except KafkaError as failed:
            return abort_failed(failed, error)
        return None


class TransactionCalls(_core.AsyncProducer[K, V], Generic[K, V]):
    """The calls on transactions."""

    config: "Config"

    async def begin_transaction(self) -> None:
        """Begins a transaction. Records that you send from now on belong to it.

        It sends no request. If you cancel the call, no transaction has begun.

        Raises:
            IllegalStateError: If a transaction is open, or there is no transactional_id.
            KafkaTimeoutError: If the client's I/O thread does not respond. The transaction has not
                begun.
            FatalTransactionError: If the producer has failed: for example ProducerFencedError if a
                newer producer uses the transactional_id. Every later call raises the same error.
                Stop the producer.
        """
        await self._begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any], group_id: str | ConsumerGroupMetadata
    ) -> None:
        """Adds a group's offsets to the transaction, which commits them (KIP-98, KIP-447).

        Args:
            offsets: {TopicPartition: next offset to read}. A value is an OffsetAndMetadata, an int,
                or a tuple (int, metadata string).
            group_id: The group ID, or the result of `consumer.group_metadata()`. With the
                metadata, the group refuses the offsets of a member that it has removed.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The request continues in the background, and
                commit_transaction waits for it.
            TransactionCommitFailedError: If the group has rebalanced. Abort the transaction.
            AbortableTransactionError: If the transaction has failed. Abort it.
            FatalTransactionError: See `begin_transaction`.
            TypeError: If an argument has a wrong type.
            ValueError: If an offset is negative, or the group has no ID.
        """
        rows = transactions.offset_rows(offsets)
        await self._send_offsets(rows, transactions.group_fields(group_id, None))

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Waits for all records of the transaction, and leaves it open, so any client can end it.

        It works like `KafkaProducer.prepare_transaction`. If the await is cancelled, the
        preparation continues. Await it again to get the result.

        Returns:
            The prepared transaction. None if nothing was sent in it: then there is nothing to end.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The preparation continues. Await it again.
            AbortableTransactionError: As in `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        found = await self._prepare_transaction()
        name: str = self.config["transactional_id"]
        return None if found is None else PreparedTransaction(name, *found)

    async def commit_transaction(self) -> None:
        """Waits for all records of the transaction, then commits it.

        If the await is cancelled, the commit continues. Await it again to get the result. Until
        the result is known, any other call raises IllegalStateError.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms. The commit continues, and its result is not known
                yet. Await it again.
            AbortableTransactionError: If a record or request of the transaction failed (the
                `__cause__`). Nothing is committed. Await abort_transaction.
            FatalTransactionError: See `begin_transaction`.
        """
        await self._commit_transaction()

    async def abort_transaction(self) -> None:
        """Aborts the transaction. Unsent records fail with TransactionAbortedError.

        Raises:
            IllegalStateError: Outside a transaction.
            KafkaTimeoutError: After max_block_ms, as in `commit_transaction`.
            FatalTransactionError: See `begin_transaction`.
        """
        await self._abort_transaction()

    def transaction(self) -> Transaction:
        """Makes an `async with` block one transaction.

            async with producer.transaction():
                await producer.send("topic", b"value")

        The producer commits the transaction at the end of the block. If the block raises or is
        cancelled, or if one of its records or requests fails, the producer aborts the transaction
        and raises the error. If the commit itself raises KafkaTimeoutError or is cancelled, the
        result is not known yet: await `commit_transaction` to get it. Do not commit or abort inside
        the block.
        """
        return Transaction(self)
