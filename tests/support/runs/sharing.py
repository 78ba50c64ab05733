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
    """Returns the folder of this run of pytest, which all of its processes share."""
    run = getattr(config, "workerinput", {}).get("testrunuid") or uuid.uuid4().hex
    folder = Path(tempfile.gettempdir()) / f"thalweg-tests-{run}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Sharing:
    """What one process shares with the others, in a folder of locks and descriptions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: list[IO[str]] = []
        self._started: list[tuple[str, Callable[[], object]]] = []

    def join(self, name: str, start: Callable[[], Started]) -> str:
        """Returns the description that `start` gave in the first process that joined."""
        users = (self._folder / f"{name}.users").open("w")
        fcntl.flock(users, fcntl.LOCK_SH)
        self._used.append(users)
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
            with self._locked(f"{name}.users"):
                stop()
                for each in self._folder.glob(f"{name}.*"):
                    each.unlink()
        with suppress(OSError):  # another process still uses something
            self._folder.rmdir()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with (self._folder / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
