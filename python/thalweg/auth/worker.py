"""`Workers`: the threads in which the application's functions supply tokens and passwords.

    start(reply) ── queue ──> thread ── call(reply) ──> give(reply, found) or reply.failed()

The threads are daemons, and below the application's function there is only Python code, so the
interpreter can exit while a function hangs. A thread stays for the next calls, because the
interpreter starts no thread at exit, when the last records of a client may still need a token.
"""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Protocol

__all__ = ["Workers", "escaped"]

_PACKAGE: Final = __name__.rpartition(".")[0]
# How many calls may hang at the same time. Each of them keeps a thread.
_HANGING_MAX: Final = 8


class Reply(Protocol):
    """Takes the result of a call: `_core.TokenReply` or `_core.PasswordReply`."""

    def failed(self, reason: str, error: BaseException) -> None: ...


class Workers:
    """Calls one function in separate threads: in one, unless calls hang."""

    def __init__(
        self,
        name: str,
        call: Callable[[Any], Any],
        give: Callable[[Any, Any], None],
        reason: Callable[[BaseException], str],
        give_up: Callable[[], None] | None = None,
    ) -> None:
        """Takes the functions. None of them may refer to this object.

        Args:
            name: The name of the application's function, for messages.
            call: Calls it for a reply, and returns what it returned, checked.
            give: Gives a reply what `call` returned.
            reason: Tells a failed reply what `call` or `give` raised.
            give_up: Called when a call starts while an earlier one hangs.
        """
        self._name = name
        self._functions = (call, give, reason)
        self._give_up = give_up
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        finalizer = weakref.finalize(self, _end, self._workers)
        # At exit, the last records of the client may still need a token.
        finalizer.atexit = False

    def start(self, reply: Reply) -> None:
        """Starts a call, and returns at once.

        If an earlier call is still running, the core has given it up.

        Raises:
            RuntimeError: If too many calls hang.
        """
        with self._lock:
            free = next((each for each in self._workers if not each.is_busy), None)
            if free is None:
                if self._give_up is not None:
                    self._give_up()
                if len(self._workers) == _HANGING_MAX:
                    raise RuntimeError(
                        f"{_HANGING_MAX} calls of {self._name} have not returned. Set a timeout"
                        " for the requests that it sends"
                    )
                free = _Worker(*self._functions)
                self._workers.append(free)
            free.start(reply)


class _Worker:
    """A thread that makes one call after the other."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        give: Callable[[Any, Any], None],
        reason: Callable[[BaseException], str],
    ) -> None:
        self.is_busy = False
        self._call = call
        self._give = give
        self._reason = reason
        self._replies: SimpleQueue[Reply | None] = SimpleQueue()
        threading.Thread(target=self._run, name="thalweg-credentials", daemon=True).start()

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
            try:
                found = self._call(reply)
            finally:
                # Before the answer, because the core may respond to it with the next call.
                self.is_busy = False
            self._give(reply, found)
        except BaseException as error:
            reply.failed(self._told(error), error)

    def _told(self, error: BaseException) -> str:
        """Returns why the call failed. With some classes, even reading an error raises."""
        try:
            _drop_our_frames(error)
            return self._reason(error)
        except BaseException as another:
            return f"it raised an exception that raised {type(another).__name__} when it was read"


def escaped(text: str) -> str:
    """Escapes lone surrogates, which cannot cross to the core."""
    return text.encode("utf-8", "backslashreplace").decode()


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.end()


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
    # A class may forbid to set attributes, as a frozen dataclass does.
    BaseException.with_traceback(error, kept)


def _is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.startswith(f"{_PACKAGE}.")
