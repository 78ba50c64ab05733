"""Runs long computations in separate threads, so that a poll can end at its timeout.

    Work(compute)               ──> thread ────────────────────────────────────> result()
    LongRequest(submit, read)   ──> thread: submit ──> answer ──> thread: read ──> result()

Both have the interface of the core's requests, so code that waits for a request can wait for them.
They only compute, or make calls that the core allows from any thread. Listeners, callbacks and
assignments stay in the application's thread.

The threads are not daemon threads: the interpreter waits for them at exit. So they never wait for a
broker.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar

from thalweg.coordinator.driver._native import Answer, Request
from thalweg.errors import KafkaTimeoutError

__all__ = ["LONG", "Background", "LongRequest", "Work", "is_long_answer"]

_T = TypeVar("_T")

# Steps over this many topics or partitions take too long for a short poll: some 10 ms.
LONG: Final = 1_000
_LONG_ANSWER_BYTES: Final = 64 * 1024


def is_long_answer(request: Request[object]) -> bool:
    """Whether it takes long to read the answer of a request."""
    return request.answer_bytes >= _LONG_ANSWER_BYTES


class Background(Generic[_T]):
    """A result or an error that another thread computes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[Any], object]] = []  # they take a Self
        self._result: Any = None  # a _T when it is done
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    @property
    def answer_bytes(self) -> int:
        """Nothing is left to read."""
        return 0

    @property
    def error(self) -> BaseException | None:
        """The error, if it is done and has raised."""
        return self._error

    def result(self, timeout_ms: float | None = None) -> _T:
        """Waits for the result and returns it, or raises the error.

        Raises:
            KafkaTimeoutError: After timeout_ms.
        """
        if not self._done.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise KafkaTimeoutError("the request is still in progress")
        if self._error is not None:
            raise self._error
        result: _T = self._result
        return result

    def add_done_callback(self, f: Callable[[Self], object]) -> None:
        """Calls `f(self)` when it is done, in the computing thread. If it is done: at once."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(f)
                return
        f(self)

    def _run(self, compute: Callable[[], _T]) -> None:
        try:
            self._finish(compute(), None)
        except BaseException as error:
            self._finish(None, error)

    def _finish(self, result: _T | None, error: BaseException | None) -> None:
        with self._lock:
            self._result, self._error = result, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for each in callbacks:
            each(self)


class Work(Background[_T]):
    """A computation in another thread, which has begun."""

    def __init__(self, compute: Callable[[], _T]) -> None:
        super().__init__()
        _in_thread(lambda: self._run(compute))


class LongRequest(Background[_T]):
    """A request whose body takes long to create, or whose answer takes long to read.

    Args:
        submit: Creates the body and sends it.
        read: Converts the answer to the result.
    """

    def __init__(self, submit: Callable[[], Request[Answer]], read: Callable[[Answer], _T]) -> None:
        super().__init__()
        self._read = read
        _in_thread(lambda: self._begin(submit))

    def _begin(self, submit: Callable[[], Request[Answer]]) -> None:
        try:
            request = submit()
        except BaseException as error:
            self._finish(None, error)
            return
        request.add_done_callback(lambda _: self._answered(request))

    def _answered(self, request: Request[Answer]) -> None:
        # The callback thread calls this. It must not be blocked.
        _in_thread(lambda: self._run(lambda: self._read(request.result(0))))


def _in_thread(f: Callable[[], object]) -> None:
    def run() -> None:
        if hasattr(signal, "pthread_sigmask"):  # signals must reach the main thread
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        f()

    try:
        threading.Thread(target=run, name="thalweg-coordinator").start()
    except RuntimeError:  # the interpreter is ending, or there are too many threads
        f()
