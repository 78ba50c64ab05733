"""`TokenSource`: calls the application's token provider for the native core.

    core ── request(reply) ──> a worker's thread ──> the provider ──> reply.token()

The provider never runs in the thread that does the I/O of the clients.
"""

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from thalweg.auth.token import Token
from thalweg.auth.worker import Calls, Reply, Worker

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["AbstractTokenProvider", "TokenSource"]

# So many calls may hang at a time. Each of them keeps a thread.
_HANGING_MAX: Final = 8


class AbstractTokenProvider(ABC):
    """Supplies bearer tokens, under kafka-python's name. A provider need not inherit from it."""

    @abstractmethod
    def token(self) -> "str | Token | Awaitable[str | Token]":
        """Returns a token that has not expired. The method may be `async`."""

    def extensions(self) -> Mapping[str, str]:
        """Returns names and values for the broker (KIP-342)."""
        return {}


class TokenSource:
    """Calls a provider in threads of its own: in one, unless calls hang."""

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
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        finalizer = weakref.finalize(self, _end, self._workers, self._calls)
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
        with self._lock:
            free = next((each for each in self._workers if not each.is_busy), None)
            if free is None:
                self._calls.give_up()
                if len(self._workers) == _HANGING_MAX:
                    raise RuntimeError(
                        f"{_HANGING_MAX} calls of {self.name} hang. Give its requests a timeout"
                    )
                free = Worker(self._calls)
                self._workers.append(free)
            free.start(reply)


def _end(workers: list[Worker], calls: Calls) -> None:
    for worker in workers:
        worker.end()
    calls.end()
