"""The input of the built-in assignors, topics and members in Java's order, and their base class."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from thalweg.coordinator.assignors._java_order import text_order, texts_in_hash_order
from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor, Cluster, Member
from thalweg.coordinator.protocol import VERSION_MAX, Assignment, Subscription
from thalweg.structs import TopicPartition

Assigned = dict[str, list[TopicPartition]]


class Group(NamedTuple):
    """A group whose partitions are to be assigned.

    Attributes:
        topics: {topic: number of partitions}, only of topics that have partitions.
        members: {member id: member}.
        racks: {partition: racks of its replicas}, for all partitions.
    """

    topics: dict[str, int]
    members: dict[str, Member]
    racks: dict[TopicPartition, frozenset[str]]

    @classmethod
    def of(cls, cluster: Cluster, members: Sequence[Member]) -> "Group":
        """Creates the group, in Java's order."""
        by_id = {each.member_id: each for each in members}
        ordered = {each: by_id[each] for each in texts_in_hash_order(by_id)}
        wanted = [topic for each in ordered.values() for topic in each.metadata.topics]
        counts = {
            topic: len(cluster.partitions_for_topic(topic) or ())
            for topic in texts_in_hash_order(wanted)
        }
        topics = {
            topic: counts[topic] for topic in texts_in_hash_order(t for t in counts if counts[t])
        }
        racks_of = getattr(cluster, "replica_racks", None)
        racks = {
            each: frozenset(() if racks_of is None else racks_of(each))
            for topic, count in topics.items()
            for each in partitions_of(topic, count)
        }
        return cls(topics, ordered, racks)

    def sorted_members(self) -> list[Member]:
        """Returns static members by instance id, then the other members by member id."""
        return sorted(self.members.values(), key=_rank)


def _rank(member: Member) -> tuple[bool, bytes]:
    instance = member.group_instance_id
    return instance is None, text_order(member.member_id if instance is None else instance)


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """Returns the partitions of a topic, in order."""
    return [TopicPartition(topic, number) for number in range(count)]


class BuiltInAssignor(AbstractPartitionAssignor):
    """Base class of the built-in assignors. They differ in `assign_group`."""

    @abstractmethod
    def assign_group(self, group: Group) -> Assigned:
        """Returns {member id: its partitions}, with an entry for every member."""

    def user_data(self) -> bytes | None:
        """Returns the data that this assignor adds to its member's subscription."""
        return None

    def assign(self, cluster: Cluster, members: Sequence[Member]) -> dict[str, Assignment]:
        """Returns {member id: its assignment}."""
        if not members:
            return {}
        assigned = self.assign_group(Group.of(cluster, members))
        return {each: Assignment(VERSION_MAX, found) for each, found in assigned.items()}

    def metadata(self, topics: Iterable[str]) -> Subscription:
        """Returns this member's topics and user data."""
        return Subscription(VERSION_MAX, sorted(topics), self.user_data())

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Does nothing: this assignor keeps no state."""
