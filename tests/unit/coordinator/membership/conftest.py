"""Fixtures of the members' unit tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.coordinator.membership.member import ONE, ZERO, beaten, joined, synced
from thalweg.coordinator.driver import _chores

HOUR_MS = 3_600_000


@pytest.fixture
def make(fake, monkeypatch) -> Any:
    # Nothing becomes due, and no wait for a commit ends, because the machine pauses.
    monkeypatch.setattr(_chores, "_AUTO_COMMIT_LIMIT_MS", float(HOUR_MS))
    fixed = {"group_id": "g", "retry_backoff_ms": 1, "retry_backoff_max_ms": 1}
    fixed["auto_commit_interval_ms"] = HOUR_MS
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        given = {**fixed, **configs}
        consumer = fake.consumer.KafkaConsumer(**given)
        consumer.client.responses.update(
            Metadata={
                "Brokers": [],
                "Topics": [
                    {
                        "Name": "t",
                        "TopicId": "T",
                        "ErrorCode": 0,
                        "IsInternal": False,
                        "Partitions": [{"PartitionIndex": each} for each in range(2)],
                    }
                ],
            },
            ConsumerGroupHeartbeat=beaten,
            JoinGroup=joined(),
            SyncGroup=synced(ZERO, ONE),
            LeaveGroup={"ErrorCode": 0},
            OffsetCommit={"Topics": []},
            OffsetFetch={"Groups": [{"GroupId": "g", "ErrorCode": 0, "Topics": []}]},
        )
        consumer.subscribe(["t"])
        made.append(consumer)
        return consumer

    yield call
    for each in made:
        each.close(timeout_ms=10)
