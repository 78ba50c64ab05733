"""Members of one group come and go at random: it converges, and what stays is never stopped."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.integration.clients import Clients
from tests.integration.storm import Storm, Stream
from tests.integration.storm_history import History
from tests.support.brokers import Brokers
from tests.support.scale import scaled
from tests.support.waiting import wait_until

MEMBERS = scaled(50, minimum=8)
STEPS = scaled(200, minimum=10)
PARTITIONS = 2 * MEMBERS + 3  # so that shares differ
# Less than the session of a killed member, for which a classic group waits.
FLOW_LIMIT_S = 3.0
READ_LIMIT_S = 60

pytestmark = pytest.mark.timeout(180 + 5 * STEPS)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("kind", ["embedded", "kafka-4.3"])
def test_a_storm_of_members_converges_and_stops_nothing_that_stays(
    kind: str, protocol: str, brokers: Brokers, clients: Clients, tmp_path: Path
) -> None:
    broker = brokers.get(kind)
    configs = {"message.timestamp.type": "LogAppendTime"}  # how long a record waits at the broker
    topic = broker.create_topic("storm", PARTITIONS, configs=configs)
    stream = Stream(clients.producer(broker, linger_ms=5), topic, PARTITIONS)
    with Storm(broker, topic, PARTITIONS, protocol, tmp_path, stream, seed=1) as storm:
        with stream:
            stream.goes_on(3)
            for number in range(MEMBERS):
                storm.join(alone=number % 4 == 0)
            settled = [storm.settle()]
            storm.rage(STEPS, MEMBERS // 2, MEMBERS)
            settled.append(storm.settle())
            who_joins_takes_only_what_it_gets(storm)
            stream.goes_on(3)
        ends = broker.wire.end_offsets(topic)
        wait_until(lambda: storm.look().read_counts() == ends, READ_LIMIT_S, every=0.2)
        storm.end()
    print(f"settled within {settled} s; {sum(ends.values())} records;", len(storm.history.members))
    check(storm.history, protocol, ends)


def who_joins_takes_only_what_it_gets(storm: Storm) -> None:
    """In the calm: nothing else is taken from anybody."""
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
    history.check_owners()
    history.check_read(ends)
    history.check_commits()
    history.check_stays(protocol)
    history.check_flow(FLOW_LIMIT_S)
    if protocol == "classic":
        assert history.longest_join_s() > FLOW_LIMIT_S, "no rebalance was long enough to tell"
