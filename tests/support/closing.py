"""The end of the interpreter, played within a test."""

from __future__ import annotations

import threading
from typing import Any

import pytest


def watch_nothing(closing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is open, so that only the test's own clients are closed, and all is as before after.

    Brokers that other tests of this process go on with are among what is forgotten.
    """
    for name in ("_open", "_brokers"):
        monkeypatch.setattr(closing, name, type(getattr(closing, name))())
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
