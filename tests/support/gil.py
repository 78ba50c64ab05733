"""The interpreter's lock, held as a library in C may hold it."""

from __future__ import annotations

import ctypes
import sys


def hold_the_gil(seconds: float) -> None:
    """Sleeps with the lock: no other thread runs Python meanwhile (PyDLL does not release it)."""
    if sys.platform == "win32":
        ctypes.PyDLL("kernel32").Sleep(ctypes.c_uint32(int(seconds * 1e3)))
    else:
        ctypes.PyDLL(None).usleep(ctypes.c_uint32(int(seconds * 1e6)))
