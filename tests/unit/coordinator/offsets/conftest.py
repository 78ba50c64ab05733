"""Fixtures of the unit tests about committed offsets."""

from typing import Any

import pytest

from tests.unit.coordinator.offsets.responses import committed

FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1}


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        configs = {"group_id": "g", "enable_auto_commit": False, **FAST, **configs}
        made.append(fake.consumer.KafkaConsumer(**configs))
        return made[-1]

    yield call
    for each in made:
        each.client.responses["OffsetCommit"] = committed()
        each.close(timeout_ms=10)
