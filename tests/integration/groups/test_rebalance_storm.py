"""Members of a group come and go at random: it converges, and never stops what need not move."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.storm import Storm, Stream
from tests.support.brokers import MODERN_KINDS, Broker
from tests.support.groups import checks
from tests.support.groups.history import History
from tests.support.scale import scaled
from tests.support.waiting import wait_until

MEMBERS = scaled(50, minimum=8)
STEPS = scaled(200, minimum=10)
# Each seed is a different storm.
SEEDS = {
    (protocol, kind): seed
    for seed, (protocol, kind) in enumerate(
        itertools.product(("classic", "consumer"), MODERN_KINDS), start=1
    )
}
PARTITIONS = 2 * MEMBERS + 3  # so that shares differ
# Less than the session of a killed member, which a classic group waits for: 12 s, or 6 s with
# KIP-848. More than most pauses of a busy machine.
FLOW_LIMIT_S = {"classic": 6.0, "consumer": 4.5}
READ_LIMIT_S = 60

pytestmark = pytest.mark.timeout(180 + 5 * STEPS)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_storm_of_members_converges_and_stops_nothing_that_stays(
    modern_broker: Broker, protocol: str, clients: Clients, tmp_path: Path
) -> None:
    """Scenario 34."""
    configs = {
        "message.timestamp.type": "LogAppendTime",  # shows how long a record waits at the broker
        # Otherwise all partitions would reach their first index entry in one request, which then
        # takes seconds on a slow disk.
        "index.interval.bytes": str(1 << 24),
    }
    topic = modern_broker.create_topic("storm", PARTITIONS, configs=configs)
    stream = Stream(clients.producer(modern_broker, linger_ms=5), topic, PARTITIONS)
    seed = SEEDS[protocol, modern_broker.kind]
    with Storm(modern_broker, topic, PARTITIONS, protocol, tmp_path, stream, seed) as storm:
        with stream:
            stream.goes_on(3)
            for number in range(MEMBERS):
                storm.join(alone=number % 4 == 0)
            settled = [storm.settle()]
            storm.rage(STEPS, MEMBERS // 2, MEMBERS)
            settled.append(storm.settle())
            if protocol == "classic":
                a_join_waits_for_the_dead(storm)
            who_joins_takes_only_what_it_gets(storm)
            stream.goes_on(3)
        ends = modern_broker.wire.end_offsets(topic)
        wait_until(lambda: storm.look().read_counts() == ends, READ_LIMIT_S, every=0.2)
        storm.end()
    print(f"settled within {settled} s; {sum(ends.values())} records;", len(storm.history.members))
    check(storm.history, protocol, ends)


def a_join_waits_for_the_dead(storm: Storm) -> None:
    """Makes sure of it: if the machine pauses after a kill, the next join may not wait for long."""
    for _ in range(5):
        if storm.look().longest_join_s() > FLOW_LIMIT_S["classic"]:
            return
        storm.kill()
        storm.join()
        storm.settle()


def who_joins_takes_only_what_it_gets(storm: Storm) -> None:
    """When the group is stable, a join moves only the partitions that the new member gets."""
    before = storm.look().owners()
    now = time.monotonic()
    joined = storm.join()
    storm.settle()
    after = storm.history.owners()
    moved = {partition for partition in before if before[partition] != after[partition]}
    assert moved == {partition for partition, who in after.items() if who == {joined}}
    taken = [
        partition
        for member in storm.history.members.values()
        for event in member.events
        if event.kind == "V" and event.at > now
        for partition in event.partitions
    ]
    assert sorted(taken) == sorted(moved)


def check(history: History, protocol: str, ends: dict[int, int]) -> None:
    checks.check_owners(history)
    checks.check_read(history, ends)
    checks.check_commits(history)
    checks.check_received(history)
    checks.check_stays(history, protocol)
    checks.check_flow(history, FLOW_LIMIT_S[protocol])
    if protocol == "classic":
        assert history.longest_join_s() > FLOW_LIMIT_S[protocol], (
            "no rebalance was long enough to tell"
        )


# What is wrong: (events "time member kind numbers...", part of the failure's message).
WRONG: dict[str, tuple[str, str]] = {
    "two owners in a generation": ("0 1 A 5 0, 1 1 V 5 0, 2 2 A 5 0", "(5, 0): {1, 2}"),
    "two owners at a time": ("0 1 A 5 0, 2 2 A 6 0, 3 1 V 6 0", "while"),
    "an owner while a killed one may come back": ("0 1 A 5 0, 1 1 K, 3 2 A 6 0", "while"),
    "an owner while another may poll again": ("0 1 A 5 0, 1 1 Z 0, 5 2 A 6 0", "while"),
    "a record nobody read": ("0 1 A 5 0, 9 1 R 0 0 8 0", "{0: 9}"),
    "a gap": (
        "0 1 A 5 0, 1 1 R 0 0 4 0, 2 1 R 0 6 9 0, 3 1 V 6 0, 4 2 A 7 0, 4 2 R 0 5 9 0",
        "after",
    ),
    "a record read of somebody else's": ("0 1 A 5 0, 1 2 R 0 0 9 0", "not its own"),
    "a record read after its commit": (
        "0 1 A 5 0, 1 1 R 0 0 9 0, 2 1 C 0 10, 3 1 V 6 0, 4 2 A 7 0, 5 2 R 0 9 9 0",
        "10 was committed",
    ),
    "a commit of what nobody has read": (
        "0 1 A 5 0, 1 1 R 0 0 9 0, 2 1 C 0 11",
        "11 of 0: 10 were read",
    ),
    "what stays being taken": ("0 1 A 5 0, 1 1 R 0 0 9 0, 2 1 V 5 0, 2 1 A 6 0", "heard of"),
    "what stays being lost": ("0 1 A 5 0, 1 1 R 0 0 9 0, 2 1 L 6 0", "has lost"),
    "what is not taken and is missing": ("0 1 A 5 0, 1 1 A 6", "was not told"),
    "a pause": ("0 1 A 5 0, 9 1 R 0 0 9 8000", "left 0@0 for 8.0 s"),
    "a pause until the next owner": (
        "0 1 A 5 0, 7 1 V 6 0, 8 2 A 7 0, 8 2 R 0 0 9 8000",
        "member 1 left 0@0 for 7.0 s",
    ),
    "leaving with a partition": ("0 1 A 5 0, 1 1 X, 1 1 E", "left with"),
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_seen(what: str, protocol: str) -> None:
    rows, message = WRONG[what]
    with pytest.raises(AssertionError, match=re.escape(message)):
        look_at(rows.split(", "), protocol)


def test_who_stalls_is_given_up_so_long_after_its_last_poll() -> None:
    """Between its last poll and its last line the member may have waited for a commit."""
    checks.check_owners(history_of(["0 1 A 5 0", "9 1 Z 2000", "19 2 A 6 0"]))
    with pytest.raises(AssertionError, match="while"):
        checks.check_owners(history_of(["0 1 A 5 0", "9 1 Z 2000", "18.9 2 A 6 0"]))


def look_at(rows: list[str], protocol: str) -> None:
    check(history_of(rows), protocol, {0: 10 if any(" R " in row for row in rows) else 0})


def history_of(rows: list[str]) -> History:
    history = History(1)
    for row in rows:
        at, member, kind, *numbers = row.split()
        history.tell(int(member), float(at), kind, *map(int, numbers))
    return history
