"""Fixtures of the members' unit tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.coordinator.membership.member import ONE, ZERO, beaten, joined, synced


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        given = {"group_id": "g", "retry_backoff_ms": 1, "retry_backoff_max_ms": 1, **configs}
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
