"""`Calls`: how a token provider is called, be it sync or async.

Calls.token() ──> the provider ──> a token
                     └─ a coroutine runs in the event loop
"""

import contextlib
import threading
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING

from thalweg.auth.token import Token, read, with_extensions
from thalweg.auth.worker import escaped

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

__all__ = ["Calls"]


class Calls:
    """Calls a provider."""

    def __init__(
        self,
        name: str,
        call: Callable[[], object],
        extensions: Callable[[], object] | None,
        loop: "AbstractEventLoop | None",
    ) -> None:
        """Takes the provider's functions.

        Args:
            name: The name of the provider's function, for messages.
            call: Returns what the provider returns.
            extensions: The provider's own `extensions`, if it has such a method.
            loop: Where the coroutines of the provider run. None: in a separate loop.
        """
        self.name = escaped(name)
        self._call = call
        self._extensions = extensions
        self._loop = loop
        self._own_loop: AbstractEventLoop | None = None
        self._awaited: set[Future[tuple[object, BaseException | None]]] = set()
        self._lock = threading.Lock()

    def token(self) -> Token:
        """Waits for a token.

        Raises:
            BaseException: Whatever the provider raises.
            TypeError, ValueError: If the provider returns anything other than a token.
        """
        token = read(self._returned(), self.name)
        if token.extensions is None and self._extensions is not None:
            name = self.name.removesuffix("token()") + "extensions()"
            token = with_extensions(token, self._extensions(), name)
        return token

    def give_up(self) -> None:
        """Cancels the coroutines that run."""
        with self._lock:
            awaited = tuple(self._awaited)
        for future in awaited:
            future.cancel()

    def end(self) -> None:
        """Ends the provider's own loop."""
        loop = self._own_loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(loop.stop)

    def _returned(self) -> object:
        returned = self._call()
        return self._result(returned) if isawaitable(returned) else returned

    def _result(self, awaitable: Awaitable[object]) -> object:
        from asyncio import run_coroutine_threadsafe

        async def outcome() -> tuple[object, BaseException | None]:
            try:
                return await awaitable, None
            except BaseException as error:
                # SystemExit and KeyboardInterrupt would end the loop, and no caller would get them.
                return None, error

        loop = self._loop or self._running_loop()
        coroutine = outcome()
        try:
            # Locked, so that `give_up` finds each coroutine that runs.
            with self._lock:
                future = run_coroutine_threadsafe(coroutine, loop)
                self._awaited.add(future)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            if hasattr(awaitable, "close"):
                awaitable.close()
            raise
        try:
            returned, error = future.result()
        finally:
            self._awaited.discard(future)
        if error is not None:
            raise error
        return returned

    def _running_loop(self) -> "AbstractEventLoop":
        """Returns the provider's own loop. What a provider opens in a loop works in no other."""
        from asyncio import new_event_loop

        with self._lock:
            if self._own_loop is None or self._own_loop.is_closed():
                loop = new_event_loop()
                thread = threading.Thread(
                    target=self._run_loop, args=(loop,), name="thalweg-token-loop", daemon=True
                )
                try:
                    thread.start()
                except BaseException:
                    loop.close()
                    raise
                self._own_loop = loop
            return self._own_loop

    def _run_loop(self, loop: "AbstractEventLoop") -> None:
        """Runs a loop until it is stopped, and ends its tasks, as `asyncio.run` does."""
        from asyncio import all_tasks, gather

        try:
            loop.run_forever()
        finally:
            try:
                tasks = all_tasks(loop)
                for task in tasks:
                    task.cancel()
                if tasks:
                    loop.run_until_complete(gather(*tasks, return_exceptions=True))
            finally:
                self.give_up()  # what the loop has not started
                loop.close()
