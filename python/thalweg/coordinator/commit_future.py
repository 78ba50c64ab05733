"""CommitFuture: the result of an asynchronous commit (kafka-python's Future).

The thread of the consumer completes it, within poll, commit or close.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any, Self

from thalweg.errors import RetriableError

__all__ = ["CommitFuture"]

log = logging.getLogger(__name__)


class CommitFuture:
    """The result of a `commit_async`: a value or an exception.

    Attributes:
        is_done: Whether the result is known.
        value: The broker's response, after a success.
        exception: The error, after a failure.
    """

    __slots__ = ("_waiting", "exception", "is_done", "value")

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.exception: BaseException | None = None
        self._waiting: list[tuple[bool, Callable[[Any], object]]] = []

    def succeeded(self) -> bool:
        """Whether it is done, without an error."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Whether it is done, with an error."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether it failed, and a retry may succeed."""
        return isinstance(self.exception, RetriableError)

    def complete(self, value: Any = None, exception: BaseException | None = None) -> None:
        """Sets the result and calls the callbacks in order. Logs what they raise."""
        self.is_done, self.value, self.exception = True, value, exception
        waiting, self._waiting = self._waiting, []
        for on_success, function in waiting:
            self._call(on_success, function)

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls f(*args, value, **kwargs) after a success, or at once if it is done."""
        return self._add(True, functools.partial(f, *args, **kwargs))

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls f(*args, exception, **kwargs) after a failure, or at once if it is done."""
        return self._add(False, functools.partial(f, *args, **kwargs))

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Calls f(*args, value or exception, **kwargs) in both cases."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def _add(self, on_success: bool, function: Callable[[Any], object]) -> Self:
        if self.is_done:
            self._call(on_success, function)
        else:
            self._waiting.append((on_success, function))
        return self

    def _call(self, on_success: bool, function: Callable[[Any], object]) -> None:
        if on_success != (self.exception is None):
            return
        try:
            function(self.value if on_success else self.exception)
        except Exception:
            log.exception("a callback of a commit raised")
