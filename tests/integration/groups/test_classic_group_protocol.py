"""The classic group protocol: real brokers and `ClassicGroup` respond in the same way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.coordinator.classic.script import MAX_SIZE, MIN_SESSION_MS, SCRIPTS, Machines, Script
from tests.support.codes import COORDINATOR_AWAY
from tests.support.kafka.cluster import VERSIONS, RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer

CONFIGS = {
    "group.max.size": str(MAX_SIZE),
    "group.min.session.timeout.ms": str(MIN_SESSION_MS),
}


class RealSide:
    """A real broker. Each client has a connection, because a waiting JoinGroup blocks its own."""

    def __init__(self, kafka: RealKafka, version: str) -> None:
        self.version = version
        self._kafka = kafka
        self._consumers: dict[int, KafkaConsumer[Any, Any]] = {}

    def ask(self, client: int, api: str, version: int, body: dict[str, Any]) -> Any:
        if client not in self._consumers:
            self._consumers[client] = KafkaConsumer(
                bootstrap_servers=self._kafka.bootstrap_servers, client_id=f"c{client}"
            )
        group = body.get("GroupId") or body["Groups"][0]
        where: Any = ("coordinator", "group", group)
        side = self._consumers[client]._core_client
        self._coordinator_is_there(side, where)
        return side.submit(api, body, where, version=version)

    def _coordinator_is_there(self, side: Any, where: Any) -> None:
        body = {"Groups": [where[2]]}

        def there() -> bool:
            row = side.request("DescribeGroups", body, where, version=5)["Groups"][0]
            return row["ErrorCode"] not in COORDINATOR_AWAY

        wait_until(there, 60)

    def response(self, pending: Any) -> dict[str, Any]:
        return pending.result(60_000)

    def pass_ms(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        for each in self._consumers.values():
            each.close()


@pytest.fixture(scope="module", params=VERSIONS)
def real(request: pytest.FixtureRequest) -> Iterator[RealSide]:
    with RealKafka(request.param, configs=CONFIGS) as kafka:
        side = RealSide(kafka, request.param)
        yield side
        side.close()


def before_kafka_4(note: dict[str, Any]) -> dict[str, Any]:
    """Removes what the older coordinator hides: assignments of groups that are not stable."""
    if note.get("GroupState", "Stable") == "Stable" or "Members" not in note:
        return note
    rows = [{k: v for k, v in row.items() if k != "MemberAssignment"} for row in note["Members"]]
    return note | {"Members": rows}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.__name__)
def test_the_machine_responds_as_kafka_does(real, script):
    theirs, ours = Script(real, script.__name__), Script(Machines(), script.__name__)
    script(theirs)
    script(ours)
    for number, (their, our) in enumerate(zip(theirs.heard, ours.heard, strict=True)):
        if real.version != "4.3":
            their, our = before_kafka_4(their), before_kafka_4(our)
        assert our == their, f"step {number} of {script.__name__}"
