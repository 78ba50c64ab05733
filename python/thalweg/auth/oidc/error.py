"""`OidcError`, and how to show what an identity provider wrote."""

from thalweg.auth.token import TokenProviderError

__all__ = ["Failure", "OidcError", "shown"]

_CHARS_MAX = 200


class Failure:
    """Why a request has failed. A value instead of an exception, which would keep frames.

    Attributes:
        text: What failed and why, without a secret.
        status: The status of HTTP, or None without a response.
        code: OAuth's error code, such as "invalid_client", or None.
        retriable: Whether another request may succeed.
        pause_s: How long the identity provider wants the client to wait, or None.
    """

    __slots__ = ("code", "pause_s", "retriable", "status", "text")

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retriable: bool = False,
        pause_s: float | None = None,
    ) -> None:
        self.text, self.status, self.code = text, status, code
        self.retriable, self.pause_s = retriable, pause_s


class OidcError(TokenProviderError):
    """The identity provider has supplied no token. The text contains no secret.

    Attributes:
        status: The HTTP status of the response. None: the identity provider did not respond.
        error: OAuth's error code, such as "invalid_client". None: the response has none.
    """

    def __init__(self, text: str, status: int | None = None, error: str | None = None) -> None:
        super().__init__(text, status, error)
        self.status, self.error = status, error

    def __str__(self) -> str:
        return str(self.args[0])


def shown(text: str) -> str:
    """Returns a foreign text for a message: cut, and without control characters."""
    cut = text if len(text) <= _CHARS_MAX else text[:_CHARS_MAX] + "..."
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut
    )
