"""A bounded range of one partition as Arrow batches: what a Spark task reads with.

    PartitionReader(config, topic, partition, start, end) ──> batches with __arrow_c_array__

Positions are given, so no group, commit or reset takes part. The schema is that of Spark's Kafka
connector.
"""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from thalweg.config import resolve

if TYPE_CHECKING:
    from thalweg import _core

__all__ = ["PartitionReader"]


class PartitionReader:
    """Reads offsets [start, end) of a partition, in order, once."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
        batch_rows: int = 65536,
        batch_bytes: int = 16 * 1024 * 1024,
        timeout_ms: int = 120000,
    ) -> None:
        """Connects and starts to fetch.

        Args:
            config: A consumer's options, under any of their names.
            topic: The topic.
            partition: The partition.
            start: First offset to read.
            end: Offset to stop before.
            include_headers: Whether the batches have a column of headers.
            fail_on_data_loss: Whether offsets that are gone are an error; else they are skipped.
            batch_rows: Most rows of a batch.
            batch_bytes: About how many bytes a batch has at most.
            timeout_ms: Limit of the wait for each batch.

        Raises:
            KafkaConfigurationError: If the options cannot be.
            NoBrokersAvailable: If no bootstrap server answers.
        """
        from thalweg import _core

        self._native = _core.PartitionReader(
            resolve("c", config).core(),
            topic,
            partition,
            start,
            end,
            include_headers=include_headers,
            fail_on_data_loss=fail_on_data_loss,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            timeout_ms=timeout_ms,
        )

    def __iter__(self) -> "Iterator[_core.ArrowBatch]":
        """Batches until `end`.

        Raises:
            OffsetOutOfRangeError: If offsets are gone and `fail_on_data_loss` is set.
            KafkaTimeoutError: If nothing arrives for `timeout_ms`.
        """
        return iter(self._native)

    @property
    def lost(self) -> list[tuple[int, int]]:
        """Ranges [from, to) of offsets that were gone and passed over; empty once closed."""
        return self._native.lost

    def close(self) -> None:
        """Stops fetching and gives the connection up."""
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
