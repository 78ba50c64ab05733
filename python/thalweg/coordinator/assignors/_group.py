"""What built-in assignors work on: topics and members, in the order in which Java sees them."""

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
        topics: {topic: its partition count}; only topics that have partitions.
        members: {member id: member}.
        racks: {partition: racks of its replicas}, of all partitions.
    """

    topics: dict[str, int]
    members: dict[str, Member]
    racks: dict[TopicPartition, frozenset[str]]

    @classmethod
    def of(cls, cluster: Cluster, members: Sequence[Member]) -> "Group":
        """The group, in Java's order."""
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
        """Static members by their instance ids, then the others by their member ids."""
        return sorted(self.members.values(), key=_rank)


def _rank(member: Member) -> tuple[bool, bytes]:
    instance = member.group_instance_id
    return instance is None, text_order(member.member_id if instance is None else instance)


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """The partitions of a topic by number."""
    return [TopicPartition(topic, number) for number in range(count)]


class BuiltInAssignor(AbstractPartitionAssignor):
    """The half that Java's assignors have in common; `assign_group` is what they differ in."""

    @abstractmethod
    def assign_group(self, group: Group) -> Assigned:
        """{member id: its partitions}, with an entry for every member."""

    def user_data(self) -> bytes | None:
        """What this assignor adds to the subscription of its member."""
        return None

    def assign(self, cluster: Cluster, members: Sequence[Member]) -> dict[str, Assignment]:
        """{member id: its assignment}."""
        if not members:
            return {}
        assigned = self.assign_group(Group.of(cluster, members))
        return {each: Assignment(VERSION_MAX, found) for each, found in assigned.items()}

    def metadata(self, topics: Iterable[str]) -> Subscription:
        """This member's topics and user data."""
        return Subscription(VERSION_MAX, sorted(topics), self.user_data())

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Nothing that an assignor without memory would keep."""
