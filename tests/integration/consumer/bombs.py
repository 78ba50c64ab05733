"""Batches of a few bytes that claim to decompress to gigabytes."""

from __future__ import annotations

import struct
from typing import Final

from tests.support.batches import batch

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_BLOCK_BYTES: Final = 128 << 10
_ZSTD: Final = 4


def zeros_in_zstd(size: int) -> bytes:
    """Returns a zstd frame of `size` zeros, which takes four bytes for each 128 KiB."""
    window_of_128_kib, run = 7 << 3, 1 << 1
    header = bytes([0, window_of_128_kib])
    blocks = -(-size // _BLOCK_BYTES)
    one = struct.pack("<I", _BLOCK_BYTES << 3 | run)[:3] + b"\0"
    last = struct.pack("<I", _BLOCK_BYTES << 3 | run | 1)[:3] + b"\0"
    return _ZSTD_MAGIC + header + one * (blocks - 1) + last


def bomb(size: int) -> bytes:
    """Returns a batch that is `size` bytes long after decompression."""
    return batch(zeros_in_zstd(size), attributes=_ZSTD)
