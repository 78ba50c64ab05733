"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.serializer import DeserializeWrapper, SerializeWrapper

__all__ = ["DeserializeWrapper", "SerializeWrapper"]
