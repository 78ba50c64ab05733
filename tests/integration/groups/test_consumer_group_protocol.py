"""KIP-848's protocol: a real Kafka 4.3 and `ConsumerGroup` respond with the same messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from tests.coordinator.kip848.script import (
    MAX_SIZE,
    RECORDED,
    SCRIPTS,
    TOPICS,
    Machines,
    Script,
    kafkas_responses,
    plain,
)
from tests.support.codes import COORDINATOR_AWAY
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer

# The broker assigns at once and in the same thread, so that each response is deterministic.
CONFIGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.max.size": str(MAX_SIZE),
}


class RealSide:
    """A real broker."""

    def __init__(self, kafka: RealKafka) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
        self._client = self._consumer._core_client
        topics = self._client.metadata(list(TOPICS))["Topics"]
        self.ids = {row["Name"]: row["TopicId"] for row in topics}

    def heartbeat(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask("ConsumerGroupHeartbeat", body, body["GroupId"], version)

    def describe(self, group: str) -> dict[str, Any]:
        response = self._ask("ConsumerGroupDescribe", {"GroupIds": [group]}, group, 1)
        row: dict[str, Any] = response["Groups"][0]
        return row

    def _ask(self, api: str, body: dict[str, Any], group: str, version: int) -> dict[str, Any]:
        response: dict[str, Any] = {}

        def responded() -> bool:
            nonlocal response
            where: tuple[Literal["coordinator"], str, str] = ("coordinator", "group", group)
            response = self._client.request(api, body, where, version=version)
            return response.get("ErrorCode") not in COORDINATOR_AWAY

        wait_until(responded, 60)
        return response

    def pass_ms(self, ms: float) -> None:
        """Waits until the group has removed member "a". Scripts let time pass only for this."""
        group = "subscriptions"
        wait_until(
            lambda: "a" not in {each["MemberId"] for each in self.describe(group)["Members"]},
            30 + ms / 1000,
        )

    def close(self) -> None:
        self._consumer.close()


def started() -> RealKafka:
    kafka = RealKafka("4.3", configs=CONFIGS)
    kafka.start()
    for name, partitions in TOPICS.items():
        kafka.create_topic(name, partitions)
    return kafka


@pytest.fixture(scope="module")
def real() -> Iterator[RealSide]:
    kafka = started()
    side = RealSide(kafka)
    yield side
    side.close()
    kafka.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.__name__)
def test_kafka_and_the_machine_respond_alike(real, script):
    theirs, ours = Script(real, script.__name__), Script(Machines(), script.__name__)
    script(theirs)
    script(ours)
    for number, (their, our) in enumerate(zip(theirs.heard, ours.heard, strict=True)):
        assert our == their, f"step {number} of {script.__name__}"
    assert plain(theirs.heard) == kafkas_responses(script), "what is recorded is not what it says"


def record() -> None:
    """Records Kafka's responses in a file."""
    kafka = started()
    side = RealSide(kafka)
    found = {}
    for script in SCRIPTS:
        theirs = Script(side, script.__name__)
        script(theirs)
        found[script.__name__] = theirs.heard
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    side.close()
    kafka.close()


if __name__ == "__main__":
    record()
