"""What a call has to wait for, told to whoever waits: a thread, or a task of asyncio.

    commit(...) ── Wait ──> run(steps)       KafkaConsumer: in the calling thread
       ^            └─────> aio/_waits.py    AIOKafkaConsumer: its task sleeps
       └── answer, or error ──┘

A call that waits is a generator of `Wait`s, so that both APIs run the same one.
"""

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from thalweg.coordinator.driver._clock import now_ms

__all__ = ["CoreCall", "Wait", "Waiting", "run"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wait:
    """Something to wait for, for so long.

    Attributes:
        what: A request or a CoreCall, whose answer is sent into the generator, or its error
            thrown; None waits for the time alone. With asyncio also a task, whose end is waited
            for.
        until_ms: On the driver's clock.
    """

    what: Any
    until_ms: float

    @property
    def left_ms(self) -> int:
        """What is left of the time."""
        return max(0, int(self.until_ms - now_ms()))


@dataclass(frozen=True, slots=True)
class CoreCall:
    """A call that the core has in two forms: `Consumer`'s blocks, `AsyncConsumer`'s is awaited.

    Attributes:
        consumer: The core's class, or one that extends it.
        name: Of the method, in both.
        argument: Its first; the second is the time that it may take.
    """

    consumer: Any
    name: Literal["list_offsets", "position"]
    argument: Any

    def result(self, timeout_ms: int) -> Any:
        """The blocking form."""
        return getattr(self.consumer, self.name)(self.argument, timeout_ms)


Waiting = Generator[Wait, Any, _T]


def run(steps: Waiting[_T]) -> _T:
    """Runs a call in this thread, which sleeps where it waits."""
    try:
        wait = next(steps)
        while True:
            try:
                answer = _outcome(wait)
            except BaseException as error:  # also Ctrl-C: what the call has begun it ends
                wait = steps.throw(error)
            else:
                wait = steps.send(answer)
    except StopIteration as done:
        result: _T = done.value
        return result


def _outcome(wait: Wait) -> Any:
    if wait.what is None:
        return time.sleep(wait.left_ms / 1000)
    return wait.what.result(wait.left_ms)
