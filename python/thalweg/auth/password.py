"""`PasswordSource`: calls the application's function that supplies a password.

    core ── request(reply) ──> a worker's thread ──> function() ──> reply.password()

Like a token provider, the function never runs in the thread that does the I/O of the clients.
"""

from collections.abc import Callable
from typing import Any, Protocol

from thalweg.auth.token import is_encodable
from thalweg.auth.worker import Workers

__all__ = ["PasswordSource"]


class Reply(Protocol):
    """Takes the password, or the reason why there is none: `_core.PasswordReply`."""

    def password(self, value: str) -> None: ...

    def failed(self, reason: str, error: BaseException) -> None: ...


class PasswordSource:
    """Calls a function in separate threads, each time that the client needs the password."""

    def __init__(self, function: Callable[[], Any], option: str = "sasl_plain_password") -> None:
        """Takes a function that returns a str, or an object with `reveal()`.

        Args:
            function: The application's function.
            option: The option that it was given for. A password of a file may also be bytes.
        """
        name = f"the function in {option}"

        def text() -> str:
            return _text(function(), name, takes_bytes=option.startswith("ssl_"))

        def reason(error: BaseException) -> str:
            if isinstance(error, _WrongPassword):
                return str(error)
            return (
                f"{name} raised {type(error).__name__}. The __cause__ of this error has its text,"
                " which may contain the password"
            )

        self._workers = Workers(name, lambda reply: text(), _give, reason)

    def request(self, reply: Reply) -> None:
        """Starts to get the password, and returns at once. The core calls it.

        Raises:
            RuntimeError: If too many calls hang.
        """
        self._workers.start(reply)


class _WrongPassword(TypeError, ValueError):
    """The function returned something unusable. The text of this error contains no password."""


def _text(given: Any, name: str, takes_bytes: bool) -> str:
    text = given.reveal() if hasattr(given, "reveal") else given
    if takes_bytes and isinstance(text, bytes | bytearray):
        # An error of the conversion would contain the password, also as a context.
        text = text.decode(errors="surrogateescape")
        if not is_encodable(text):
            raise _WrongPassword(f"{name} must return UTF-8 if it returns bytes")
    if isinstance(text, str) and not is_encodable(text):
        raise _WrongPassword(f"{name} must return a str that can be encoded as UTF-8")
    if not isinstance(text, str):
        kinds = "a str or bytes" if takes_bytes else "a str"
        hint = ""
        if hasattr(text, "__await__"):
            hint = ". Give a function that is not async"
            if hasattr(text, "close"):
                text.close()  # or the interpreter would warn that it was never awaited
        raise _WrongPassword(f"{name} must return {kinds}, not {type(text).__name__}{hint}")
    return text


def _give(reply: Reply, password: str) -> None:
    reply.password(password)
