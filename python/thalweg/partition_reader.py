"""Reads a range of offsets of one partition as Arrow batches, for the tasks of the Spark source.

    PartitionReader(config, topic, partition, start, end) ──> batches with __arrow_c_array__

The caller gives the offsets, so it uses no group, commit or reset. The schema is that of Spark's
Kafka connector.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from thalweg._config.concealment import concealed
from thalweg.config import resolve

if TYPE_CHECKING:
    from thalweg import _core

__all__ = ["PartitionReader"]


class PartitionReader:
    """Reads the offsets [start, end) of a partition once, in order."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        columns: Sequence[str] | None = None,
        fail_on_data_loss: bool = True,
        batch_rows: int = 65536,
        batch_bytes: int = 16 * 1024 * 1024,
        timeout_ms: int = 120000,
    ) -> None:
        """Connects and starts to fetch.

        Args:
            config: The consumer's options, under any of their names.
            topic: The topic.
            partition: The partition's number.
            start: The first offset to read.
            end: The offset to stop before.
            columns: The columns of the batches, in this order. None means all columns but the
                headers. Values of other columns are not copied out of the fetched batches.
            fail_on_data_loss: True raises an error if the log no longer has some offsets. False
                skips them.
            batch_rows: The maximum number of rows of a batch.
            batch_bytes: The approximate maximum size of a batch.
            timeout_ms: How long to wait for each batch.

        Raises:
            ValueError: If a column does not exist.
            KafkaConfigurationError: If options are wrong. The error names all problems.
            NoBrokersAvailable: If no bootstrap server answers.
        """
        from thalweg import _core

        config = concealed(config)
        self._native = _core.PartitionReader(
            resolve("c", config).core(),
            topic,
            partition,
            start,
            end,
            columns=columns,
            fail_on_data_loss=fail_on_data_loss,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            timeout_ms=timeout_ms,
        )

    def __iter__(self) -> "Iterator[_core.ArrowBatch]":
        """Returns the batches up to `end`.

        Raises:
            OffsetOutOfRangeError: If the log no longer has some offsets, and `fail_on_data_loss` is
                True.
            KafkaTimeoutError: If nothing arrives for `timeout_ms`.
        """
        return iter(self._native)

    @property
    def lost(self) -> list[tuple[int, int]]:
        """The skipped ranges [from, to) of offsets that the log no longer has. Empty after close.

        Read it before `close`.
        """
        return self._native.lost

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
