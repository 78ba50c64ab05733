"""Consume, transform, produce, in a group: each record once, whichever member is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.support.clients import Clients
from tests.integration.transactions.exactly_once import (
    PARTITIONS,
    RECORDS,
    check_each_once,
    fill_source,
)
from tests.support.brokers import Broker
from tests.support.paths import ROOT
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient

MEMBERS = 3
KILLS = scaled(15, minimum=2)
LIMIT_S = 900
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
# Small enough that a kill usually happens during a transaction.
TRANSACTION_RECORDS = max(20, RECORDS // 500)


class Member:
    """A member in its own process. Its successors use the same transactional ID."""

    def __init__(self, number: int, arguments: list[str]) -> None:
        program = [sys.executable, "-m", "tests.integration.transactions.transforming_member"]
        bootstrap, source, sink, group, protocol = arguments
        name = f"{group}-{number}"
        command = [*program, bootstrap, source, sink, group, name, str(TRANSACTION_RECORDS)]
        self.number = number
        self.process = subprocess.Popen(
            [*command, protocol], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def end(self) -> None:
        _, errors = self.process.communicate(timeout=60)  # closes its input
        assert self.process.returncode == 0, errors.decode()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_members_are_killed_writes_each_record_once(
    modern_broker: Broker, protocol: str, clients: Clients
) -> None:
    source = modern_broker.create_topic("shared-in", PARTITIONS)
    sink = modern_broker.create_topic("shared-out", PARTITIONS)
    fill_source(clients, modern_broker, source)
    with running(modern_broker, source, sink, protocol) as (group, members, arguments):
        admin = clients.admin(modern_broker)
        for kill in range(KILLS):
            reached = RECORDS * (kill + 1) // (KILLS + 1)
            wait_until(lambda reached=reached: done(admin, group) >= reached, LIMIT_S)  # type: ignore[misc]
            victim = members[kill % MEMBERS]
            victim.kill()
            members[kill % MEMBERS] = Member(victim.number, arguments)
        wait_until(lambda: done(admin, group) == RECORDS, LIMIT_S, what="all being committed")
    check_each_once(clients, modern_broker, sink)


@contextmanager
def running(
    broker: Broker, source: str, sink: str, protocol: str
) -> Iterator[tuple[str, list[Member], list[str]]]:
    """Runs members during the block. Yields the group, the members and their arguments."""
    group = f"group-{source}"
    arguments = [broker.bootstrap_servers, source, sink, group, protocol]
    members = [Member(number, arguments) for number in range(MEMBERS)]
    try:
        yield group, members, arguments
        for each in members:
            each.end()
    finally:
        for each in members:
            each.kill()


def done(admin: KafkaAdminClient, group: str) -> int:
    """Returns the number of records that the group has committed."""
    offsets = admin.list_group_offsets({group: None})[group]
    return sum(at.offset for at in offsets.values())
