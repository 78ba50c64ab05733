"""The partitions of each member, and the members sorted by their number of partitions."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from thalweg.coordinator.assignors._group import Assigned
from thalweg.coordinator.assignors._java_order import text_order
from thalweg.structs import TopicPartition


class Holdings:
    """The partitions of the members, while they change.

    Attributes:
        assigned: {member id: its partitions}, changed in place.
        owner: {partition: member id}.
    """

    def __init__(self, assigned: Assigned) -> None:
        self.assigned = assigned
        self.owner = {each: member for member, found in assigned.items() for each in found}
        self._order = sorted(self._key(each) for each in assigned)

    def _key(self, member: str) -> tuple[int, bytes, str]:
        return len(self.assigned[member]), text_order(member), member

    def by_size(self) -> Iterator[str]:
        """Returns the members, from the fewest to the most partitions, equal ones by id."""
        return (member for _, _, member in self._order)

    def least(self) -> int:
        """Returns the smallest number of partitions of a member."""
        return self._order[0][0]

    def most(self) -> int:
        """Returns the largest number of partitions of a member."""
        return self._order[-1][0]

    def size(self, member: str) -> int:
        """Returns the number of partitions of a member."""
        return len(self.assigned[member])

    def give(self, partition: TopicPartition, member: str) -> None:
        """Gives a partition to a member, and takes it from its current owner."""
        old = self.owner.get(partition)
        if old is not None:
            self._leave_order(old)
            self.assigned[old].remove(partition)
            insort(self._order, self._key(old))
        self._leave_order(member)
        self.assigned[member].append(partition)
        self.owner[partition] = member
        insort(self._order, self._key(member))

    def _leave_order(self, member: str) -> None:
        del self._order[bisect_left(self._order, self._key(member))]

    def unfairness(self) -> int:
        """Returns the sum of the differences between all pairs of members. 0: all are equal."""
        sizes = [size for size, _, _ in self._order]
        return sum((2 * at - len(sizes) + 1) * size for at, size in enumerate(sizes))
