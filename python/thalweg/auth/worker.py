"""`Worker`: the thread in which a provider runs. `Calls`: one call of a provider, sync or async.

    start(reply) ── queue ──> thread ── Calls.token() ──> reply.token() or reply.failed()
                                             └─ a coroutine runs in the event loop

The thread is a daemon, and below the provider there is only Python code, so the interpreter can
exit while a provider hangs. One thread serves all calls, because the interpreter starts no thread
at exit, when the last records of a client may still need a token.
"""

import contextlib
import threading
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from thalweg.auth.token import Token, read, with_extensions

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

__all__ = ["Calls", "Worker"]

_PACKAGE: Final = __name__.rpartition(".")[0]


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


class Worker:
    """A thread that makes one call after the other."""

    def __init__(self, calls: "Calls") -> None:
        """Starts the thread."""
        self.is_busy = False
        self._calls = calls
        self._replies: SimpleQueue[Reply | None] = SimpleQueue()
        threading.Thread(target=self._run, name="thalweg-token", daemon=True).start()

    def start(self, reply: Reply) -> None:
        """Starts a call. The worker must not be busy."""
        self.is_busy = True
        self._replies.put(reply)

    def end(self) -> None:
        """Ends the thread after its call."""
        self._replies.put(None)

    def _run(self) -> None:
        while (reply := self._replies.get()) is not None:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        try:
            token = self._calls.token()
            # Before the answer, because the core may respond to it with the next call.
            self.is_busy = False
            reply.token(
                token.value,
                token.expires_at,
                None if token.principal is None else _escaped(token.principal),
                list((token.extensions or {}).items()),
            )
        except BaseException as error:
            self.is_busy = False
            _drop_our_frames(error)
            reply.failed(_reason(self._calls.name, error), error)


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
            loop: Where the coroutines of the provider run. None: in a loop of its own.
        """
        self.name = _escaped(name)
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
            TypeError, ValueError: If the provider returns something else than a token.
        """
        token = read(self._returned(), self.name)
        if token.extensions is None and self._extensions is not None:
            name = self.name.removesuffix("token()") + "extensions()"
            token = with_extensions(token, self._extensions(), name)
        return token

    def give_up(self) -> None:
        """Cancels the coroutines that run."""
        for future in tuple(self._awaited):
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
                # SystemExit and KeyboardInterrupt would end the loop, and nobody would get them.
                return None, error

        loop = self._loop or self._running_loop()
        coroutine = outcome()
        try:
            future = run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            if hasattr(awaitable, "close"):
                awaitable.close()
            raise
        self._awaited.add(future)
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
        """Runs a loop until somebody stops it, and ends its tasks, as `asyncio.run` does."""
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


def _reason(name: str, error: BaseException) -> str:
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be shown)"
    return _escaped(f"{name} raised {kind}: {text}")


def _escaped(text: str) -> str:
    """Escapes lone surrogates, which cannot cross to the core."""
    return text.encode("utf-8", "backslashreplace").decode()


def _drop_our_frames(error: BaseException) -> None:
    """Drops our frames from a traceback, because their locals may contain the token."""
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        if not _is_ours(entry.tb_frame.f_globals.get("__name__")):
            entries.append(entry)
        entry = entry.tb_next
    kept = None
    for entry in reversed(entries):
        entry.tb_next = kept
        kept = entry
    error.__traceback__ = kept


def _is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.startswith(f"{_PACKAGE}.")
