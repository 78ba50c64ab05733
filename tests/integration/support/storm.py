"""A rebalance storm: members of a group in several processes join, leave, stall and are killed.

    with Stream(producer, topic, n) as stream:
        storm = Storm(broker, topic, n, "classic", folder, stream, seed=1)
        storm.join()
        storm.rage(steps=12, fewest=4, most=8)
        storm.settle()

Most members are threads of a few processes. Members that may be killed have their own process.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.brokers import Broker
from tests.support.groups.history import History
from tests.support.paths import ROOT
from tests.support.peers import environment
from tests.support.waiting import wait_until
from thalweg import KafkaProducer

PAUSE_S = 0.1
SETTLE_LIMIT_S = 90
THREADS_MAX = 10
END_LIMIT_S = 60


class Stream:
    """Sends one record to each partition, round after round, from its own thread."""

    def __init__(self, producer: KafkaProducer[Any, Any], topic: str, partitions: int) -> None:
        self._producer, self._topic, self._partitions = producer, topic, partitions
        self._futures: list[Any] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.rounds = 0

    def _send(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            for partition in range(self._partitions):
                self._futures.append(
                    self._producer.send(self._topic, b"%d" % self.rounds, partition=partition)
                )
            self.rounds += 1

    def goes_on(self, rounds: int) -> None:
        """Waits for `rounds` more rounds."""
        wanted = self.rounds + rounds
        wait_until(lambda: self.rounds >= wanted, 30 + rounds, what="records being sent")

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if error is None:
            self._producer.flush(60)
            assert all(each.succeeded() for each in self._futures)


class Process:
    """A process with members, see storm_members.py."""

    def __init__(self, arguments: list[str], file: Path) -> None:
        self.members: set[int] = set()  # have joined, and have not been asked to leave or stall
        self.file = file
        self._errors = file.with_suffix(".err")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.support.storm_members",
                *arguments,
                str(file),
            ],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stderr=self._errors.open("wb"),
        )

    def tell(self, what: str, member: int) -> None:
        """Tells a member to join, leave or stall."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%s %d\n" % (what.encode(), member))
        self._process.stdin.flush()
        if what == "join":
            self.members.add(member)
        else:
            self.members.remove(member)

    def kill(self) -> None:
        """Kills the process at once, with all its members."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def end(self) -> None:
        """Makes all its members leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(END_LIMIT_S) == 0, self.errors()

    def errors(self) -> str:
        """Returns the last part of its error output."""
        return self._errors.read_text(encoding="utf-8", errors="replace")[-3000:]


class Storm:
    """All members of the storm, past and present, and what happens to them.

    Attributes:
        history: what the members had written at the last look.
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        partitions: int,
        protocol: str,
        folder: Path,
        stream: Stream,
        seed: int,
        *,
        group: str | None = None,
        options: Mapping[str, int] | None = None,
    ) -> None:
        group = group or f"group-{topic}"
        more = [protocol, json.dumps(options or {})]
        self._arguments = [broker.bootstrap_servers, topic, group, *more]
        self._folder, self._stream = folder, stream
        self._random = random.Random(seed)
        self._numbers = itertools.count(1)
        self._alone: list[Process] = []
        self._shared: list[Process] = []
        self.history = History(partitions)

    @property
    def members(self) -> set[int]:
        """Returns the members that have joined and were not asked to leave or stall."""
        return set().union(*(each.members for each in self._processes))

    @property
    def _processes(self) -> list[Process]:
        return self._alone + self._shared

    # ------------------------------------------------------------------ the steps

    def join(self, *, alone: bool | None = None) -> int:
        """Starts a member: in its own process, in a shared one, or (None) chosen at random."""
        number = next(self._numbers)
        if alone is None:
            alone = self._random.random() < 0.25
        self._process(alone).tell("join", number)
        return number

    def _process(self, alone: bool) -> Process:
        room = [each for each in self._shared if len(each.members) < THREADS_MAX]
        if room and not alone:
            return room[0]
        file = self._folder / f"members-{len(self._processes)}"
        made = Process(self._arguments, file)
        (self._alone if alone else self._shared).append(made)
        return made

    def leave(self) -> None:
        """Makes one member close."""
        self._end_one("leave", self._processes)

    def stall(self) -> None:
        """Makes one member stop polling."""
        self._end_one("stall", self._shared)

    def _end_one(self, what: str, processes: list[Process]) -> None:
        found = [(each, number) for each in processes for number in sorted(each.members)]
        if found:
            process, number = self._random.choice(found)
            process.tell(what, number)

    def kill(self) -> None:
        """Kills one member that has its own process."""
        found = [each for each in self._alone if each.members]
        if not found:
            self.join(alone=True)
            return
        victim = self._random.choice(found)
        now = time.monotonic()
        victim.kill()
        self.history.update([victim.file])
        for number in victim.members:
            self.history.tell(number, now, "K")
        victim.members.clear()

    def rage(self, steps: int, fewest: int, most: int) -> None:
        """Takes `steps` steps, at least one of each kind, with `fewest` to `most` members left."""
        # If a member joins after a kill, a classic group waits until the dead member's session
        # ends.
        first: list[Callable[[], object]] = [self.stall, self.leave, self.kill, self.join]
        for step in range(steps):
            action = first[step] if step < len(first) else self._any(fewest, most)
            action()
            self._stream.goes_on(self._random.randrange(1, 8))

    def _any(self, fewest: int, most: int) -> Callable[[], object]:
        here = len(self.members)
        if here <= fewest:
            return self.join
        actions: list[Callable[[], object]] = [self.leave, self.leave, self.kill, self.stall]
        return self._random.choice(actions if here >= most else [*actions, *[self.join] * 5])

    # ------------------------------------------------------------------ the results

    def look(self) -> History:
        """Returns the history so far."""
        self.history.update(each.file for each in self._processes)
        return self.history

    def settle(self, limit: float = SETTLE_LIMIT_S) -> float:
        """Waits until the members share all partitions, and returns the seconds that took."""
        began = time.monotonic()
        wait_until(
            lambda: self.look().is_settled(self.members),
            limit,
            every=0.1,
            what=lambda: f"{sorted(self.members)} share: {self.history.owners()}",
        )
        return time.monotonic() - began

    def end(self) -> None:
        """Makes all members leave."""
        staying = self.members
        for process in self._processes:
            if process.members or process in self._shared:
                process.end()
        history = self.look()
        stayed = {each for each in staying if history.members[each].ended != "E"}
        errors = [each.errors() for each in self._processes]
        assert not stayed, f"{stayed} ended otherwise: {errors}"

    def __enter__(self) -> Storm:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._processes:
            each.kill()
