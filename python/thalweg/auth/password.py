"""`PasswordSource`: calls the application's function that supplies the password of SASL.

    core ── request(reply) ──> a thread ──> function() ──> reply.password()

Like a token provider, the function never runs in the thread that does the I/O of the clients.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

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
        self._function = function

    def request(self, reply: Reply) -> None:
        """Starts to get the password, and returns at once. The core calls it."""
        threading.Thread(
            target=self._answer, args=(reply,), name="thalweg-password", daemon=True
        ).start()

    def _answer(self, reply: Reply) -> None:
        try:
            given = self._function()
            text = given.reveal() if hasattr(given, "reveal") else given
            if not isinstance(text, str):
                raise TypeError(f"{_NAME} must return a str, not {type(text).__name__}")
            reply.password(text)
        except BaseException as error:
            # The text of the exception is left out: it may contain the password.
            reply.failed(f"{_NAME} raised {type(error).__name__}", error)
