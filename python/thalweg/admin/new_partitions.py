"""The new numbers of partitions, for `create_partitions`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg._client.arguments import shown

__all__ = ["NewPartitions"]

EXPECTED: Final = "{topic: total count or NewPartitions}"


class NewPartitions:
    """The new number of partitions of a topic, for `create_partitions`.

    Args:
        total_count: The new number of partitions, including the existing ones.
        new_assignments: For each new partition, the node IDs of its replicas. None: the controller
            chooses.
    """

    def __init__(
        self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


def new_partitions(name: str, given: Any) -> dict[str, Any]:
    """Returns a topic of the request; `given` is a value of `create_partitions`' mapping."""
    if isinstance(given, int):
        given = NewPartitions(given)
    elif isinstance(given, Mapping):
        given = NewPartitions(given["count"], given.get("assignments"))
    if not (hasattr(given, "total_count") and hasattr(given, "new_assignments")):
        raise TypeError(
            f"topic_partitions must be {EXPECTED}, but the value of {name!r} is {shown(given)}"
        )
    assignments = given.new_assignments
    return {
        "Name": name,
        "Count": given.total_count,
        "Assignments": None
        if assignments is None
        else [{"BrokerIds": list(nodes)} for nodes in assignments],
    }
