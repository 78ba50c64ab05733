"""`Secret`: the value of an option that nothing shows."""

from typing import Any, NoReturn, Self, final

__all__ = ["HiddenBytes", "Secret", "hidden", "revealed"]


@final
class Secret:
    """A password or another secret string, which no repr, log or traceback shows.

        KafkaProducer(sasl_plain_password=Secret(read_password()), ...)

    For every option that contains a secret, you may give a Secret instead of a str. If you give a
    str, the client stores it as a Secret.

    Two Secrets are equal if their strings are equal. A Secret is never equal to a str, and cannot
    be pickled.

    Raises:
        TypeError: If the argument is not a str.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Takes the secret string."""
        if not isinstance(text, str):
            raise TypeError(f"a secret must be a str, not {type(text).__name__}")
        self._text = text

    def reveal(self) -> str:
        """Returns the secret string."""
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


class HiddenBytes(bytes):
    """Secret bytes that no traceback shows, because their repr is ``<hidden>``.

    Requests accept them as bytes. A `Secret` cannot be part of a request.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"

    __str__ = __repr__


def hidden(value: Any) -> Secret:
    """Hides a value of any type. If the type is wrong, a check will refuse it."""
    secret = Secret("")
    secret._text = value
    return secret


def revealed(value: Any) -> Any:
    """Returns the text of a Secret, and any other value unchanged."""
    return value.reveal() if isinstance(value, Secret) else value
