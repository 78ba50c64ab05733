"""Who reads which partition: the assignors of the classic group protocol.

The built-in ones come with group membership; a custom one derives from
`AbstractPartitionAssignor`.
"""

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
