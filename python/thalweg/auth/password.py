"""`PasswordSource`: calls the application's function that supplies the password of SASL.

    core ── request(reply) ──> a worker's thread ──> function() ──> reply.password()

Like a token provider, the function never runs in the thread that does the I/O of the clients.
"""

from collections.abc import Callable
from typing import Any, Protocol

from thalweg.auth.worker import Workers

__all__ = ["PasswordSource"]

_NAME = "the function in sasl_plain_password"


class Reply(Protocol):
    """What takes an answer: `_core.PasswordReply`."""

    def password(self, value: str) -> None: ...

    def failed(self, reason: str, error: BaseException) -> None: ...


class PasswordSource:
    """Calls a function in threads of its own, once for each authentication."""

    def __init__(self, function: Callable[[], Any]) -> None:
        """Takes a function that returns a str, or an object with `reveal()`."""
        self._workers = Workers(_NAME, lambda: _text(function()), _give, _reason)

    def request(self, reply: Reply) -> None:
        """Starts to get the password, and returns at once. The core calls it.

        Raises:
            RuntimeError: If too many calls hang.
        """
        self._workers.start(reply)


def _text(given: Any) -> str:
    text = given.reveal() if hasattr(given, "reveal") else given
    if not isinstance(text, str):
        raise TypeError(f"{_NAME} must return a str, not {type(text).__name__}")
    return text


def _give(reply: Reply, password: str) -> None:
    reply.password(password)


def _reason(error: BaseException) -> str:
    # The text of the exception is left out: it may contain the password.
    return f"{_NAME} raised {type(error).__name__}"
