"""Members of one group, of any client, each in its own process, and what they wrote down.

group = crew(broker, topic, PARTITIONS, "cooperative-sticky")      the fixture `crew`
group.join("java")
group.count()                                                      records read so far
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import time
from pathlib import Path
from typing import Protocol

from tests.support import java, peers
from tests.support.brokers import Broker
from tests.support.clients.member import CONSUMER
from tests.support.groups.history import History
from tests.support.paths import ROOT

LEAVE_LIMIT_S = 60
SESSION_MS = 6000
# Clients without KIP-848's protocol. They join as classic members where the others use it.
CLASSIC_ONLY = ("kafka-python", "aiokafka")


class MixedHistory(History):
    """What members of any client wrote. Other clients report less than ours.

    A fenced member learns of it with its next request. Until its last sign of membership, the
    partitions it lost count as its own. A member that leaves or is killed may not report what it
    had.
    """

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self._sure: dict[int, float] = {}
        self._unknown = itertools.count(-1, -1)

    def tell(self, member: int, at: float, kind: str, *numbers: int) -> None:
        """Adds one event."""
        if kind in ("A", "C", "X"):
            self._sure[member] = at
        if kind == "A" and numbers[0] < 0:  # a client that has no generation, or has lost it
            numbers = next(self._unknown), *numbers[1:]
        elif kind == "L":
            at = self._sure.get(member, at)
        elif kind in ("E", "K"):
            self._give_up_all(member, at if kind == "K" else self._sure[member])
        super().tell(member, at, kind, *numbers)

    def committed(self) -> dict[int, int]:
        """Returns {partition: the highest offset whose commit was acknowledged}."""
        found: dict[int, int] = {}
        for _, event in self.all("C"):
            partition, offset = event.numbers
            found[partition] = max(offset, found.get(partition, 0))
        return found

    def _give_up_all(self, member: int, at: float) -> None:
        found = self.members.get(member)
        if found is not None and found.open:
            super().tell(member, at, "V", -1, *found.open)


class Member:
    """A member in its own process."""

    def __init__(
        self,
        client: str,
        number: int,
        broker: Broker,
        topic: str,
        strategy: str,
        session_ms: int,
        file: Path,
    ) -> None:
        self.number, self.file, self.ended = number, file, False
        if client in CLASSIC_ONLY and strategy == CONSUMER:
            strategy = "range"
        where = broker.bootstrap_servers, topic, group_of(topic), str(file)
        given = *where, strategy, str(session_ms), str(number)
        if client == "java":
            command = java.command("GroupMember", *given, classes=java.compiled("GroupMember"))
        else:
            python = str(peers.python_of(client))
            command = [python, "-m", "tests.support.clients.member", client, *given]
        self._errors = file.with_suffix(".err")
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=peers.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def lines(self) -> list[str]:
        """Returns the last lines that it wrote down."""
        if not self.file.exists():
            return []
        return self.file.read_text(encoding="utf-8").splitlines()[-20:]

    def errors(self) -> str:
        """Returns the last part of its output, which includes its client's log."""
        return self._errors.read_text(encoding="utf-8", errors="replace")[-3000:]


class Crew:
    """All members of the test, past and present."""

    def __init__(
        self,
        broker: Broker,
        topic: str,
        partitions: int,
        strategy: str,
        session_ms: int,
        folder: Path,
    ) -> None:
        self._broker, self._topic, self._folder = broker, topic, folder
        self._strategy, self._session_ms = strategy, session_ms
        self.history = MixedHistory(partitions)
        self.members: list[Member] = []

    def join(self, client: str) -> Member:
        number = len(self.members)
        file = self._folder / f"{self._topic}-member-{number}"
        how = self._strategy, self._session_ms
        member = Member(client, number, self._broker, self._topic, *how, file)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        member.ended = True
        assert member.process.stdin is not None
        member.process.stdin.close()
        assert member.process.wait(LEAVE_LIMIT_S) == 0, member.errors()

    def kill(self, member: Member) -> None:
        member.ended = True
        at = time.time()
        member.process.send_signal(signal.SIGKILL)
        member.process.wait(30)
        self.look().tell(member.number, at, "K")

    def living(self) -> list[Member]:
        return [member for member in self.members if not member.ended]

    def look(self) -> MixedHistory:
        """Returns all that was written so far. Checks that no member ended unexpectedly."""
        for member in self.living():
            assert member.process.poll() is None, member.errors()
        self.history.update(member.file for member in self.members)
        return self.history

    def tell(self) -> str:
        """Returns what the running members wrote and printed, for the error of a failed wait."""
        return "\n".join(
            f"{member.file.name}: {member.lines()}\n{member.errors()}" for member in self.living()
        )

    def have_joined(self) -> bool:
        """Whether each member has been assigned partitions once."""
        found = self.look()
        joined = {member.number for member, _ in found.all("A")}
        return joined == {member.number for member in self.members}

    def is_settled(self) -> bool:
        """Whether the running members have an equal share of all partitions."""
        return self.look().is_settled({member.number for member in self.living()})

    def count(self) -> int:
        """Returns the number of records that were read, each counted once."""
        return sum(self.look().read_counts().values())

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait(30)


class MakeCrew(Protocol):
    """The fixture `crew`. `session_ms` is for classic members. Others use the broker's."""

    def __call__(
        self,
        broker: Broker,
        topic: str,
        partitions: int,
        strategy: str,
        *,
        session_ms: int = SESSION_MS,
    ) -> Crew: ...


def group_of(topic: str) -> str:
    """Returns the name of the group that reads a topic."""
    return f"group-{topic}"
