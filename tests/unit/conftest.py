"""Fixtures of the unit tests."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit import fake_core
from thalweg.coordinator.driver import _waits


@pytest.fixture
def fake() -> Iterator[Any]:
    """The clients on a fake `.core`: modules `.producer`, `.consumer`, `.admin`, `.broker`."""
    with fake_core.installed():
        yield SimpleNamespace(
            core=sys.modules["thalweg._core"],
            **{name: fake_core.load(name) for name in ("producer", "consumer", "admin", "broker")},
        )


class Clock:
    """Replaces `time` where a consumer waits. Only waits move it, and they end at once.

    So a busy machine cannot reach a limit too early.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 0.001)  # waits are whole milliseconds, and may be 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the consumers on a fake core."""
    made = Clock()
    monkeypatch.setattr(_waits, "time", made)
    return made
