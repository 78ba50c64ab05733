"""Fixtures of the admin client's unit tests."""

import time
from typing import Any

import pytest

from thalweg.admin import requests, topics, transactions


class Clock:
    """Replaces `time` in the admin client. Only waits move it, and they end at once."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def admin(fake, monkeypatch) -> Any:
    clock = Clock()
    for module in (requests, topics, transactions):
        monkeypatch.setattr(module, "time", clock)
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1",
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
        default_api_timeout_ms=50,
    )
    yield client
    client.close()
