"""Helps tests to simulate the end of the interpreter."""

from __future__ import annotations

import threading
from typing import Any

import pytest


def watch_nothing(closing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides all open clients and brokers for one test, so that an exit closes only the test's own.

    Other tests of this process still use brokers that are hidden here. The end of the test restores
    everything.
    """
    for name in ("_open", "_brokers"):
        monkeypatch.setattr(closing, name, type(getattr(closing, name))())
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
