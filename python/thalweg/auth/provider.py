"""`TokenSource`: calls the application's token provider for the native core.

    core ── request(reply) ──> a worker's thread ──> the provider ──> reply.token()

The provider never runs in the thread that does the I/O of the clients.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from thalweg.auth.calls import Calls
from thalweg.auth.token import Token, TokenProviderError
from thalweg.auth.worker import Workers, escaped

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["AbstractTokenProvider", "TokenSource"]


class Reply(Protocol):
    """Takes the token, or the reason why there is none: `_core.TokenReply`."""

    def token(
        self,
        value: str,
        expires_at: float | None,
        principal: str | None,
        extensions: list[tuple[str, str]],
    ) -> None: ...

    def failed(self, reason: str, error: BaseException) -> None: ...


class AbstractTokenProvider(ABC):
    """The base class of token providers in kafka-python.

    In thalweg, a provider does not have to inherit from it. If `token` raises, calls raise
    `NoCredentialsError` with that exception as `__cause__`.
    """

    @abstractmethod
    def token(self) -> "str | Token | Awaitable[str | Token]":
        """Returns a token that has not expired. The method may be `async`."""

    def extensions(self) -> Mapping[str, str]:
        """Returns names and values for the broker (KIP-342)."""
        return {}


class TokenSource:
    """Calls a provider in separate threads: in one, unless calls hang."""

    def __init__(
        self,
        provider: Any,
        config: str | Callable[[], str] | None = None,
        loop: "AbstractEventLoop | None" = None,
    ) -> None:
        """Takes the provider, which is not called yet.

        Args:
            provider: An object with a method `token`, or a function of one argument.
            config: The argument of the function: the option sasl_oauthbearer_config. A function
                returns the argument of each call.
            loop: Where the coroutines of the provider run. None: in a separate loop.
        """
        method = getattr(provider, "token", None)
        if callable(method):
            extensions = getattr(provider, "extensions", None)
            self._calls = Calls(
                f"{type(provider).__name__}.token()",
                method,
                extensions if callable(extensions) else None,
                loop,
            )
        else:
            name = f"{getattr(provider, '__qualname__', type(provider).__name__)}()"
            self._calls = Calls(
                name, lambda: provider(config() if callable(config) else config), None, loop
            )
        calls = self._calls
        self._workers = Workers(
            calls.name,
            lambda reply: calls.token(),
            _give,
            lambda error: _reason(calls.name, error),
            calls.give_up,
        )
        finalizer = weakref.finalize(self, calls.end)
        # At exit, the last records of the client may still need a token.
        finalizer.atexit = False

    @property
    def name(self) -> str:
        """The name of the provider, for messages."""
        return self._calls.name

    def request(self, reply: Reply) -> None:
        """Starts to get a token, and returns at once. The core calls it.

        If an earlier call is still running, the core has given it up.

        Raises:
            RuntimeError: If too many calls hang.
        """
        self._workers.start(reply)


def _give(reply: Reply, token: Token) -> None:
    reply.token(
        token.value,
        token.expires_at,
        None if token.principal is None else escaped(token.principal),
        list((token.extensions or {}).items()),
    )


def _reason(name: str, error: BaseException) -> str:
    if isinstance(error, TokenProviderError):
        return escaped(str(error))
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be shown)"
    return escaped(f"{name} raised {kind}: {text}")
