"""`Held`, which lets settings with an object of the application be compared and hashed."""

from typing import Any

__all__ = ["Held"]


class Held:
    """Holds an object of the application, such as its credentials.

    Two `Held` are equal if they hold the same object. They never call its `__eq__` or `__hash__`:
    it may have no hash, or raise an error whose frames contain a secret.

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
