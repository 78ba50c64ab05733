"""The driver's clock, and calls that wait as generators that a thread or an asyncio task can run.

    commit(...) ── Wait ──> run(steps)       KafkaConsumer: in the calling thread
       ^            └─────> aio/_waits.py    AIOKafkaConsumer: its task sleeps
       └── answer, or error ──┘

A call that waits is a generator of `Wait`s, so both APIs share one implementation.
"""

import random
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.driver._native import ConsumerCore, Request
from thalweg.coordinator.listener import ListenerTask
from thalweg.structs import TopicPartition

__all__ = ["CoreCall", "Wait", "Waiting", "jitter", "now_ms", "retry_backoff", "run", "soonest"]

_T = TypeVar("_T")

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


def retry_backoff(config: Mapping[str, Any]) -> Backoff:
    """Creates the waits before retries, by the consumer's options."""
    return Backoff(config["retry_backoff_ms"], config["retry_backoff_max_ms"], jitter)


# ---------------------------------------------------------------------- calls that wait


@dataclass(frozen=True, slots=True)
class Wait:
    """Something to wait for, with a limit.

    Attributes:
        what: Its answer is sent into the generator, or its error thrown. None: wait for the time.
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


# What is sent into it is the answer to the last wait, whose type only the generator knows.
Waiting = Generator[Wait, Any, _T]


def run(steps: Waiting[_T]) -> _T:
    """Runs a call in this thread, which sleeps while the call waits."""
    try:
        wait = next(steps)
        while True:
            try:
                answer = _outcome(wait)
            except BaseException as error:  # also Ctrl-C: let the call clean up
                wait = steps.throw(error)
            else:
                wait = steps.send(answer)
    except StopIteration as done:
        result: _T = done.value
        return result


def _outcome(wait: Wait) -> object:
    if wait.what is None:
        time.sleep(wait.left_ms / 1000)
        return None
    return wait.what.result(wait.left_ms)
