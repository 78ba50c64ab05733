"""The base class of assignors, as in kafka-python (Java's ConsumerPartitionAssignor).

    metadata(topics)                    ──> Subscription       each member, when it joins
    assign(cluster, members)            ──> {id: Assignment}   the leader
    on_assignment(assignment, number)                          each member, when it is assigned

An assignor may keep state between these calls, as the sticky assignors do.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from thalweg.coordinator.protocol import Assignment, Subscription

__all__ = ["AbstractPartitionAssignor", "Cluster", "Member", "RebalanceProtocol"]


class RebalanceProtocol(IntEnum):
    """How members of a group give up partitions (KIP-429).

    Attributes:
        EAGER: A member gives up all partitions before it joins.
        COOPERATIVE: A member gives up only the partitions that its new assignment lacks. Then all
            members join again.
    """

    EAGER = 0
    COOPERATIVE = 1


class Member(NamedTuple):
    """A member, as the leader gets it (kafka-python's JoinGroupResponseMember).

    Attributes:
        member_id: The id from the coordinator.
        metadata: The member's subscription.
        group_instance_id: The id of a static member (KIP-345), else None.
    """

    member_id: str
    metadata: Subscription
    group_instance_id: str | None = None


class Cluster(Protocol):
    """The information about topics that an assignor gets."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Returns all partition IDs, or None if the topic is not known."""


class AbstractPartitionAssignor(ABC):
    """Base class of assignors (`ConsumerPartitionAssignor`)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which members agree on an assignor. It may be a class attribute."""

    def supported_protocols(self) -> Sequence[RebalanceProtocol]:
        """Returns the rebalance protocols that this assignor supports. Default: only EAGER."""
        return [RebalanceProtocol.EAGER]

    @abstractmethod
    def assign(self, cluster: Cluster, members: Sequence[Member]) -> Mapping[str, Assignment]:
        """Assigns the partitions of the group. Only the leader calls it.

        Args:
            cluster: It has the methods `partitions_for_topic`, `topics` and `replica_racks`.
            members: All members, including this one.

        Returns:
            {member ID: its assignment}. A member that is not in it gets no partitions. The
            partitions of an assignment are TopicPartitions, or rows (topic, [partition IDs]).
        """

    @abstractmethod
    def metadata(self, topics: set[str]) -> Subscription:
        """Returns this member's subscription when it joins.

        The consumer sets the owned partitions, the generation and the rack.
        """

    @abstractmethod
    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Called with the new assignment of this member and the generation of the group."""
