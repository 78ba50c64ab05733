"""Reads ranges of offsets as Arrow batches, for the tasks of the Spark source.

    RangeReader(config).read([OffsetRange("t", 0, start, end)]) ──> batches with __arrow_c_array__

The caller gives the offsets, so it uses no group, commit or reset. The schema is that of Spark's
Kafka connector.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from thalweg._client.arguments import count_given
from thalweg._config.concealment import concealed
from thalweg.config import resolve

if TYPE_CHECKING:
    from thalweg import _core

__all__ = ["OffsetRange", "RangeReader"]


class OffsetRange(NamedTuple):
    """Offsets ``start`` (included) to ``end`` (excluded) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. There may be fewer records: compaction and transactions."""
        return self.end - self.start


class RangeReader:
    """Reads ranges of offsets with one client. Only one thread at a time may use it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connects.

        Args:
            config: The consumer's options, under any of their names.

        Raises:
            KafkaConfigurationError: If options are wrong. The error names all problems.
            NoBrokersAvailable: If no bootstrap server responds.
        """
        from thalweg import _core

        config = concealed(config)
        self._native = _core.RangeReader(resolve("c", config).core())

    def read(
        self,
        ranges: Iterable[OffsetRange],
        *,
        columns: Sequence[str] | None = None,
        fail_on_data_loss: bool = True,
        batch_rows: int = 65536,
        batch_bytes: int = 16 * 1024 * 1024,
        timeout_ms: int = 120000,
    ) -> "Iterator[_core.ArrowBatch]":
        """Starts to fetch the ranges, and returns their records in Arrow batches.

        It returns the ranges one after the other, each in order of offset. But a range whose first
        offsets are gone can come earlier. A batch can contain records of several ranges. The call
        drops batches of an earlier call that you have not read.

        Args:
            ranges: The ranges, each of another partition.
            columns: The columns of the batches, in this order. None means all columns except
                headers. Values of other columns are not copied out of the fetched batches.
            fail_on_data_loss: True raises an error if a log no longer has some offsets. False
                skips them.
            batch_rows: The maximum number of rows of a batch.
            batch_bytes: The approximate maximum size of a batch.
            timeout_ms: How long to wait for records of a range.

        Raises:
            ValueError: If a column does not exist, two ranges are of one partition, or a maximum is
                below 1.
            OffsetOutOfRangeError: If a log no longer has some offsets, and `fail_on_data_loss` is
                True. The iterator raises this error and the next one, not the call.
            KafkaTimeoutError: If nothing arrives for `timeout_ms`.
        """
        count_given(batch_rows, "batch_rows")
        count_given(batch_bytes, "batch_bytes")
        self._native.start(
            list(ranges),
            columns=columns,
            fail_on_data_loss=fail_on_data_loss,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            timeout_ms=timeout_ms,
        )
        return iter(self._native)

    @property
    def lost(self) -> list[OffsetRange]:
        """The skipped offsets of the last read that the logs no longer have. Empty after close."""
        return [OffsetRange(*each) for each in self._native.lost]

    def rest(self) -> None:
        """Stops fetching, and keeps the connection for the next read."""
        self._native.start([])

    def close(self) -> None:
        """Stops fetching and closes the connection."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
