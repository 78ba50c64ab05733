"""The broker of a world: one group, and what Rust does for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.coordinator.kip848.connection import Clock
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
from thalweg.coordinator.kip848.roster import ConsumerGroupMember
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.steps import Arrived, Publish, Reply, SessionExpired, Ticked, TopicsChanged
from thalweg.errors import NotCoordinatorError, StaleMemberEpochError, UnknownMemberIdError

JOIN = 0  # the epoch of a member that joins
AWAY = -2  # the epoch of a static member that leaves for a while

# The fields of a heartbeat whose response does not need the group.
_PLAIN = {"GroupId", "MemberId", "MemberEpoch", "InstanceId"}
# The schema's defaults, which the codec would set.
_DEFAULTS: dict[str, Any] = {
    "InstanceId": None,
    "RackId": None,
    "RebalanceTimeoutMs": -1,
    "SubscribedTopicNames": None,
    "SubscribedTopicRegex": None,
    "ServerAssignor": None,
    "TopicPartitions": None,
}


def filled(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a heartbeat as the codec decodes it."""
    return _DEFAULTS | dict(body)


class Broker:
    """One group, and what Rust does for it: sessions, plain heartbeats, commits."""

    def __init__(self, clock: Clock, topics: dict[str, int], settings: ConsumerGroupSettings):
        self.clock = clock
        self.topics = dict(topics)
        self.ids = {name: f"id-{name}" for name in topics}
        self.group = self._new_group(settings)
        self.settings = settings
        self.view: dict[str, Any] = {"members": {}}
        self.deadlines: dict[str, float] = {}
        self.away_until = 0.0
        self.away_code = NotCoordinatorError.errno
        self.asked = 0  # heartbeats that reached the group
        self.watchers: list[Callable[[], None]] = []

    def _new_group(self, settings: ConsumerGroupSettings) -> ConsumerGroup:
        return ConsumerGroup("g", settings, lambda: "made", self.topics_changed())

    def topics_changed(self) -> TopicsChanged:
        return TopicsChanged(dict(self.topics), {}, dict(self.ids))

    def heartbeat(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.clock.now < self.away_until:
            return self._said(self.away_code)
        member = self.view["members"].get(body["MemberId"])
        if member is not None and body["MemberEpoch"] >= 0:
            self._watch(body["MemberId"])
        epoch = body["MemberEpoch"]
        plain = body.keys() <= _PLAIN and member is not None and epoch == member["epoch"]
        if plain and member["heartbeat"] == 0 and body["InstanceId"] == member["instance_id"]:
            return self._said(0, body["MemberId"], epoch)
        self.asked += 1
        event = Arrived(1, "ConsumerGroupHeartbeat", 1, filled(body), "client", "/host")
        returns = Return.of(self.group, body)
        response = self.step(event)
        assert response is not None
        if returns is not None:
            returns.check(self.group, response)
        if response["ErrorCode"] == 0 and response["MemberEpoch"] > 0:
            self._watch(response["MemberId"])
        return response

    def _said(self, code: int, member_id: str | None = None, epoch: int = 0) -> dict[str, Any]:
        return {
            "ErrorCode": code,
            "ErrorMessage": None,
            "MemberId": member_id,
            "MemberEpoch": epoch,
            "HeartbeatIntervalMs": self.settings.heartbeat_interval_ms,
            "Assignment": None,
        }

    def commit(self, member_id: str, epoch: int, partitions: frozenset[IdPartition]) -> int:
        """Returns the error code of a commit, decided by the view (KIP-1251)."""
        if self.clock.now < self.away_until:
            return self.away_code
        member = self.view["members"].get(member_id)
        if member is None:
            return UnknownMemberIdError.errno
        names = {topic_id: name for name, topic_id in self.ids.items()}
        epochs = member["assignment_epochs"]

        def is_good(topic_id: str, partition: int) -> bool:
            assigned_at = epochs.get(names.get(topic_id), {}).get(partition)
            return assigned_at is not None and assigned_at <= epoch <= member["epoch"]

        good = epoch == member["epoch"] or all(is_good(*each) for each in partitions)
        return 0 if good else StaleMemberEpochError.errno

    def go_away(self, ms: float, code: int) -> None:
        """Moves the coordinator: the new one loads the group's state, and sessions restart."""
        self.away_until, self.away_code = self.clock.now + ms, code
        for member_id in self.deadlines:
            self._watch(member_id, ms)

    def change_topics(self, topics: dict[str, int], ids: dict[str, str] | None = None) -> None:
        self.topics = dict(topics)
        self.ids = ids or {name: self.ids.get(name, f"id-{name}") for name in topics}
        self.step(self.topics_changed())

    def step(self, event: Any) -> dict[str, Any] | None:
        reply = None
        for action in self.group.step(event, self.clock.now):
            match action:
                case Publish(view=view):
                    assert view != self.view
                    self.view = view
                    gone = self.deadlines.keys() - view["members"].keys()
                    self.deadlines = {k: v for k, v in self.deadlines.items() if k not in gone}
                case Reply(body=body):
                    reply = body
        deadline = self.group.next_deadline()
        if deadline is not None:
            self.clock.at(deadline, self._tick)
        for watcher in self.watchers:
            watcher()
        return reply

    def _tick(self) -> None:
        deadline = self.group.next_deadline()
        if deadline is not None and deadline <= self.clock.now:
            self.step(Ticked())

    def _watch(self, member_id: str, longer_ms: float = 0.0) -> None:
        deadline = self.clock.now + self.settings.session_timeout_ms + longer_ms
        self.deadlines[member_id] = deadline

        def expire() -> None:
            if self.deadlines.get(member_id) == deadline:
                del self.deadlines[member_id]
                self.step(SessionExpired(member_id))

        self.clock.at(deadline, expire)


@dataclass
class Return:
    """A static member returns within its session, and no other member may notice (KIP-345).

    Attributes:
        old_id: The ID of the member that left for a while.
        epoch: The group's epoch.
        target: Its partitions in the target assignment.
        others: The other members, with their partitions.
    """

    old_id: str
    epoch: int
    target: frozenset[IdPartition]
    others: dict[str, ConsumerGroupMember]

    @classmethod
    def of(cls, group: ConsumerGroup, body: Mapping[str, Any]) -> Return | None:
        """Returns a Return if the heartbeat is one and no assignment is due anyway."""
        instance_id = body.get("InstanceId")
        if instance_id is None or body["MemberEpoch"] != JOIN:
            return None
        left, due = group.roster.static(instance_id), group.epoch > group.assignment_epoch
        if left is None or left.current.epoch != AWAY or due:
            return None
        if set(body["SubscribedTopicNames"]) != left.topics:
            return None
        target = group.roster.targets.get(left.member_id, frozenset())
        return cls(left.member_id, group.epoch, target, cls._but(group, left.member_id))

    @staticmethod
    def _but(group: ConsumerGroup, member_id: str) -> dict[str, ConsumerGroupMember]:
        return {key: each for key, each in group.roster.members.items() if key != member_id}

    def check(self, group: ConsumerGroup, response: Mapping[str, Any]) -> None:
        """Checks the group after the heartbeat."""
        assert response["ErrorCode"] == 0, response
        assert group.epoch == group.assignment_epoch == self.epoch
        assert group.roster.targets.get(response["MemberId"], frozenset()) == self.target
        assert self._but(group, response["MemberId"]) == self.others
