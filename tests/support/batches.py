"""Builds record batches (KIP-98) byte by byte: valid ones, and those that no client would encode.

batch(record(b"v"))                  one record at offset 0
batch(record(b"v"), records=5)       the same, but its header says that it has five records
"""

from __future__ import annotations

import struct
from typing import Final

_CASTAGNOLI: Final = 0x82F63B78


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_CASTAGNOLI if byte & 1 else 0)
    return byte


_REMAINDERS: Final = [_remainder(byte) for byte in range(256)]


def crc_32c(data: bytes) -> int:
    """Returns the CRC-32C, the checksum of record batches."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _REMAINDERS[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Encodes a number as a zigzag varint, as records do."""
    left, out = number << 1 ^ number >> 63, bytearray()
    left &= (1 << 64) - 1
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def record(value: bytes, headers: bytes = b"\0") -> bytes:
    """Encodes a record without a key. `headers` is the encoded count and the encoded headers."""
    body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + headers
    return varint(len(body)) + body


def batch(
    section: bytes,
    records: int = 1,
    attributes: int = 0,
    *,
    timestamp_ms: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
) -> bytes:
    """Encodes a batch at offset 0 around a records section, with a valid checksum.

    `producer` is the producer's ID and epoch, and the first sequence number of the batch.
    """
    covered = struct.pack(
        ">hiqqqhii", attributes, 0, timestamp_ms, timestamp_ms, *producer, records
    )
    covered += section
    front = struct.pack(">ibI", leader_epoch, 2, crc_32c(covered))
    return struct.pack(">qi", 0, len(front) + len(covered)) + front + covered
