"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.partitioner import DefaultPartitioner, murmur2

__all__ = ["DefaultPartitioner", "murmur2"]
