"""The version that a client is to infer."""

__all__ = ["BrokerVersionData"]


class BrokerVersionData:
    """Versions count to their second number, as in kafka-python's table since 1.0."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self.broker_version = version[:2]
