"""Shares what takes long to start between the processes of `pytest -n`.

    shared = Sharing(folder)                                # the same folder in all processes
    address = shared.join("kafka-4.3", start)               # the first process starts it
    ...
    shared.leave()                                          # that process also stops it

The process that has started something stops it, after all others have left. Locks of the operating
system say who uses it: they end with their process, so nobody waits for one that has crashed.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

# What the others need to know, and how to stop it.
Started = tuple[str, Callable[[], object]]


def folder_of(config: pytest.Config) -> Path:
    """Returns the path of this run's folder, which all of its processes share."""
    run = getattr(config, "workerinput", {}).get("testrunuid") or uuid.uuid4().hex
    return Path(tempfile.gettempdir()) / f"thalweg-tests-{run}"


class Sharing:
    """What one process shares with the others, in a folder of locks and descriptions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: list[IO[str]] = []
        self._started: list[tuple[str, Callable[[], object]]] = []

    def join(self, name: str, start: Callable[[], Started]) -> str:
        """Returns the description that `start` gave in the first process that joined."""
        self._used.append(self._lock(f"{name}.users", fcntl.LOCK_SH))
        description = self._folder / f"{name}.started"
        with self._locked(f"{name}.starts"):
            if not description.exists():
                text, stop = start()
                self._started.append((name, stop))
                description.write_text(text, encoding="utf-8")
            return description.read_text(encoding="utf-8")

    def leave(self) -> None:
        """Stops what this process has started. Before that, it waits until all others have left."""
        while self._used:
            self._used.pop().close()
        while self._started:
            name, stop = self._started.pop()
            try:
                with self._locked(f"{name}.users"):
                    for each in self._folder.glob(f"{name}.*"):
                        each.unlink()
            finally:
                stop()  # also after Ctrl-C
        with suppress(OSError):  # it was never made, or another process still uses something
            self._folder.rmdir()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with self._lock(name, fcntl.LOCK_EX):
            yield

    def _lock(self, name: str, how: int) -> IO[str]:
        """Opens and locks a file, until the file is closed."""
        path = self._folder / name
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            # A process that leaves deletes the file and the folder, perhaps between these lines.
            with suppress(FileNotFoundError):
                file = path.open("w")
                fcntl.flock(file, how)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
                file.close()
