"""Keeps producers between the tasks of a worker process.

Spark reuses its Python workers, so it pays to keep a producer's connections, metadata and producer
id. The key of the cache includes the process id: workers are forked, and only the process that
created a producer may use it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from typing import Any

from thalweg._config.secret import Secret

_KEPT = 4
_lock = threading.Lock()
_producers: dict[tuple[Any, ...], Any] = {}


def cached_producer(config: Mapping[str, str]) -> Any:
    """Returns this process's producer for these options. The first call creates it.

    Args:
        config: The options, under Kafka's dotted names.

    Returns:
        A ``KafkaProducer``.
    """
    from thalweg.producer import KafkaProducer

    key = _key(config)
    with _lock:
        found = _producers.pop(key, None)
        if found is None:
            found = KafkaProducer.from_config(dict(config))
        _producers[key] = found  # at the end: the most recently used
        # A fork copies the producers of its parent. Only the parent may use or close them.
        own = [each for each in _producers if each[0] == os.getpid()]
        idle = [_producers.pop(each) for each in own[: max(0, len(own) - _KEPT)]]
    for each in idle:
        _close(each)
    return found


def discard_producer(config: Mapping[str, str]) -> None:
    """Closes a producer after a failure, without sending its remaining records."""
    with _lock:
        found = _producers.pop(_key(config), None)
    if found is not None:
        _close(found, timeout=0)


def _key(config: Mapping[str, str]) -> tuple[Any, ...]:
    # A frame of a traceback would show a tuple of the options.
    return (os.getpid(), Secret(repr(sorted(config.items()))))


def _close(producer: Any, timeout: float | None = None) -> None:
    producer.close(timeout=timeout)


@atexit.register
def _close_all() -> None:
    pid = os.getpid()
    for key, producer in list(_producers.items()):
        if key[0] == pid:
            _close(producer, timeout=5)
