"""The member's side of assignors: what they add to JoinGroup, and how the leader has one decide."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from thalweg.coordinator.protocol import VERSION_MAX, Assignment, Subscription
from thalweg.errors import KafkaConfigurationError, KafkaError
from thalweg.structs import TopicPartition

__all__ = ["Assignor", "Assignors", "GroupTopics", "JoinedMember"]

_COOPERATIVE = 1  # RebalanceProtocol.COOPERATIVE


class Assignor(Protocol):
    """What is used of an assignor; `assignors.abstract` says more."""

    @property
    def name(self) -> str:
        """The name by which members agree on it."""

    def assign(self, cluster: Any, members: Any) -> Mapping[str, Any]:
        """{member id: its assignment}."""

    def metadata(self, topics: set[str]) -> Any:
        """What a member says of itself."""

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """What this member was given."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    metadata: Subscription
    group_instance_id: str | None = None


class GroupTopics:
    """The topics of a group, as assignors may ask about them (kafka-python's ClusterMetadata)."""

    def __init__(
        self, partitions: Mapping[str, int], racks: Mapping[TopicPartition, frozenset[str]]
    ) -> None:
        """Takes each topic's number of partitions, and the racks of their replicas."""
        self._partitions = dict(partitions)
        self._racks = {each: racks[each] for each in sorted(racks) if each.topic in partitions}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupTopics):
            return NotImplemented
        return (self._partitions, self._racks) == (other._partitions, other._racks)

    __hash__ = None  # type: ignore[assignment]

    def only(self, topics: Iterable[str]) -> "GroupTopics":
        """The same for some of the topics."""
        chosen = {each: self._partitions[each] for each in sorted(topics) if each in self}
        return GroupTopics(chosen, self._racks)

    def __contains__(self, topic: object) -> bool:
        return topic in self._partitions

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """All topics that exist."""
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """All partition ids; None if the topic does not exist."""
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The same: leaders do not matter here."""
        return self.partitions_for_topic(topic)

    def replica_racks(self, partition: TopicPartition) -> frozenset[str]:
        """The racks of a partition's replicas."""
        return self._racks.get(partition, frozenset())


class Assignors:
    """The assignors of a member, the preferred one first.

    Attributes:
        cooperative: Whether all of them can do cooperative rebalances (KIP-429). With one that
            cannot, the member is an eager one, whichever the group chooses.
    """

    def __init__(self, assignors: Sequence[Assignor]) -> None:
        """Takes at least one.

        Raises:
            KafkaConfigurationError: If there is none, or two have the same name.
        """
        self._by_name = {each.name: each for each in assignors}
        if not assignors or len(self._by_name) < len(assignors):
            raise KafkaConfigurationError("assignors are needed, each with a name of its own")
        self.cooperative = all(_COOPERATIVE in _protocols_of(each) for each in assignors)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def said(
        self,
        topics: frozenset[str],
        owned: Iterable[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> list[dict[str, Any]]:
        """The Protocols of a JoinGroup request.

        Raises:
            KafkaError: If an assignor raises; its exception is the cause.
        """
        rows = []
        for name, assignor in self._by_name.items():
            with _blamed(name):
                user_data = assignor.metadata(set(topics)).user_data
            subscription = Subscription(
                VERSION_MAX,
                sorted(topics),
                user_data,
                sorted(owned),
                generation,
                rack or None,
            )
            rows.append({"Name": name, "Metadata": subscription.encode()})
        return rows

    def decide(
        self, name: str, topics: GroupTopics, members: Sequence[JoinedMember]
    ) -> list[dict[str, Any]]:
        """The Assignments of the leader's SyncGroup request: a row for each member.

        Raises:
            KafkaError: If the assignor raises.
        """
        with _blamed(name):
            given = self._by_name[name].assign(topics, list(members))
            return [
                {"MemberId": each.member_id, "Assignment": _encoded(given.get(each.member_id))}
                for each in members
            ]

    def tell(self, name: str, assignment: Assignment, generation: int) -> None:
        """Tells the chosen assignor what this member was given.

        Raises:
            KafkaError: If the assignor raises.
        """
        with _blamed(name):
            self._by_name[name].on_assignment(assignment, generation)


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Assignors may be the user's own code."""
    try:
        yield
    except Exception as error:
        raise KafkaError(f"the assignor {name!r} raised {error!r}") from error


def _protocols_of(assignor: Assignor) -> Sequence[int]:
    supported = getattr(assignor, "supported_protocols", None)
    return [] if supported is None else list(supported())


def _encoded(assignment: Any) -> bytes:
    """The bytes of an assignment, whose partitions may be rows (topic, [ids]) as well."""
    if assignment is None:
        return Assignment(VERSION_MAX, []).encode()
    flat: list[TopicPartition] = []
    for topic, ids in assignment.assigned_partitions:
        numbers = [ids] if isinstance(ids, int) else ids
        flat += [TopicPartition(topic, each) for each in numbers]
    return Assignment(assignment.version, flat, assignment.user_data).encode()
