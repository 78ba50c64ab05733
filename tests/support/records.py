"""Generates the records that all clients under test write and read, and stores them in files.

    records(20_000, seed=1)  ->  write_records(path, ...)  ->  a client produces them
    a client consumes        ->  read_records(path)        ->  compared byte for byte

A file is a sequence of records. All integers are big-endian:

    int32   length of the record after this field
    int32   partition
    int64   offset (-1 in a file to be produced)
    int64   timestamp, milliseconds since 1970
    bytes   key, bytes value           each an int32 length (-1 for null) and the bytes
    int32   number of headers, then each: bytes key (UTF-8, never null), bytes value

The Java program RecordPipe reads and writes the same format. This module uses only the standard
library, because the environments of the other clients also import it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUE_BYTES_MAX = 200_000
RECORD_BYTES_MAX = 16 << 20

_HEAD = struct.Struct(">iqq")
_LENGTH = struct.Struct(">i")


class Record(NamedTuple):
    """One record with its partition and offset (-1 before it has one)."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records(
    count: int,
    *,
    seed: int = 1,
    partitions: int = 4,
    null_header_values: bool = True,
    neither: bool = True,
    start_timestamp: int = 1_700_000_000_000,
) -> Iterator[Record]:
    """Yields a deterministic mix of records.

    Values are null, empty, mostly hundreds of bytes, and up to `VALUE_BYTES_MAX`. Keys are null,
    empty, text and binary. One record in three has headers, some with duplicate keys and (if
    `null_header_values`) null values. Some have neither key nor value (if `neither`). Timestamps
    are not in order.
    """
    rng = random.Random(seed)
    noise = rng.randbytes(VALUE_BYTES_MAX)
    text = (b"the quick brown fox jumps over the lazy dog " * 5000)[:VALUE_BYTES_MAX]
    for number in range(count):
        key, value = _key(rng, number), _value(rng, number, noise, text)
        if not neither and key is value is None:
            key = b"at-least-a-key"
        yield Record(
            partition=rng.randrange(partitions),
            offset=-1,
            timestamp=start_timestamp + number - rng.randrange(1000),
            key=key,
            value=value,
            headers=_headers(rng, null_header_values) if rng.random() < 1 / 3 else (),
        )


def _key(rng: random.Random, number: int) -> bytes | None:
    kind = rng.random()
    if kind < 0.3:
        return None
    if kind < 0.33:
        return b""
    return b"key-%d" % number if kind < 0.8 else rng.randbytes(rng.randrange(1, 40))


def _value(rng: random.Random, number: int, noise: bytes, text: bytes) -> bytes | None:
    kind = rng.random()
    if kind < 0.02:
        return None
    if kind < 0.04:
        return b""
    if kind < 0.9:
        size = rng.randrange(1, 400)
    elif kind < 0.999:
        size = rng.randrange(400, 8_000)
    else:
        size = rng.randrange(8_000, VALUE_BYTES_MAX)
    source = noise if rng.random() < 0.5 else text
    at = rng.randrange(VALUE_BYTES_MAX - size + 1)
    return b"%d:" % number + source[at : at + size]


def _headers(rng: random.Random, nulls: bool) -> tuple[tuple[str, bytes | None], ...]:
    found: list[tuple[str, bytes | None]] = []
    for _ in range(rng.randrange(1, 5)):
        key = rng.choice(["trace", "trace", "größe", "", "a-much-longer-header-key"])
        value = None if nulls and rng.random() < 0.2 else rng.randbytes(rng.randrange(0, 60))
        found.append((key, value))
    return tuple(found)


def encode(record: Record) -> bytes:
    """Encodes a record for the file, with its length first."""
    parts = [_HEAD.pack(record.partition, record.offset, record.timestamp)]
    for data in (record.key, record.value):
        parts += _blob(data)
    parts.append(_LENGTH.pack(len(record.headers)))
    for key, value in record.headers:
        parts += _blob(key.encode())
        parts += _blob(value)
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def _blob(data: bytes | None) -> list[bytes]:
    return [_LENGTH.pack(-1)] if data is None else [_LENGTH.pack(len(data)), data]


def decode(body: bytes) -> Record:
    """Decodes a record of a file, without its length."""
    at = _HEAD.size

    def blob() -> bytes | None:
        nonlocal at
        (length,) = _LENGTH.unpack_from(body, at)
        at += 4
        if length < 0:
            return None
        at += length
        return body[at - length : at]

    partition, offset, timestamp = _HEAD.unpack_from(body)
    key, value = blob(), blob()
    (count,) = _LENGTH.unpack_from(body, at)
    at += 4
    headers = tuple(((blob() or b"").decode(), blob()) for _ in range(count))
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes too many in a record")
    return Record(partition, offset, timestamp, key, value, headers)


def write_records(path: Path, found: Iterable[Record]) -> int:
    """Writes records to a file and returns their number."""
    count = 0
    with path.open("wb") as file:
        for record in found:
            file.write(encode(record))
            count += 1
    return count


def read_records(path: Path) -> Iterator[Record]:
    """Reads a file of records.

    Raises:
        ValueError: the file is incomplete or has another format.
    """
    with path.open("rb") as file:
        while head := file.read(4):
            (length,) = _LENGTH.unpack(head)
            if not 0 <= length <= RECORD_BYTES_MAX:
                raise ValueError(f"a record of {length} bytes in {path}")
            body = file.read(length)
            if len(body) != length:
                raise ValueError(f"{path} ends within a record")
            yield decode(body)
