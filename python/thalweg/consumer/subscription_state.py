"""Names of `thalweg` under the module path that kafka-python has for them."""

from thalweg.coordinator.listener import AsyncConsumerRebalanceListener, ConsumerRebalanceListener

__all__ = ["AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"]
