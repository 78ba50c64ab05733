"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.serializer import Deserializer, Serializer

__all__ = ["Deserializer", "Serializer"]
