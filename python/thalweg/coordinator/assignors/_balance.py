"""Moves partitions from members with more to members with fewer, while that helps."""

from collections.abc import Mapping, Sequence, Set

from thalweg.coordinator.assignors._group import partitions_of
from thalweg.coordinator.assignors._holdings import Holdings
from thalweg.coordinator.assignors._movements import Movements
from thalweg.structs import TopicPartition


class Balance:
    """The balancing of one assignment.

    Args:
        holdings: The partitions of the members that take part in the balancing.
        topics: {topic: number of partitions}.
        wanted: {member id: topics that it wants}.
        wanting: {topic: members that want it}.
        before: {partition: its owner before the current one}.
    """

    def __init__(
        self,
        holdings: Holdings,
        topics: Mapping[str, int],
        wanted: Mapping[str, Set[str]],
        wanting: Mapping[str, Set[str]],
        before: Mapping[TopicPartition, str],
    ) -> None:
        self._holdings = holdings
        self._topics = topics
        self._wanted = wanted
        self._wanting = wanting
        self._before = before
        self._most_possible = {
            each: sum(topics[topic] for topic in found) for each, found in wanted.items()
        }
        self._movements = Movements()
        # Moves so far that made nothing fairer.
        self._vain: set[tuple[TopicPartition, str]] = set()
        self._balanced: bool | None = None  # None: unknown, as something has moved

    def run(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves these partitions repeatedly while that helps. Returns whether any moved."""
        moved_ever = False
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = moved_ever = True
        return moved_ever

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Returns a better owner: the owner before, or else the member with the fewest."""
        size = self._holdings.size
        limit = size(self._holdings.owner[partition]) - 1
        wanting = self._wanting[partition.topic]
        before = self._before.get(partition)
        if before is not None and self._may_have(before, partition) and size(before) < limit:
            return before
        if any(size(each) < limit for each in wanting):
            return next(each for each in self._holdings.by_size() if each in wanting)
        return None

    def _may_have(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member wants the topic. Java does not check this for the owner before."""
        return member in self._wanting[partition.topic]

    def _move(self, partition: TopicPartition, target: str) -> None:
        owner, size = self._holdings.owner, self._holdings.size
        moving = self._movements.to_move(partition, owner[partition], target)
        if size(owner[moving]) - 1 <= size(target):
            # This move makes nothing fairer, but Java makes it, too. If it could happen again, the
            # same two partitions might move back and forth forever. So it happens only once.
            if (moving, target) in self._vain:
                moving = partition
            else:
                self._vain.add((moving, target))
        self._movements.note(moving, owner[moving], target)
        self._holdings.give(moving, target)
        self._balanced = None

    def _is_balanced(self) -> bool:
        if self._balanced is None:
            self._balanced = self._find_balanced()
        return self._balanced

    def _find_balanced(self) -> bool:
        """Whether no member could take a partition from an owner with at least two more."""
        holdings = self._holdings
        if holdings.least() >= holdings.most() - 1:
            return True
        sizes: dict[str, int] = {}
        for member in holdings.by_size():
            if holdings.size(member) == self._most_possible[member]:
                continue
            for topic in self._wanted[member]:
                if topic not in sizes:
                    sizes[topic] = self._most_of_owners(topic)
                if holdings.size(member) + 1 < sizes[topic]:
                    return False
        return True

    def _most_of_owners(self, topic: str) -> int:
        """Returns the largest number of partitions that an owner in this topic has."""
        owners = {
            self._holdings.owner.get(each) for each in partitions_of(topic, self._topics[topic])
        }
        return max(self._holdings.size(each) for each in owners if each is not None)
