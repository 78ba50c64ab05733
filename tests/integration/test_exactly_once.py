"""Consume, transform, produce: each record once, however often the process is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid

import pytest

from tests.integration.clients import Clients
from tests.integration.exactly_once import PARTITIONS, RECORDS, check_each_once, fill_source
from tests.support.brokers import Broker
from tests.support.paths import ROOT

LIMIT_S = 600
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
# Of a transaction. The embedded broker ends one in no time: small ones keep the loop from its end
# until it is killed.
TRANSACTION_RECORDS, EMBEDDED_TRANSACTION_RECORDS = 500, RECORDS // 1000
# As a share of all records, and in seconds since its first, whichever comes first: how long a
# process lives.
LIFE_RECORDS, LIFE_S = RECORDS // 8, (2.0, 4.0)


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
    """Starts the program until it ends by itself; kills it (-9) on the way. How often it did."""
    name = uuid.uuid4().hex
    program = [sys.executable, "-m", "tests.integration.transformer"]
    records = EMBEDDED_TRANSACTION_RECORDS if broker.embedded else TRANSACTION_RECORDS
    where = [broker.bootstrap_servers, source, sink, str(PARTITIONS)]
    command = [*program, *where, name, str(records)]
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
    """False when its time is over: seconds since its first record, or records that it wrote."""
    first = None
    while process.poll() is None:
        more = written(broker, sink) - before
        # The markers that end what its predecessor left open are none of its records.
        if more > PARTITIONS and first is None:
            first = time.monotonic()
        if more >= LIFE_RECORDS or (first and time.monotonic() - first > life_s):
            return False
        time.sleep(0.01)
    return True


def written(broker: Broker, sink: str) -> int:
    """Offsets used so far, markers and aborted records among them."""
    return sum(broker.wire.end_offsets(sink).values())
