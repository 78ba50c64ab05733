"""Clients of an embedded broker that never log in: they cost little, and others get in."""

from __future__ import annotations

import contextlib
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.scale import FULL_SCALE, scale, scaled
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaProducer

FULL = 9_500  # a node accepts 10,000 connections
COUNT = scaled(FULL, 300)
LIMIT_BYTES = 32 << 20
USERS = {"alice": "secret"}
# A length, and the beginning of a request, which the client does not complete.
UNFINISHED = struct.pack(">ihhi", 500_000, 18, 0, 1)
# Opens connections until there is something to read. Every second one sends the beginning of a
# request.
CLIENTS = """
import resource, socket, sys
host, port, count, unfinished = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened = []
for number in range(count):
    opened.append(socket.create_connection((host, port)))
    if number % 2:
        opened[-1].sendall(bytes.fromhex(unfinished))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> Iterator[None]:
    """Allows this process a descriptor for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < COUNT + 500:
        pytest.skip(f"the system allows only {hard} file descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def silent_clients(broker: EmbeddedBroker, count: int) -> Iterator[None]:
    arguments = ["127.0.0.1", str(broker.ports[0]), str(count), UNFINISHED.hex()]
    with subprocess.Popen(
        [sys.executable, "-c", CLIENTS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            yield
        finally:
            process.communicate("", timeout=60)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def rate(producer: KafkaProducer[Any, Any], seconds: float = 0.5) -> float:
    """Returns the number of requests a second, of which the best of some rounds counts."""
    began, sent = time.monotonic(), 0
    while (took := time.monotonic() - began) < seconds:
        producer.send("t", b"value").get(30)
        sent += 1
    return sent / took


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_silent_clients_cost_little_memory_and_no_rate(
    start_embedded: Callable[..., EmbeddedBroker],
) -> None:
    """Scenario 94."""
    configs = {
        "thalweg.authentication.timeout.ms": 300_000,
        "thalweg.unauthenticated.connections.max": 20_000,
    }
    broker = start_embedded(security_protocol="SASL_PLAINTEXT", users=USERS, configs=configs)
    # A short run has more noise.
    share = 0.9 if scale() >= FULL_SCALE else 0.6
    with KafkaProducer(**broker.client_config(), linger_ms=0) as producer:
        before = max(rate(producer) for _ in range(5))
        memory = resident_bytes()
        with silent_clients(broker, COUNT):
            # Another client may still log in. The broker has accepted the silent ones before it.
            KafkaAdminClient(**broker.client_config()).close()
            # Measured before the broker stores the records that follow.
            grown = resident_bytes() - memory
            # The best of many: other tests run at the same time.
            during, tries = 0.0, 200
            while during < share * before and tries:
                during, tries = max(during, rate(producer)), tries - 1
        after = max(rate(producer) for _ in range(3))
    assert during >= share * min(before, after), (before, during, after)
    assert grown < LIMIT_BYTES * COUNT / 10_000 + (16 << 20), f"{grown} bytes"


def test_clients_beyond_the_limit_wait_until_others_are_gone(
    start_embedded: Callable[..., EmbeddedBroker],
) -> None:
    """Scenario 94."""
    configs = {
        "thalweg.authentication.timeout.ms": 2000,
        "thalweg.unauthenticated.connections.max": 50,
    }
    broker = start_embedded(security_protocol="SASL_PLAINTEXT", users=USERS, configs=configs)
    with KafkaProducer(**broker.client_config(), linger_ms=0) as producer:
        producer.send("t", b"value").get(30)

        def are_not_noticed() -> bool:
            with silent_clients(broker, 120):
                # Who has logged in does not wait until they are gone.
                began = time.monotonic()
                producer.send("t", b"value").get(30)
                took = time.monotonic() - began
                KafkaAdminClient(**broker.client_config(), bootstrap_timeout_ms=60_000).close()
            return took < 1.5

        wait_until(are_not_noticed, 60)  # more than one try only if the machine pauses
