"""Checks what must be true of a group's history. A check that fails says where."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict

from tests.support.groups.history import SLACK_S, Event, History


def check_owners(history: History) -> None:
    """Checks that no partition has two owners in one generation, or at one time."""
    owners: dict[tuple[int, int], set[int]] = defaultdict(set)
    for member, event in history.all("A"):
        for partition in event.partitions:
            owners[event.numbers[0], partition].add(member.number)
    twice = {where: who for where, who in owners.items() if len(who) > 1}
    assert not twice, f"(generation, partition): members {twice}"
    for claims in history.claims().values():
        for before, after in itertools.pairwise(claims):
            assert after.start >= before.end, f"{after} while {before}"


def check_read(history: History, ends: dict[int, int]) -> None:
    """Checks that every record was read, and that no member skipped records of its partitions."""
    counts = history.read_counts()
    assert counts == ends, f"read {counts} of {ends}"
    for claim in itertools.chain.from_iterable(history.claims().values()):
        for before, after in itertools.pairwise(claim.reads):
            assert after.first == before.last + 1, f"{claim.member}: {after} after {before}"


def check_commits(history: History) -> None:
    """Checks that no record was read again after a commit that covers it was acknowledged."""
    commits: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for _, event in history.all("C"):
        commits[event.numbers[0]].append((event.at, event.numbers[1]))
    for partition, claims in history.claims().items():
        times, highest = _highest_by_time(commits[partition])
        for claim in claims:
            for read in claim.reads:
                known = bisect.bisect_left(times, read.at - SLACK_S)
                covered = highest[known - 1] if known else 0
                where = f"member {claim.member} has {read} of {partition}"
                assert read.first >= covered, f"{where} again: {covered} was committed"


def check_received(history: History) -> None:
    """Checks that members committed only records that were read. Others would be lost.

    A member that has read nothing yet commits its start position, the last committed offset.
    """
    reads: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for _, event in history.all("R"):
        reads[event.numbers[0]].append((event.at, event.numbers[2] + 1))
    positions = {partition: _highest_by_time(found) for partition, found in reads.items()}
    for member, event in history.all("C"):
        partition, offset = event.numbers
        times, highest = positions.get(partition, ([], []))
        known = bisect.bisect_right(times, event.at)
        received = highest[known - 1] if known else 0
        where = f"member {member.number} has committed {offset} of {partition}"
        assert offset <= received, f"{where}: {received} were read"


def check_stays(history: History, protocol: str) -> None:
    """Checks that a rebalance takes no partition from a member that keeps it.

    So a revoked partition is in no assignment of that generation, and may only come back with a
    later one. KIP-848's members revoke before they reach the epoch, classic members after.
    """
    ahead = 2 if protocol == "consumer" else 1
    for member in history.members.values():
        given_up: dict[int, int] = {}
        last: Event | None = None
        for event in member.events:
            if event.kind == "X":
                break  # it gives up everything; during a rebalance as lost, as in Java
            assert event.kind != "L", f"member {member.number} has lost {event}"
            if event.kind == "V":
                given_up.update(dict.fromkeys(event.partitions, event.numbers[0]))
            elif event.kind == "A":
                told = f"member {member.number} heard of {last} and then {event}"
                for each in event.partitions & given_up.keys():
                    assert event.numbers[0] >= given_up.pop(each) + ahead, told
                if protocol == "classic" and last is not None and last.kind == "V":
                    assert event.numbers[0] == last.numbers[0], told
            if event.kind in "AV":
                last = event


def check_flow(history: History, limit_s: float) -> None:
    """Checks that no record waits longer than the limit while a member has its partition."""
    for partition, claims in history.claims().items():
        read_until = -1
        for before, claim in itertools.pairwise([None, *claims]):
            assert claim is not None
            for read in claim.reads:
                again, read_until = read.first <= read_until, max(read_until, read.last)
                if again:
                    continue  # no member had committed it
                for each in filter(None, (before, claim)):
                    until = min(each.said_until, read.at)
                    left = until - max(each.start, read.since)
                    stopped = f"member {each.member} left {partition}@{read.first}"
                    assert left <= limit_s, f"{stopped} for {left:.1f} s"


def _highest_by_time(commits: list[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """Returns the times in order, and the highest offset that was committed until each of them."""
    commits = sorted(commits)
    highest = itertools.accumulate((offset for _, offset in commits), max)
    return [at for at, _ in commits], list(highest)
