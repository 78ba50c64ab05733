"""Reads the events that members of a group wrote to files. checks.py checks them.

    S              joins                        X              starts to leave
    A gen p p ...  has these partitions now     E              has left
    V gen p p ...  gives these up (revoked)     Z ago          stalls: never polls again. The last
    L gen p p ...  lost these                                  poll was `ago` ms before
                                                K              was killed (the test writes this)
    R p first last waited                       C p offset     committed
                   read these offsets. The broker had the first one since `waited` ms

A claim is the time during which a member has a partition. It ends when the member says so. A member
that was killed or that stalls cannot say so: its claim ends at the earliest time at which the group
may give the partition to another member.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The settings of members that may be killed or stall (tests/integration/support/storm_members.py).
# No session is shorter. Classic members have a longer one.
SESSION_MS, HEARTBEAT_MS, MAX_POLL_INTERVAL_MS = 6000, 300, 12_500
NEVER = float("inf")
# A member reads its clock before it writes the line. The last heartbeat of a dead member may be one
# heartbeat interval old (500 ms at most in both protocols).
SLACK_S = 0.05
GIVEN_UP_EARLY_S = 0.5 + SLACK_S
KILLED_CLAIM_S = SESSION_MS / 1000 - GIVEN_UP_EARLY_S
STALLED_CLAIM_S = MAX_POLL_INTERVAL_MS / 1000 - GIVEN_UP_EARLY_S
assert HEARTBEAT_MS <= 500


@dataclass(frozen=True)
class Event:
    """One line of a file. `at` is in seconds."""

    at: float
    kind: str
    numbers: tuple[int, ...]

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions of an event A, V or L."""
        return frozenset(self.numbers[1:])


@dataclass(frozen=True)
class Read:
    """The offsets that one poll returned. `since` is when the broker got the first one."""

    at: float
    first: int
    last: int
    since: float


@dataclass
class Claim:
    """The time during which a member has a partition. `said_until` is the end that it reported."""

    member: int
    partition: int
    start: float
    end: float = NEVER
    said_until: float = NEVER
    reads: list[Read] = field(default_factory=list)


@dataclass
class Member:
    """One member's events in order, and its claims."""

    number: int
    events: list[Event] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    open: dict[int, Claim] = field(default_factory=dict)
    ended: str = ""

    def take(self, event: Event) -> None:
        """Takes the next event. Ignores events after the member has ended (at exit)."""
        if self.ended:
            return
        self.events.append(event)
        match event.kind:
            case "A":
                self._assigned(event)
            case "V" | "L":
                self._given_up(event)
            case "R":
                partition, first, last, waited_ms = event.numbers
                assert partition in self.open, f"{self.number} reads {partition}, not its own"
                read = Read(event.at, first, last, event.at - waited_ms / 1000)
                self.open[partition].reads.append(read)
            case "E" | "Z" | "K":
                self._end(event)

    def _assigned(self, event: Event) -> None:
        assert self.open.keys() <= event.partitions, f"{self.number} was not told: {event}"
        for partition in event.partitions - self.open.keys():
            claim = Claim(self.number, partition, event.at)
            self.open[partition] = claim
            self.claims.append(claim)

    def _given_up(self, event: Event) -> None:
        for partition in event.partitions:
            claim = self.open.pop(partition)
            claim.end = claim.said_until = event.at

    def _end(self, event: Event) -> None:
        self.ended = event.kind
        assert event.kind != "E" or not self.open, f"{self.number} left with {self.open.keys()}"
        more = KILLED_CLAIM_S
        if event.kind == "Z":
            more = STALLED_CLAIM_S - event.numbers[0] / 1000
        for claim in self.open.values():
            claim.said_until = event.at
            claim.end = event.at + more


class History:
    """All events of all members so far."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.members: dict[int, Member] = {}
        self._read_until: dict[Path, int] = {}

    def update(self, files: Iterable[Path]) -> None:
        """Reads the complete lines that were added since the last call."""
        for file in files:
            if not file.exists():
                continue
            with file.open("rb") as opened:
                opened.seek(self._read_until.get(file, 0))
                data = opened.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_until[file] = self._read_until.get(file, 0) + len(whole)
            for line in whole.decode().splitlines():
                at, kind, member, *numbers = line.split()
                self.tell(int(member), int(at) / 1e9, kind, *map(int, numbers))

    def tell(self, member: int, at: float, kind: str, *numbers: int) -> None:
        """Adds one event."""
        found = self.members.setdefault(member, Member(member))
        found.take(Event(at, kind, numbers))

    def owners(self) -> dict[int, set[int]]:
        """Returns {partition: members that have it now}."""
        found: dict[int, set[int]] = {each: set() for each in range(self.partitions)}
        for member in self.members.values():
            for partition in () if member.ended else member.open:
                found[partition].add(member.number)
        return found

    def is_settled(self, living: set[int]) -> bool:
        """Returns whether the living members share all partitions equally, and no other has any."""
        shares = dict.fromkeys(living, 0)
        for owners in self.owners().values():
            if len(owners) != 1 or not owners <= living:
                return False
            shares[next(iter(owners))] += 1
        return max(shares.values()) - min(shares.values()) <= 1

    def claims(self) -> dict[int, list[Claim]]:
        """Returns the claims of each partition, sorted by their start."""
        found: dict[int, list[Claim]] = {each: [] for each in range(self.partitions)}
        for member in self.members.values():
            for claim in member.claims:
                found[claim.partition].append(claim)
        for claims in found.values():
            claims.sort(key=lambda each: each.start)
        return found

    def read_counts(self) -> dict[int, int]:
        """Returns {partition: number of offsets read}. Each offset counts once."""
        found: dict[int, set[int]] = defaultdict(set)
        for partition, claims in self.claims().items():
            for read in itertools.chain.from_iterable(each.reads for each in claims):
                found[partition].update(range(read.first, read.last + 1))
        return {each: len(found[each]) for each in range(self.partitions)}

    def longest_join_s(self) -> float:
        """Returns the longest time from a member's first request to its first assignment."""
        longest = 0.0
        for member in self.members.values():
            first = {event.kind: event.at for event in reversed(member.events)}
            if "A" in first:
                longest = max(longest, first["A"] - first["S"])
        return longest

    def all(self, kind: str) -> Iterator[tuple[Member, Event]]:
        """Yields all events of a kind, each with its member."""
        for member in self.members.values():
            for event in member.events:
                if event.kind == kind:
                    yield member, event
