"""`TokenSource`: calls the application's token provider for the native core.

    core ── request(reply) ──> a thread ──> provider.token(), or the function ──> reply.token()
                                  └─ a coroutine runs in the event loop ─────────────┘

The provider never runs in the thread that does the I/O of the clients. Below it there is only
Python code, so the interpreter can exit while a provider hangs.
"""

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

from thalweg.auth.token import Token, check_extensions, read

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["AbstractTokenProvider", "TokenSource"]


class AbstractTokenProvider(ABC):
    """Supplies bearer tokens, under kafka-python's name. A provider need not inherit from it."""

    @abstractmethod
    def token(self) -> "str | Token | Awaitable[str | Token]":
        """Returns a token that has not expired. The method may be `async`."""

    def extensions(self) -> Mapping[str, str]:
        """Returns names and values for the broker (KIP-342)."""
        return {}


class Reply(Protocol):
    """What takes an answer: `_core.TokenReply`."""

    def token(
        self,
        value: str,
        expires_at: float | None,
        principal: str | None,
        extensions: list[tuple[str, str]],
    ) -> None: ...

    def failed(self, reason: str, error: BaseException) -> None: ...


class TokenSource:
    """Calls a provider in threads of its own."""

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
            loop: Where the coroutines of the provider run. None: in a loop of its own.
        """
        method = getattr(provider, "token", None)
        if callable(method):
            self._name = f"{type(provider).__name__}.token()"
            self._call = method
            self._extensions = getattr(provider, "extensions", None)
        else:
            self._name = f"{getattr(provider, '__qualname__', type(provider).__name__)}()"
            self._call = lambda: provider(config() if callable(config) else config)
            self._extensions = None
        self._loop = loop

    def request(self, reply: Reply) -> None:
        """Starts to get a token, and returns at once. The core calls it."""
        threading.Thread(
            target=self._answer, args=(reply,), name="thalweg-token", daemon=True
        ).start()

    def _answer(self, reply: Reply) -> None:
        try:
            token = self._token()
            extensions = list((token.extensions or {}).items())
            reply.token(token.value, token.expires_at, token.principal, extensions)
        except BaseException as error:
            # Lone surrogates cannot cross to the core.
            text = f"{self._name} raised {type(error).__name__}: {error}"
            reply.failed(text.encode("utf-8", "backslashreplace").decode(), error)

    def _token(self) -> Token:
        returned = self._call()
        if isawaitable(returned):
            returned = self._awaited(returned)
        token = read(returned, self._name)
        if token.extensions is None and callable(self._extensions):
            name = self._name.removesuffix("token()") + "extensions()"
            extensions = self._extensions()
            check_extensions(extensions, name)
            token = Token(token.value, token.expires_at, token.principal, extensions)
        return token

    def _awaited(self, awaitable: Awaitable[object]) -> object:
        from asyncio import run_coroutine_threadsafe

        async def awaited() -> object:
            return await awaitable

        loop = self._loop
        if loop is None:
            # Kept, because what a provider opens in a loop works in no other.
            loop = self._loop = self._own_loop()
        coroutine = awaited()
        try:
            future = run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            if hasattr(awaitable, "close"):
                awaitable.close()
            raise
        return future.result()

    def _own_loop(self) -> "AbstractEventLoop":
        from asyncio import new_event_loop

        loop = new_event_loop()
        threading.Thread(target=_run, args=(loop,), name="thalweg-token-loop", daemon=True).start()
        weakref.finalize(self, lambda: loop.call_soon_threadsafe(loop.stop))
        return loop


def _run(loop: "AbstractEventLoop") -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
