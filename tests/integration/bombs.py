"""Batches whose few bytes claim to be gigabytes, or to hold billions of records."""

from __future__ import annotations

import struct
from typing import Final

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_BLOCK_BYTES: Final = 128 << 10
_CRC_32C: Final = 0x82F63B78
_ZSTD: Final = 4


def zeros_in_zstd(size: int) -> bytes:
    """A zstd frame of `size` zeros: four bytes for each 128 KiB of them."""
    window_of_128_kib, run = 7 << 3, 1 << 1
    header = bytes([0, window_of_128_kib])
    blocks = -(-size // _BLOCK_BYTES)
    one = struct.pack("<I", _BLOCK_BYTES << 3 | run)[:3] + b"\0"
    last = struct.pack("<I", _BLOCK_BYTES << 3 | run | 1)[:3] + b"\0"
    return _ZSTD_MAGIC + header + one * (blocks - 1) + last


def batch(section: bytes, records: int = 1, attributes: int = 0) -> bytes:
    """A batch at offset 0 around a records section, with a checksum that holds."""
    covered = struct.pack(">hiqqqhii", attributes, 0, 0, 0, -1, -1, -1, records)
    covered += section
    front = struct.pack(">ibI", 0, 2, crc_32c(covered))
    return struct.pack(">qi", 0, len(front) + len(covered)) + front + covered


def bomb(size: int) -> bytes:
    """A batch that is `size` bytes long once it is decompressed."""
    return batch(zeros_in_zstd(size), attributes=_ZSTD)


def crc_32c(data: bytes) -> int:
    """The checksum of record batches (Castagnoli)."""
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (_CRC_32C if number & 1 else 0)
        table.append(number)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
