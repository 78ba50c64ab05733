"""Requests of clients to a group of KIP-848's protocol, step by step, and their responses.

The same script runs against a real broker and against `ConsumerGroup`, see
tests/integration/groups/test_consumer_group_protocol.py. Topic IDs are replaced by names, and rows
are sorted, so that responses can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.coordinator.kip848.broker import filled
from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
from thalweg.coordinator.steps import Arrived, Reply, Ticked, TopicsChanged

# Kafka 4.3's responses, which this command records:
# python -m tests.integration.groups.test_consumer_group_protocol
RECORDED = Path(__file__).with_name("kip848_responses.json")
TOPICS = {"t": 4, "u": 3}
MAX_SIZE = 3


class Side(Protocol):
    """A broker, as the script uses it."""

    @property
    def ids(self) -> Mapping[str, str]: ...

    def heartbeat(self, version: int, body: dict[str, Any]) -> dict[str, Any]: ...
    def describe(self, group: str) -> dict[str, Any]: ...
    def pass_ms(self, ms: float) -> None: ...


class Machines:
    """Our own side: all groups of a broker."""

    def __init__(self) -> None:
        self.ids = {name: f"id-of-{name}" for name in TOPICS}
        self.now = 0.0
        self.groups = Groups(GroupSettings(), self._new_id, self._new_group)
        self._made = 0

    def _new_id(self) -> str:
        self._made += 1
        return f"made-{self._made}"

    def _new_group(self, group_id: str) -> ConsumerGroup:
        settings = ConsumerGroupSettings(assignment_interval_ms=0, max_size=MAX_SIZE)
        topics = TopicsChanged(TOPICS, {}, self.ids)
        return ConsumerGroup(group_id, settings, self._new_id, topics)

    def _ask(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        event = Arrived(7, api, version, body, "client", "/host")
        actions = self.groups.step(event, self.now)
        (reply,) = (each for each in actions if isinstance(each, Reply))
        return reply.body

    def heartbeat(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask("ConsumerGroupHeartbeat", version, filled(body))

    def describe(self, group: str) -> dict[str, Any]:
        row: dict[str, Any] = self._ask("ConsumerGroupDescribe", 1, {"GroupIds": [group]})[
            "Groups"
        ][0]
        return row

    def pass_ms(self, ms: float) -> None:
        until = self.now + ms
        while (deadline := self.groups.next_deadline()) is not None and deadline <= until:
            self.groups.step(Ticked(), deadline)
        self.now = until


class Script:
    """Sends requests and records the responses."""

    def __init__(self, side: Side, group: str = "g") -> None:
        self.side = side
        self.group = group
        self.heard: list[Any] = []
        self._names = {topic_id: name for name, topic_id in side.ids.items()}

    def rows(self, **partitions: list[int]) -> list[dict[str, Any]]:
        ids = self.side.ids
        return [{"TopicId": ids[name], "Partitions": each} for name, each in partitions.items()]

    def says(self, member: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
        body = {"GroupId": self.group, "MemberId": member, "MemberEpoch": epoch} | fields
        response = self.side.heartbeat(version, body)
        told = response["Assignment"]
        heard = (
            response["ErrorCode"],
            response["ErrorMessage"],
            response["MemberId"] if member else None,
            response["MemberEpoch"],
            response["HeartbeatIntervalMs"],
            None if told is None else self._partitions(told),
        )
        self.heard.append((f"{member} at {epoch}", heard))
        return response

    def joins(self, member: str, topics: list[str] | None = None, **fields: Any) -> Any:
        full: dict[str, Any] = {
            "RebalanceTimeoutMs": 60_000,
            "SubscribedTopicNames": ["t"] if topics is None else topics,
            "TopicPartitions": [],
        }
        return self.says(member, 0, **(full | fields))

    def sees(self) -> None:
        row = self.side.describe(self.group)
        members = {
            each["MemberId"]: {
                key: self._partitions(value) if key.endswith("Assignment") else value
                for key, value in each.items()
                if key not in {"ClientId", "ClientHost"}
            }
            for each in row["Members"]
        }
        said = {key: value for key, value in row.items() if key not in {"Members", "GroupId"}}
        said.pop("AuthorizedOperations", None)
        self.heard.append((said, members))

    def _partitions(self, assignment: Mapping[str, Any]) -> dict[str, list[int]]:
        return {
            self._names[row["TopicId"]]: row["Partitions"]
            for row in sorted(
                assignment["TopicPartitions"], key=lambda r: self._names[r["TopicId"]]
            )
        }


def join_and_leave(script: Script) -> None:
    """One member; a second one, which waits for what the first gives up; one leaves."""
    script.joins("a")
    script.says("a", 2)
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1, 2, 3]))
    script.sees()
    script.joins("b")
    script.sees()
    script.says("b", 3)
    script.says("a", 2)
    script.sees()
    script.says("a", 2)
    script.says("b", 3)
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1, 2]))
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1]))
    script.sees()
    script.says("b", 3)
    script.says("b", 3)
    script.says("b", 3, TopicPartitions=script.rows(t=[2, 3]))
    script.sees()
    script.says("a", -1)
    script.sees()
    script.says("b", 3)
    script.says("b", 4)
    script.says("b", -1)
    script.sees()
    script.joins("c")
    script.sees()


def epochs(script: Script) -> None:
    """A wrong epoch is fenced; a member that missed one response is not; epoch 0 always joins."""
    script.joins("a")
    script.joins("b")
    script.says("a", 2)
    script.says("a", 3)
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1]))
    script.says("a", 2)
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1]))
    script.says("a", 2, TopicPartitions=script.rows(t=[0, 1, 2]))
    script.says("a", 1, TopicPartitions=[])
    script.says("b", 9)
    script.joins("a")
    script.joins("b")
    script.says("nobody", 3)
    script.says("nobody", -1)
    script.sees()


def wrong_requests(script: Script) -> None:
    """Requests that the group refuses, and their errors."""
    script.says("a", 1)
    script.says("a", -1)
    script.says("", 0)
    script.says("", 1, version=0)
    script.says("a", -3)
    script.says("a", -2)
    script.says("a", 0)
    script.joins("a", InstanceId="")
    script.joins("a", RackId="")
    script.joins("a", TopicPartitions=script.rows(t=[0]))
    script.joins("a", TopicPartitions=None)
    script.joins("a", SubscribedTopicNames=None)
    script.joins("a", ServerAssignor="nonsense")
    script.joins("a", [])
    script.sees()
    script.joins("a", ["nope"])
    script.joins("b", ServerAssignor="range")
    script.joins("c", ServerAssignor="range")
    script.sees()
    script.joins("one too many")
    script.joins("c", ServerAssignor="range")


def static_members(script: Script) -> None:
    """An instance ID has one member, which may leave for a while and return as a new member."""
    script.joins("a", InstanceId="i1", RackId="r1")
    script.joins("b", InstanceId="i1")
    script.joins("b", InstanceId="i2")
    script.says("b", 3, InstanceId="i9")
    script.says("b", 3, InstanceId="i1")
    script.says("b", -1, InstanceId="i1")
    script.says("b", -2, InstanceId="i9")
    script.says("a", 2, InstanceId="i1")
    script.says("a", -2, InstanceId="i1")
    script.sees()
    script.says("a", 2)
    script.says("a", 2, InstanceId="i1")
    script.says("b", 3, InstanceId="i2")
    script.joins("a2", InstanceId="i1")
    script.sees()
    script.says("a", 3, InstanceId="i1")
    script.says("b", 3, InstanceId="i2")
    script.says("b", -2, InstanceId="i2")
    script.joins("b", InstanceId="i2")
    script.says("a2", -1, InstanceId="i1")
    script.says("b", 3, InstanceId="i2")
    script.sees()


def subscriptions(script: Script) -> None:
    """A member changes its subscription; one gives up too slowly; targets change back."""
    script.joins("a", ["t", "u"])
    script.says("a", 2, SubscribedTopicNames=["u"])
    script.sees()
    script.says("a", 2, TopicPartitions=script.rows(u=[0, 1, 2]))
    script.says("a", 3, SubscribedTopicNames=["u"])
    script.joins("b", ["u"])
    script.says("a", 3)
    script.says("b", -1)
    script.says("a", 3)
    script.sees()
    script.says("a", 3, TopicPartitions=script.rows(u=[0, 1]))
    script.says("a", 5, RebalanceTimeoutMs=500)
    script.joins("b", ["u"])
    script.says("a", 5)
    script.side.pass_ms(1_500)
    script.sees()
    script.says("a", 5)
    script.says("b", 6)
    script.sees()


def patterns(script: Script) -> None:
    """A bad pattern is refused. A good one may need another heartbeat, so that is not compared."""
    script.joins("a")
    response = script.side.heartbeat(
        1,
        {
            "GroupId": script.group,
            "MemberId": "a",
            "MemberEpoch": 2,
            "SubscribedTopicRegex": "a(",
        },
    )
    text = response["ErrorMessage"]
    script.heard.append((response["ErrorCode"], text[: text.index(":")]))
    script.says("a", 2)


SCRIPTS = (join_and_leave, epochs, wrong_requests, static_members, subscriptions, patterns)


def kafkas_responses(script: Callable[[Script], None]) -> list[Any]:
    """Returns the recorded responses of a real Kafka."""
    found: list[Any] = json.loads(RECORDED.read_text(encoding="utf-8"))[script.__name__]
    return found


def plain(heard: list[Any]) -> list[Any]:
    """Converts responses as JSON would."""
    found: list[Any] = json.loads(json.dumps(heard))
    return found
