"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg._core import ConsumerRecord

__all__ = ["ConsumerRecord"]
