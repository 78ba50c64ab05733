"""Consume, transform, produce: each record once, even if the process is killed many times."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid

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

LIMIT_S = 600
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
# Records per transaction. The embedded broker ends a transaction very fast. Small transactions
# keep the loop from finishing before it is killed.
TRANSACTION_RECORDS, EMBEDDED_TRANSACTION_RECORDS = 500, RECORDS // 1000
# A process is killed after this share of all records, or after a number of seconds in this range
# since its first record, whichever is first.
LIFE_RECORDS, LIFE_S = RECORDS // 8, (2.0, 4.0)
# It waits for its end after this many, so it cannot finish while this process is not scheduled.
LIFE_RECORDS_MAX = RECORDS // 4


def test_a_loop_that_is_killed_again_and_again_writes_each_record_once(
    broker: Broker, clients: Clients
) -> None:
    source = broker.create_topic("loop-in", PARTITIONS)
    sink = broker.create_topic("loop-out", PARTITIONS)
    fill_source(clients, broker, source)
    kills = run_to_the_end(broker, source, sink)
    assert kills >= 2, "the loop was too fast to be killed"
    check_each_once(clients, broker, sink)


def run_to_the_end(broker: Broker, source: str, sink: str) -> int:
    """Restarts and kills (-9) the program until it ends normally. Counts the kills."""
    name = uuid.uuid4().hex
    program = [sys.executable, "-m", "tests.integration.transactions.transformer"]
    records = EMBEDDED_TRANSACTION_RECORDS if broker.embedded else TRANSACTION_RECORDS
    where = [broker.bootstrap_servers, source, sink, str(PARTITIONS)]
    command = [*program, *where, name, str(records), str(LIFE_RECORDS_MAX)]
    chance = random.Random(4)
    end = time.monotonic() + LIMIT_S
    kills = 0
    while time.monotonic() < end:
        before = written(broker, sink)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            if not ends_within(process, chance.uniform(*LIFE_S), broker, sink, before):
                kills += 1
                continue
            assert process.communicate(timeout=60)[0] == "done\n"
            assert process.returncode == 0
            return kills
        finally:
            process.kill()
            process.communicate()
    raise TimeoutError(f"not done within {LIMIT_S} s, {kills} kills")


def ends_within(
    process: subprocess.Popen[str], life_s: float, broker: Broker, sink: str, before: int
) -> bool:
    """Returns False at the limit: seconds since the first record, or records written."""
    first = None
    while process.poll() is None:
        more = written(broker, sink) - before
        # The markers that end its predecessor's open transaction are not its records.
        if more > PARTITIONS and first is None:
            first = time.monotonic()
        if more >= LIFE_RECORDS or (first and time.monotonic() - first > life_s):
            return False
        time.sleep(0.01)
    return True


def written(broker: Broker, sink: str) -> int:
    """Returns the number of offsets used so far, with markers and aborted records."""
    return sum(broker.wire.end_offsets(sink).values())
