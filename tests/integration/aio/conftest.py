"""Fixtures of the asyncio clients' tests."""

from __future__ import annotations

from typing import Any

import pytest

from thalweg import EmbeddedBroker


@pytest.fixture
def silent(start_embedded: Any) -> EmbeddedBroker:
    """A broker that accepts Produce requests and never responds to them."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("full")
    broker.faults.on("Produce").then_silence(times=None)
    return broker
