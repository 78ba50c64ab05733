"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.serializer import JsonSerializer

__all__ = ["JsonSerializer"]
