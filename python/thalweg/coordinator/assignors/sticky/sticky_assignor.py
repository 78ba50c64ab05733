"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.coordinator.assignors.sticky import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
