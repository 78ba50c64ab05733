"""Fixtures of the interop tests, in addition to those in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.members import SESSION_MS, Crew, MakeCrew
from tests.support.brokers import Broker


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[MakeCrew]:
    """Makes a group whose members end with the test: `crew(broker, topic, 12, "range")`."""
    made: list[Crew] = []

    def make(
        broker: Broker, topic: str, partitions: int, strategy: str, *, session_ms: int = SESSION_MS
    ) -> Crew:
        made.append(Crew(broker, topic, partitions, strategy, session_ms, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()
