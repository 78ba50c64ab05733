"""`Secret`: the value of an option that nothing shows."""

from typing import Any, NoReturn, Self, final

__all__ = ["Secret", "hidden", "revealed"]


@final
class Secret:
    """A password or another secret text, which no repr, log or traceback shows.

        KafkaProducer(sasl_plain_password=Secret(read_password()), ...)

    You may give one in place of a str to every option that holds a secret. The clients keep the
    secrets of their configuration as such objects, also if you give a str.

    Two are equal if their texts are. A secret is never equal to a str, and cannot be pickled.

    Raises:
        TypeError: If the text is not a str.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Takes the text."""
        if not isinstance(text, str):
            raise TypeError(f"a secret must be a str, not {type(text).__name__}")
        self._text = text

    def reveal(self) -> str:
        """Returns the text."""
        return self._text

    def __repr__(self) -> str:
        return "<hidden>"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled. Read the text again in the other process")


def hidden(value: Any) -> Secret:
    """Hides a value of any type. If the type is wrong, a check will refuse it."""
    secret = Secret("")
    secret._text = value
    return secret


def revealed(value: Any) -> Any:
    """Returns the text of a Secret, and any other value unchanged."""
    return value.reveal() if isinstance(value, Secret) else value
