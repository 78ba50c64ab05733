"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.admin.partitions import NewPartitions

__all__ = ["NewPartitions"]
