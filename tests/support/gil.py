"""Holds the interpreter's lock, as a C library may do."""

from __future__ import annotations

import ctypes
import sys


def hold_the_gil(seconds: float) -> None:
    """Sleeps with the lock, so that no other thread runs Python. PyDLL does not release it."""
    if sys.platform == "win32":
        ctypes.PyDLL("kernel32").Sleep(ctypes.c_uint32(int(seconds * 1e3)))
    else:
        ctypes.PyDLL(None).usleep(ctypes.c_uint32(int(seconds * 1e6)))
