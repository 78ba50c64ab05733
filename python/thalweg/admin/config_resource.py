"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.admin.configs import ConfigResource, ConfigResourceType

__all__ = ["ConfigResource", "ConfigResourceType"]
