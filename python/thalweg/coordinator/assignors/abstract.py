"""What an assignor is: kafka-python's abstract class (Java's ConsumerPartitionAssignor).

    metadata(topics)            ──> Subscription       each member, when it joins
    assign(cluster, members)    ──> {id: Assignment}   the leader
    on_assignment(its, number)                         each member, when it was assigned

An assignor may keep what it was told in between, as the sticky ones do.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from thalweg.coordinator.protocol import Assignment, Subscription

__all__ = ["AbstractPartitionAssignor", "Cluster", "Member", "RebalanceProtocol"]


class RebalanceProtocol(IntEnum):
    """How members of a group give partitions up (KIP-429).

    Attributes:
        EAGER: All of them, before joining.
        COOPERATIVE: Those that move, after an assignment without them; then all join again.
    """

    EAGER = 0
    COOPERATIVE = 1


class Member(NamedTuple):
    """A member as the leader sees it (kafka-python's JoinGroupResponseMember).

    Attributes:
        member_id: Given by the coordinator.
        metadata: What the member said of itself.
        group_instance_id: Of a static member (KIP-345), else None.
    """

    member_id: str
    metadata: Subscription
    group_instance_id: str | None = None


class Cluster(Protocol):
    """What an assignor may ask about topics."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """All partition ids; None if the topic is not known."""


class AbstractPartitionAssignor(ABC):
    """Base class of assignors (`ConsumerPartitionAssignor`)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which members agree on an assignor; a plain class attribute will do."""

    def supported_protocols(self) -> Sequence[RebalanceProtocol]:
        """The ways of rebalancing that this assignor can do; the eager one, unless overridden."""
        return [RebalanceProtocol.EAGER]

    @abstractmethod
    def assign(self, cluster: Cluster, members: Sequence[Member]) -> Mapping[str, Assignment]:
        """Decides for the whole group; called at its leader only.

        Args:
            cluster: Has `partitions_for_topic`, `topics` and `replica_racks`.
            members: All members, this one among them.

        Returns:
            {member id: its assignment}; a member that is left out gets nothing. The partitions of
            an assignment are TopicPartitions, or rows (topic, [partition ids]).
        """

    @abstractmethod
    def metadata(self, topics: set[str]) -> Subscription:
        """What this member says of itself when it joins.

        Owned partitions, generation and rack are filled in by the consumer.
        """

    @abstractmethod
    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Called with this member's own assignment and the generation of the group."""
