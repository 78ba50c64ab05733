"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.consumer import KafkaConsumer

__all__ = ["KafkaConsumer"]
