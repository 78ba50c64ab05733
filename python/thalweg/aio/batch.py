"""BatchBuilder collects records by hand, to send them together; aiokafka's class."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["BatchBuilder", "BatchRecordMetadata"]

_BATCH_HEADER_BYTES: Final = 61  # of a record batch, version 2
_Serialize = Callable[[str, list[tuple[str, bytes]], Any, Any], tuple[Any, Any]]


class BatchRecordMetadata(NamedTuple):
    """The result of `BatchBuilder.append` for a record that it has added.

    Attributes:
        offset: The index of the record in the batch. The first record has 0.
        size: The size of the record in the batch, in bytes.
        timestamp: Unix ms.
        crc: Always None: version 2 batches have no checksum for each record.
    """

    offset: int
    size: int
    timestamp: int
    crc: int | None


def _varint_bytes(value: int) -> int:
    """Returns how many bytes a zigzag varint takes."""
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)


def _data_bytes(data: Any) -> int:
    return 1 if data is None else _varint_bytes(len(data)) + len(data)


class BatchBuilder:
    """Collects records up to `batch_size` bytes, for `send_batch` to one partition.

        batch = producer.create_batch()
        while batch.append(key=None, value=next(values), timestamp=None): ...
        future = await producer.send_batch(batch, "topic", partition=0)

    `AIOKafkaProducer.create_batch` creates it.
    """

    def __init__(self, batch_size: int, serialize: _Serialize | None = None) -> None:
        self._limit, self._serialize = batch_size, serialize
        self._size, self._closed = _BATCH_HEADER_BYTES, False
        self._first_timestamp = 0
        self.values: list[Any] = []
        self.keys: list[Any] = []
        self.headers: list[list[tuple[str, bytes | None]]] = []
        self.timestamps_ms: list[int] = []

    def append(
        self,
        *,
        timestamp: int | None,
        key: Any,
        value: Any,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> BatchRecordMetadata | None:
        """Adds a record to the batch.

        Args:
            timestamp: Unix ms. None: the time of the call.
            key: Bytes, or a type that key_serializer accepts. The serializer gets "" as the topic.
            value: Bytes, or a type that value_serializer accepts.
            headers: Pairs of name and bytes.

        Returns:
            The index and the size of the record. None if the batch is closed, or if the record does
            not fit. A record that does not fit closes the batch. The first record always fits.

        Raises:
            ValueError: If key and value are both None.
            TypeError: If key or value, after serialization, is not bytes.
        """
        if self._closed:
            return None
        pairs = list(headers or ())
        if self._serialize is not None:
            key, value = self._serialize("", pairs, key, value)  # type: ignore[arg-type]
        if key is None and value is None:
            raise ValueError("Need at least one: key or value")
        for what, data in (("key", key), ("value", value)):
            if data is not None and not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(
                    f"the {what} must be bytes, not {type(data).__name__}. To send other types, set"
                    f" a {what}_serializer that returns bytes"
                )
        stamp = int(time.time() * 1000) if timestamp is None else int(timestamp)
        size = self._record_bytes(stamp, key, value, pairs)
        if self.values and self._size + size > self._limit:
            self.close()
            return None
        if not self.values:
            self._first_timestamp = stamp
        self.values.append(value)
        self.keys.append(key)
        self.headers.append(pairs)
        self.timestamps_ms.append(stamp)
        self._size += size
        return BatchRecordMetadata(len(self.values) - 1, size, stamp, None)

    def _record_bytes(
        self, timestamp: int, key: Any, value: Any, headers: Sequence[tuple[str, bytes | None]]
    ) -> int:
        first = self._first_timestamp if self.values else timestamp
        body = 1 + _varint_bytes(timestamp - first) + _varint_bytes(len(self.values))
        body += _data_bytes(key) + _data_bytes(value) + _varint_bytes(len(headers))
        for name, data in headers:
            body += _data_bytes(name.encode()) + _data_bytes(data)
        return _varint_bytes(body) + body

    def close(self) -> None:
        """Closes the batch: it accepts no more records. You may call it again."""
        self._closed = True

    def closed(self) -> bool:
        """Whether the batch is closed and accepts no more records."""
        return self._closed

    def size(self) -> int:
        """Returns the size of the batch in bytes, before compression."""
        return self._size

    def record_count(self) -> int:
        """Returns the number of records in the batch."""
        return len(self.values)
