"""One group of members of four clients, which come, go and are killed.

Every record is read, none again once a commit that covers it was acknowledged, and no partition has
two owners in one generation.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import java, peers
from tests.support.brokers import Broker, Brokers
from tests.support.paths import ROOT
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import KafkaProducer

PARTITIONS = 12
RECORDS = 1_000_000
LIMIT_S = 300
# A member's clock is read before its line is written.
SLACK_NS = 50_000_000


class Member:
    """A member in a process of its own."""

    def __init__(self, client: str, broker: Broker, topic: str, strategy: str, file: Path) -> None:
        self.client, self.file = client, file
        where = broker.bootstrap_servers, topic, f"group-{topic}", str(file), strategy
        if client == "java":
            command = java.command("GroupMember", *where, classes=java.compiled("GroupMember"))
        else:
            python = str(peers.python_of(client))
            command = [python, "-m", "tests.support.clients.member", client, *where]
        self.errors = file.with_suffix(".err")
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=peers.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors.open("wb"),
        )

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self.errors.read_text(encoding="utf-8")[-3000:]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def lines(self, kind: str) -> list[list[str]]:
        if not self.file.exists():
            return []
        rows = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [row.split() for row in rows if row.startswith(kind + " ") and row.endswith("\n")]


class Crew:
    """All members that there ever were."""

    def __init__(self, broker: Broker, topic: str, strategy: str, folder: Path) -> None:
        self._start = lambda client: Member(client, broker, topic, strategy, self._file(folder))
        self._numbers = itertools.count(1)
        self.members: list[Member] = []

    def _file(self, folder: Path) -> Path:
        return folder / f"member-{next(self._numbers)}"

    def join(self, client: str) -> Member:
        self.members.append(self._start(client))
        return self.members[-1]

    def read(self) -> dict[int, set[int]]:
        """The offsets read so far, by partition."""
        found: dict[int, set[int]] = defaultdict(set)
        for member in self.members:
            for _, _, partition, first, last in member.lines("R"):
                found[int(partition)].update(range(int(first), int(last) + 1))
        return found

    def count(self) -> int:
        return sum(len(each) for each in self.read().values())

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.kill()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Callable[[Broker, str, str], Crew]]:
    made: list[Crew] = []

    def make(broker: Broker, topic: str, strategy: str) -> Crew:
        made.append(Crew(broker, topic, strategy, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("kind", ["kafka-4.3", "embedded"])
def test_members_of_four_clients_share_a_stream(
    kind: str, strategy: str, brokers: Brokers, crew: Callable[[Broker, str, str], Crew]
) -> None:
    broker = brokers.get(kind)
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
        share(producer, broker, strategy, crew)


def share(
    producer: KafkaProducer[Any, Any],
    broker: Broker,
    strategy: str,
    crew: Callable[[Broker, str, str], Crew],
) -> None:
    count = scaled(RECORDS)
    topic = broker.create_topic("mixed", PARTITIONS)
    numbers = iter(range(count))

    def send(some: int) -> None:
        for number in itertools.islice(numbers, some):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(60)

    def goes_on(members: Crew, some: int) -> None:
        before = members.count()
        send(some)
        wait_until(lambda: members.count() >= before + some // 2, 60, every=0.2, what="reading")

    step = count // 8
    group = crew(broker, topic, strategy)
    first = group.join("thalweg")
    goes_on(group, step)
    second, third = group.join("confluent-kafka"), group.join("kafka-python")
    group.join("java")
    group.join("thalweg")
    wait_until(lambda: all(each.lines("A") for each in group.members), 60, what="all joined")
    goes_on(group, step)
    first.kill()
    goes_on(group, step)
    second.leave()
    goes_on(group, step)
    group.join("thalweg")
    third.kill()
    goes_on(group, step)
    send(count)
    wait_until(lambda: group.count() >= count, LIMIT_S, every=0.5, what=lambda: str(group.count()))
    for member in group.members:
        if member.process.poll() is None:
            member.leave()
    check(group, broker.wire.end_offsets(topic))


def check(group: Crew, ends: dict[int, int]) -> None:
    read = group.read()
    assert {p: len(read[p]) for p in range(PARTITIONS)} == ends
    committed: dict[int, list[tuple[int, int]]] = defaultdict(list)
    owners: dict[tuple[int, int], set[int]] = defaultdict(set)
    for index, member in enumerate(group.members):
        for _, time_ns, partition, offset in member.lines("C"):
            committed[int(partition)].append((int(time_ns), int(offset)))
        for _, _, generation, *partitions in member.lines("A"):
            for partition in partitions[0].split(",") if partitions else ():
                if int(generation) >= 0:
                    owners[int(generation), int(partition)].add(index)
    assert not {where: who for where, who in owners.items() if len(who) > 1}
    for index, member in enumerate(group.members):
        for _, time_ns, partition, first, _ in member.lines("R"):
            before = [
                at for when, at in committed[int(partition)] if when + SLACK_NS < int(time_ns)
            ]
            again = max(before, default=0)
            assert int(first) >= again, f"member {index} read {partition}@{first} again: {again}"
