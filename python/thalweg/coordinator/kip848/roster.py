"""The members of a group of KIP-848's protocol, with their partitions and targets.

They are in one class because they change together: a partition is free when no member holds it, and
a returning static member replaces the one that left.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.coordinator.assignors.server import AssignedMember
from thalweg.coordinator.kip848.patterns import PatternError, TopicPattern
from thalweg.coordinator.kip848.reconciliation import Current, Target
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.steps import Arrived

__all__ = ["ConsumerGroupMember", "ConsumerRoster", "Topic", "Visible", "all_are_visible"]

# Says which of the topics with these names a user may describe: (principal, host, names).
Visible = Callable[[str, str, list[str]], Iterable[str]]


def all_are_visible(principal: str, host: str, names: list[str]) -> Iterable[str]:
    """Returns all names, as a broker without an authorizer does."""
    return names


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member (`ConsumerGroupMember`): its fields from heartbeats, and its position.

    Attributes:
        regex: Its pattern. "": none.
        matching: The names of the topics that match the pattern.
        revoke_by: When it is fenced if it has not given up its revoked partitions.
    """

    member_id: str
    client_id: str
    client_host: str
    principal: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    matching: frozenset[str] = frozenset()
    assignor: str | None = None
    current: Current = field(default_factory=Current)
    revoke_by: float | None = None

    @property
    def subscription(self) -> frozenset[str]:
        """All topics that it subscribes to, also those that do not exist."""
        return self.topics | self.matching

    def told(self, request: Arrived) -> "ConsumerGroupMember":
        """Returns the member after a heartbeat. Fields that are null or -1 have not changed."""
        body = request.body
        fields = {
            "instance_id": body["InstanceId"],
            "rack_id": body["RackId"],
            "assignor": body["ServerAssignor"],
            "regex": body.get("SubscribedTopicRegex"),
        }
        changes: dict[str, Any] = {key: each for key, each in fields.items() if each is not None}
        if body["RebalanceTimeoutMs"] != -1:
            changes["rebalance_timeout_ms"] = body["RebalanceTimeoutMs"]
        if body["SubscribedTopicNames"] is not None:
            changes["topics"] = frozenset(body["SubscribedTopicNames"])
        return replace(
            self,
            client_id=request.client_id,
            client_host=request.client_host,
            principal=request.principal,
            **changes,
        )


class ConsumerRoster:
    """The members, their targets, and the existing topics.

    Attributes:
        members: {member id: member}, in the order in which they joined.
        targets: {member id: its partitions in the last assignment}.
        topics: {name: topic}, of all existing topics.
    """

    def __init__(self, topics: Mapping[str, Topic], visible: Visible = all_are_visible) -> None:
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, frozenset[IdPartition]] = {}
        self.topics = dict(topics)
        self._names = _names(topics)
        self._visible = visible
        self._patterns: dict[str, TopicPattern] = {}
        self._holders: dict[IdPartition, str] = {}
        self._static: dict[str, str] = {}

    # ------------------------------------------------------------------ members

    def static(self, instance_id: str) -> ConsumerGroupMember | None:
        """Returns the member with this instance id, also if it is away."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def put(self, member: ConsumerGroupMember) -> None:
        """Adds or replaces a member. A static member replaces the one with its instance id."""
        instance_id = member.instance_id
        if instance_id is not None:
            predecessor = self._static.get(instance_id, member.member_id)
            if predecessor != member.member_id:
                target = self.targets.get(predecessor, frozenset())
                self.remove(predecessor)
                self.targets[member.member_id] = target
            self._free_instance_id(member.member_id)
            self._static[instance_id] = member.member_id
        self._release(member.member_id)
        self.members[member.member_id] = member
        for each in member.current.held:
            self._holders[each] = member.member_id

    def remove(self, member_id: str) -> None:
        """Removes a member. Its partitions become free."""
        self._release(member_id)
        self._free_instance_id(member_id)
        del self.members[member_id]
        self.targets.pop(member_id, None)

    def _free_instance_id(self, member_id: str) -> None:
        before = self.members.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self._static.get(instance_id) == member_id:
            del self._static[instance_id]

    def _release(self, member_id: str) -> None:
        before = self.members.get(member_id)
        for each in before.current.held if before else ():
            if self._holders.get(each) == member_id:
                del self._holders[each]

    def is_free(self, partition: IdPartition, member_id: str) -> bool:
        """Whether no other member holds the partition."""
        return self._holders.get(partition, member_id) == member_id

    # ------------------------------------------------------------------ topics

    def matching(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Returns the existing topics whose complete names match a member's pattern.

        As in Kafka, the pattern does not match topics that the member may not describe.

        Raises:
            PatternError: If it is not a pattern, or takes too long.
        """
        return self._seen_by(member, self._matching(member.regex))

    def _seen_by(self, member: ConsumerGroupMember, names: frozenset[str]) -> frozenset[str]:
        if not names:
            return names
        return frozenset(self._visible(member.principal, member.client_host, sorted(names)))

    def _matching(self, regex: str) -> frozenset[str]:
        if not regex:
            return frozenset()
        pattern = self._patterns.get(regex) or TopicPattern(regex)
        found = pattern.matching(self.topics)
        self._patterns[regex] = pattern
        return found

    def _matching_now(self, regex: str) -> frozenset[str] | None:
        """Matches an accepted pattern again. None: with the current topics it takes too long."""
        try:
            return self._matching(regex)
        except PatternError:
            return None

    def subscribed(self) -> dict[str, Topic]:
        """Returns the existing topics that a member subscribes to."""
        names = {name for member in self.members.values() for name in member.subscription}
        return {name: self.topics[name] for name in sorted(names) if name in self.topics}

    def replace_topics(self, topics: Mapping[str, Topic]) -> bool:
        """Replaces the existing topics. Returns whether the subscribed topics have changed."""
        before = self.subscribed()
        self.topics, self._names = dict(topics), _names(topics)
        used = {member.regex for member in self.members.values()}
        self._patterns = {key: each for key, each in self._patterns.items() if key in used}
        found = {regex: self._matching_now(regex) for regex in used if regex}
        for member in list(self.members.values()):
            if member.regex:
                names = found[member.regex]
                matching = member.matching if names is None else self._seen_by(member, names)
                self.members[member.member_id] = replace(member, matching=matching)
        return self.subscribed() != before

    # ------------------------------------------------------------------ assignment

    def topic_ids(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Returns the ids of the existing topics that a member subscribes to."""
        return frozenset(
            self.topics[name].topic_id for name in member.subscription if name in self.topics
        )

    def assignment_epochs(self, member: ConsumerGroupMember) -> dict[str, dict[int, int]]:
        """Returns {topic: {partition: epoch at which the member got it}}."""
        found: dict[str, dict[int, int]] = {}
        for each, epoch in member.current.epochs.items():
            name = self._names.get(each.topic_id)
            if name is not None:
                found.setdefault(name, {})[each.partition] = epoch
        return found

    def target(self, member: ConsumerGroupMember, epoch: int) -> Target:
        """Returns the target of a member in the assignment of this epoch."""
        partitions = self.targets.get(member.member_id, frozenset())
        return Target(epoch, partitions, self.topic_ids(member))

    def for_assignor(self) -> dict[str, AssignedMember]:
        """Returns the members in the form that assignors take."""
        return {
            member_id: AssignedMember(
                self.topic_ids(member),
                member.instance_id,
                self.targets.get(member_id, frozenset()),
            )
            for member_id, member in self.members.items()
        }


def _names(topics: Mapping[str, Topic]) -> dict[str, str]:
    return {each.topic_id: name for name, each in topics.items()}
