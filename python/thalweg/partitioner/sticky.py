"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.partitioner import StickyPartitioner

__all__ = ["StickyPartitioner"]
