"""A member's assignors by name: their part of JoinGroup, and the assignment by the leader."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thalweg.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    Member,
    RebalanceProtocol,
)
from thalweg.coordinator.assignors.calls import assigning, joining
from thalweg.coordinator.assignors.registry import common_protocol
from thalweg.coordinator.assignors.topics import TopicsOfGroup
from thalweg.coordinator.protocol import Assignment
from thalweg.errors import KafkaError
from thalweg.structs import TopicPartition

__all__ = ["Assignors"]


class Assignors:
    """The assignors of a member, the preferred one first.

    Attributes:
        cooperative: Whether all of them support cooperative rebalances (KIP-429). If one does not,
            the member is eager, whichever assignor the group chooses.
    """

    def __init__(self, assignors: Sequence[AbstractPartitionAssignor]) -> None:
        """Takes the result of `registry.resolved`.

        Raises:
            KafkaConfigurationError: If they have no rebalance protocol in common.
        """
        self._by_name = {each.name: each for each in assignors}
        self._protocol = common_protocol(assignors)
        self.cooperative = self._protocol is RebalanceProtocol.COOPERATIVE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the assignors, the preferred one first."""
        return tuple(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def said(
        self,
        topics: frozenset[str],
        owned: Iterable[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> list[dict[str, Any]]:
        """Returns the Protocols of a JoinGroup request.

        Raises:
            KafkaError: If an assignor raises. Its exception is the cause.
        """
        rows = []
        for name, assignor in self._by_name.items():
            with _blamed(name):
                metadata = joining(assignor, topics, owned, generation, rack)
            rows.append({"Name": name, "Metadata": metadata})
        return rows

    def decide(
        self, name: str, topics: TopicsOfGroup, members: Sequence[Member]
    ) -> list[dict[str, Any]]:
        """Returns the Assignments of the leader's SyncGroup request, a row for each member.

        Raises:
            KafkaError: If the assignor raises.
        """
        with _blamed(name):
            return assigning(self._by_name[name], topics, members, self._protocol)

    def tell(self, name: str, assignment: Assignment, generation: int) -> None:
        """Passes this member's assignment to the chosen assignor.

        Raises:
            KafkaError: If the assignor raises.
        """
        with _blamed(name):
            self._by_name[name].on_assignment(assignment, generation)


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Names the assignor in the error, because it may be the user's own code."""
    try:
        yield
    except Exception as error:
        raise KafkaError(f"the assignor {name!r} raised {error!r}") from error
