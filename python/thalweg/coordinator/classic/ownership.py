"""The partitions that the application owns, and the callbacks when they change.

An eager member gives up all partitions before it joins a rebalance. A cooperative member (KIP-429)
keeps them, and after the rebalance gives up those that the new assignment lacks.
"""

from collections.abc import Iterable

from thalweg.coordinator.steps import Assign, AutoCommit, Lose, MemberAction, Revoke
from thalweg.structs import TopicPartition

__all__ = ["Ownership"]


class Ownership:
    """The owned partitions. Each method changes them and returns the callbacks for the change.

    Attributes:
        partitions: The owned partitions, sorted.
        cooperative: Whether the member is cooperative.
    """

    def __init__(self, cooperative: bool) -> None:
        self.partitions: tuple[TopicPartition, ...] = ()
        self.cooperative = cooperative

    def before_join(self, topics: frozenset[str]) -> list[MemberAction]:
        """Gives up partitions before a rebalance. An eager member always gets the callback."""
        kept = tuple(each for each in self.partitions if self.cooperative and each.topic in topics)
        stays = set(kept)
        revoked = tuple(each for each in self.partitions if each not in stays)
        self.partitions = kept
        if self.cooperative and not revoked:
            return []
        return [AutoCommit(), Revoke(revoked)]

    def assigned(self, partitions: Iterable[TopicPartition]) -> list[MemberAction]:
        """Takes the assignment of a rebalance. Returns callbacks for revoked and new partitions."""
        old, new = set(self.partitions), set(partitions)
        self.partitions = tuple(sorted(new))
        assign = Assign(self.partitions, tuple(sorted(new - old)))
        revoked = tuple(sorted(old - new))
        return [AutoCommit(), Revoke(revoked), assign] if revoked else [assign]

    def given_up(self, lost: bool) -> list[MemberAction]:
        """Gives up all partitions. `lost`: their offsets can no longer be committed."""
        gone, self.partitions = self.partitions, ()
        if not gone:
            return []
        return [Lose(gone)] if lost else [AutoCommit(), Revoke(gone)]
