"""Finds and kills Spark's processes of a test, on Linux. Spark's workers import it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import wait_until

_PROC = Path("/proc")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


def kill_executor(folder: Path) -> None:
    """Kills the executor of this worker, and this worker with it.

    Args:
        folder: Outside of an executor: kill one that runs in a folder below this one.
    """
    for pid in _ancestors(os.getpid()):
        if _EXECUTOR in _command(pid):
            os.kill(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(next(executors(folder)), signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kills all processes of a session that this process has started.

    Spark's Python daemons have their own process groups, but remain in the session.
    """

    def is_over() -> bool:
        found = [pid for pid in _all() if _session(pid) == leader]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    wait_until(is_over, 30, what=f"the end of the processes of session {leader}")


def executors(folder: Path) -> Iterator[int]:
    """Returns the executors that run in folders below this one."""
    for pid in _all():
        with suppress(OSError):
            if _EXECUTOR in _command(pid) and (_PROC / f"{pid}/cwd").readlink().is_relative_to(
                folder.resolve()
            ):
                yield pid


def pythons(leader: int) -> Iterator[int]:
    """Returns the Python processes of a session, or those that an executor has started."""
    for pid in _all():
        with suppress(OSError):
            if b"python" in _command(pid).split(b"\0")[0] and leader in (
                _session(pid),
                *_ancestors(pid),
            ):
                yield pid


def _all() -> Iterator[int]:
    return (int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int(_status(pid)[1])


def _command(pid: int) -> bytes:
    return (_PROC / f"{pid}/cmdline").read_bytes()


def _session(pid: int) -> int | None:
    try:
        state, _, _, session, *_ = _status(pid)
    except OSError:  # it has just ended
        return None
    return None if state == "Z" else int(session)


def _status(pid: int) -> list[str]:
    """Returns the state, the parent, the process group, the session and more of a process."""
    return (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
