"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.admin.topics import NewTopic

__all__ = ["NewTopic"]
