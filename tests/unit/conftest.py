"""Fixtures of the unit tests."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit import fake_core


@pytest.fixture
def fake() -> Iterator[Any]:
    """The clients on a fake `.core`: modules `.producer`, `.consumer`, `.admin`, `.broker`."""
    with fake_core.installed():
        yield SimpleNamespace(
            core=sys.modules["thalweg._core"],
            **{name: fake_core.load(name) for name in ("producer", "consumer", "admin", "broker")},
        )
