"""How the driver waits: its clock, calls that wait, and work in other threads.

    commit(...) ── Wait ──> run(steps)       KafkaConsumer: in the calling thread
       ^            └─────> aio/_waits.py    AIOKafkaConsumer: its task sleeps
       └── result, or error ──┘

    Work(compute)               ──> thread ────────────────────────────────────> result()
    LongRequest(submit, read)   ──> thread: submit ──> response ──> thread: read ──> result()

A call that waits is a generator of `Wait`s, so both APIs share one implementation.

Long computations run in separate threads, so that a poll can end at its timeout. They have the
interface of the core's requests, so code that waits for a request can wait for them. They only
compute, or make calls that the core allows from any thread. Listeners, callbacks and assignments
stay in the application's thread.

The threads are not daemon threads: the interpreter waits for them at exit. So they never wait for a
broker.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar, cast

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._native import ConsumerCore, Request, ResponseBody
from thalweg.coordinator.listener import ListenerTask
from thalweg.errors import KafkaTimeoutError
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = [
    "LONG",
    "Background",
    "CoreCall",
    "LongRequest",
    "Wait",
    "Waiting",
    "Work",
    "is_long_response",
    "jitter",
    "now_ms",
    "retry_backoff",
    "run",
    "soonest",
]

_T = TypeVar("_T")

# Steps over this many topics or partitions take too long for a short poll: some 10 ms.
LONG: Final = 1_000
_LONG_RESPONSE_BYTES: Final = 64 * 1024

# ---------------------------------------------------------------------- the clock


def now_ms() -> float:
    """Returns the time in ms of a monotonic clock, as in the state machines."""
    return time.monotonic() * 1000


def soonest(times: Iterable[float | None]) -> float | None:
    """Returns the earliest of the times that are not None, or None."""
    return min((each for each in times if each is not None), default=None)


def jitter() -> float:
    """Returns a factor for the next wait before a retry."""
    return random.uniform(0.8, 1.2)


def retry_backoff(config: "DriverConfig") -> Backoff:
    """Creates the waits before retries, by the consumer's options."""
    return Backoff(config["retry_backoff_ms"], config["retry_backoff_max_ms"], jitter)


# ---------------------------------------------------------------------- calls that wait


@dataclass(frozen=True, slots=True)
class Wait:
    """Something to wait for, with a limit.

    Attributes:
        what: Its result is sent into the generator, or its error thrown. None: wait for the time.
        until_ms: The limit, on the driver's clock.
        task: With asyncio: wait for this task, for at most the time.
    """

    what: "Request[object] | CoreCall | None"
    until_ms: float
    task: ListenerTask | None = None

    @property
    def left_ms(self) -> int:
        """The remaining time in ms, at least 0."""
        return max(0, int(self.until_ms - now_ms()))


@dataclass(frozen=True, slots=True)
class CoreCall:
    """A call that exists in two forms: blocking in `Consumer`, awaitable in `AsyncConsumer`.

    Attributes:
        consumer: The core's consumer, or a subclass.
        name: The name of the method in both classes.
        argument: The first argument. The second is the timeout.
    """

    consumer: ConsumerCore
    name: Literal["_list_offsets", "position"]
    argument: list[tuple[str, int, int]] | TopicPartition

    def result(self, timeout_ms: int) -> object:
        """Makes the call in its blocking form."""
        call: Callable[[object, int], object] = getattr(self.consumer, self.name)
        return call(self.argument, timeout_ms)


# What is sent into it is the result of the last wait, whose type only the generator knows.
Waiting = Generator[Wait, Any, _T]


def run(steps: Waiting[_T]) -> _T:
    """Runs a call in this thread, which sleeps while the call waits."""
    try:
        wait = next(steps)
        while True:
            try:
                found = _outcome(wait)
            except BaseException as error:  # also Ctrl-C: let the call clean up
                wait = steps.throw(error)
            else:
                wait = steps.send(found)
    except StopIteration as done:
        result: _T = done.value
        return result


def _outcome(wait: Wait) -> object:
    if wait.what is None:
        time.sleep(wait.left_ms / 1000)
        return None
    return wait.what.result(wait.left_ms)


# ---------------------------------------------------------------------- work in other threads


def is_long_response(request: Request[object]) -> bool:
    """Whether it takes long to read the response of a request."""
    return request.response_bytes >= _LONG_RESPONSE_BYTES


class Background(Generic[_T]):
    """A result or an error that another thread computes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[Self], object]] = []
        self._result: _T | None = None
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    @property
    def response_bytes(self) -> int:
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
        return cast("_T", self._result)

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

    def _finish(self: Self, result: _T | None, error: BaseException | None) -> None:
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
    """A request whose body takes long to create, or whose response takes long to read.

    Args:
        submit: Creates the body and sends it.
        read: Converts the response to the result.
    """

    def __init__(
        self, submit: Callable[[], Request[ResponseBody]], read: Callable[[ResponseBody], _T]
    ) -> None:
        super().__init__()
        self._read = read
        _in_thread(lambda: self._begin(submit))

    def _begin(self, submit: Callable[[], Request[ResponseBody]]) -> None:
        try:
            request = submit()
        except BaseException as error:
            self._finish(None, error)
            return
        request.add_done_callback(lambda _: self._responded(request))

    def _responded(self, request: Request[ResponseBody]) -> None:
        # The thread for responses calls this. It must not be blocked.
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
