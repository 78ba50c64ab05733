"""Keeps clients between the tasks of a worker process.

Spark reuses its Python workers, so it pays to keep a client's connections and metadata, and a
producer's id. A task takes a client, and gives it back if it succeeded:

    take ──> the task works ──> give_back (kept for the next task)
                  └─ failed ──> discard   (closed)

Outside of a task, for example in the user's own process, most kinds of clients are not kept. The
key of a kept client includes the process id: workers are forked, and only the process that created
a client may use it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pyspark import TaskContext

from thalweg._config.secret import Secret

C = TypeVar("C")
_Key = tuple[int, Secret]

_KEPT = 4
_CLOSE_S = 5


class KeptClients(Generic[C]):
    """The idle clients of this process, by their options."""

    def __init__(
        self,
        make: Callable[[Mapping[str, Any]], C],
        close: Callable[[C, float | None], None],
        rest: Callable[[C], None] = lambda client: None,
        *,
        outside_of_tasks: bool = False,
    ) -> None:
        """Keeps no client yet.

        Args:
            make: Creates a client from its options.
            close: Closes a client within a time in seconds, or without limit.
            rest: Frees what a client does not need until the next task.
            outside_of_tasks: Whether to keep clients outside of tasks, too.
        """
        self._make, self._close, self._rest = make, close, rest
        self._outside_of_tasks = outside_of_tasks
        self._lock = threading.Lock()
        self._idle: dict[_Key, C] = {}
        atexit.register(self._close_all)

    def take(self, config: Mapping[str, Any]) -> C:
        """Returns a kept client with these options, or a new one."""
        with self._lock:
            found = self._idle.pop(_key(config), None)
        return self._make(config) if found is None else found

    def give_back(self, config: Mapping[str, Any], client: C) -> None:
        """Keeps a client for the next task of this process."""
        if TaskContext.get() is None and not self._outside_of_tasks:
            self._close(client, None)
            return
        self._rest(client)
        key = _key(config)
        with self._lock:
            other = self._idle.pop(key, None)
            self._idle[key] = client  # at the end: the most recently used
            # A fork copies the clients of its parent. Only the parent may use or close them.
            own = [each for each in self._idle if each[0] == os.getpid()]
            surplus = [self._idle.pop(each) for each in own[: max(0, len(own) - _KEPT)]]
        for each in (*surplus, *([] if other is None else [other])):
            self._close(each, None)

    def discard(self, client: C) -> None:
        """Closes a client after a failure at once. Records that it has not sent are dropped."""
        self._close(client, 0)

    def _close_all(self) -> None:
        for key, client in list(self._idle.items()):
            if key[0] == os.getpid():
                self._close(client, _CLOSE_S)


def _key(config: Mapping[str, Any]) -> _Key:
    # A frame of a traceback would show a tuple of the options.
    return (os.getpid(), Secret(repr(sorted(config.items()))))


def _new_producer(config: Mapping[str, Any]) -> Any:
    from thalweg.producer import KafkaProducer

    return KafkaProducer.from_config(dict(config))


def _new_reader(config: Mapping[str, Any]) -> Any:
    from thalweg.range_reader import RangeReader

    return RangeReader(config)


PRODUCERS: KeptClients[Any] = KeptClients(
    _new_producer, lambda producer, timeout: producer.close(timeout=timeout)
)
READERS: KeptClients[Any] = KeptClients(
    _new_reader, lambda reader, timeout: reader.close(), lambda reader: reader.rest()
)
