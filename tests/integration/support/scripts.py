"""Programs that a test runs as separate processes, for life cycles that end with the interpreter.

    run(SOURCE, broker.bootstrap_servers, topic)       -> what it printed, how it ended
    with start(SOURCE, ...) as script:                 -> wait for a line, send a signal, ...

A program gets its arguments in sys.argv[1:]. Every process has a time limit and is killed when the
limit is reached.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from tests.support.paths import ROOT
from tests.support.waiting import wait_until

LIMIT_S = 120.0
_PRELUDE = """\
import os, signal, sys, threading, time
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg import errors
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str
    took_s: float

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Script:
    """A running program."""

    def __init__(
        self,
        source: str,
        arguments: tuple[str, ...],
        limit_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        code = _PRELUDE + textwrap.dedent(source)
        self._limit_s = limit_s
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            text=True,
        )
        self._out: list[str] = []
        self._err: list[str] = []
        streams = (self.process.stdout, self._out), (self.process.stderr, self._err)
        self._readers = [threading.Thread(target=self._read, args=each) for each in streams]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line)  # noqa: PERF402 (other threads must see each line at once)

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._read_to_the_end()

    def wait_for(self, line: str) -> None:
        """Waits until the program has printed a line."""
        wait_until(
            lambda: f"{line}\n" in self._out or self.process.poll() is not None,
            self._limit_s,
            what=lambda: f"{line!r} of {self._out}\n{''.join(self._err)}",
        )
        if f"{line}\n" not in self._out:
            self._read_to_the_end()  # the process may be gone before its last line is read
        assert f"{line}\n" in self._out, f"it ended without {line!r}: {''.join(self._err)}"

    def interrupt(self) -> None:
        """Sends Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        """Waits until the program ends. If it hangs, raises an error with its stacks."""
        try:
            code = self.process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler prints the stacks
            self.process.wait()
            self._read_to_the_end()
            raise AssertionError(f"it hangs: {''.join(self._out)}\n{''.join(self._err)}") from None
        self._read_to_the_end()
        took = time.monotonic() - self._started
        return Ended(code, "".join(self._out), "".join(self._err), took)

    def _read_to_the_end(self) -> None:
        for reader in self._readers:
            reader.join()


def start(
    source: str,
    *arguments: object,
    limit_s: float = LIMIT_S,
    environment: Mapping[str, str] | None = None,
) -> Script:
    """Starts a program. Use it in a with statement."""
    return Script(source, tuple(str(each) for each in arguments), limit_s, environment)


def run(
    source: str,
    *arguments: object,
    limit_s: float = LIMIT_S,
    code: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a program until it ends and checks its exit status."""
    with start(source, *arguments, limit_s=limit_s, environment=environment) as script:
        ended = script.end()
    assert ended.code == code, f"exit status {ended.code}\n{ended.out}\n{ended.err}"
    return ended
