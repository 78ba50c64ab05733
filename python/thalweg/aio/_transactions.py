"""`async with producer.transaction():`, which aborts if its block raises or is cancelled."""

from types import TracebackType
from typing import Protocol, Self

from thalweg._client.transactions import abort_failed
from thalweg.errors import AbortableTransactionError, FatalTransactionError, KafkaError

__all__ = ["Transaction"]


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
