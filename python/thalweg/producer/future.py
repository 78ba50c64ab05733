"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.producer import FutureRecordMetadata, RecordMetadata

__all__ = ["FutureRecordMetadata", "RecordMetadata"]
