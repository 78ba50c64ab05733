"""`Held`: an object of the application within settings that are compared and hashed."""

from typing import Any

__all__ = ["Held"]


class Held:
    """An object of the application, such as its credentials. Two are equal if they hold the same.

    The object itself may have no hash, or methods that raise an error with a secret in its frames.

    Attributes:
        value: The object.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
