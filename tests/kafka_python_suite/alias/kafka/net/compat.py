"""kafka-python's client of single requests, which thalweg does not have."""

from typing import Any

__all__ = ["KafkaNetClient"]


class KafkaNetClient:
    """A class without instances."""

    def __init__(self, **_: Any) -> None:
        raise NotImplementedError("requests are internal to thalweg")
