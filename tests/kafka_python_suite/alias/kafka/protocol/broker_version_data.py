"""The broker version that a client must infer."""

__all__ = ["BrokerVersionData"]


class BrokerVersionData:
    """Compares versions by two numbers, as in kafka-python's table since 1.0."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self.broker_version = version[:2]
