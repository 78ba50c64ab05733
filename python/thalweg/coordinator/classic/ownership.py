"""The partitions that the application has, and what it is to be told when that changes.

An eager member gives all up before it joins a rebalance; a cooperative one (KIP-429) keeps all
and gives up, afterwards, what the new assignment lacks.
"""

from collections.abc import Iterable

from thalweg.coordinator.steps import Assign, AutoCommit, Lose, MemberAction, Revoke
from thalweg.structs import TopicPartition

__all__ = ["Ownership"]


class Ownership:
    """Each method changes `partitions` and returns the callbacks that go with it.

    Attributes:
        partitions: In order.
        cooperative: Which of the two ways it goes.
    """

    def __init__(self, cooperative: bool) -> None:
        self.partitions: tuple[TopicPartition, ...] = ()
        self.cooperative = cooperative

    def before_join(self, topics: frozenset[str]) -> list[MemberAction]:
        """Gives up what does not stay through a rebalance; an eager member is always told."""
        kept = tuple(each for each in self.partitions if self.cooperative and each.topic in topics)
        stays = set(kept)
        revoked = tuple(each for each in self.partitions if each not in stays)
        self.partitions = kept
        if self.cooperative and not revoked:
            return []
        return [AutoCommit(), Revoke(revoked)]

    def assigned(self, partitions: Iterable[TopicPartition]) -> list[MemberAction]:
        """After a rebalance: what is there now, and what goes and comes."""
        old, new = set(self.partitions), set(partitions)
        self.partitions = tuple(sorted(new))
        assign = Assign(self.partitions, tuple(sorted(new - old)))
        revoked = tuple(sorted(old - new))
        return [AutoCommit(), Revoke(revoked), assign] if revoked else [assign]

    def given_up(self, lost: bool) -> list[MemberAction]:
        """All of them; lost if nothing can be committed for them any more."""
        gone, self.partitions = self.partitions, ()
        if not gone:
            return []
        return [Lose(gone)] if lost else [AutoCommit(), Revoke(gone)]
