"""What an assignor is (kafka-python's abstract class, Java's ConsumerPartitionAssignor)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(ABC):
    """Base class of assignors; runs at the leader of a group."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which members agree on an assignor."""

    @abstractmethod
    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """{member id: its assignment}, out of {member id: its subscription}."""

    @abstractmethod
    def metadata(self, topics: set[str]) -> Any:
        """What this member says of itself when it joins."""

    @abstractmethod
    def on_assignment(self, assignment: Any) -> None:
        """Called with this member's own assignment."""
