"""Two groups on a real cluster whose nodes are killed (-9) in turn while members read and commit.

The test kills each group's coordinator and each partition's leader in this way. One group speaks
the classic protocol, the other KIP-848's. Both read the same topic. tests/support/groups/checks.py
checks what the members wrote: each record was read, a record that was read twice was not committed
before, and no member committed what it had not received.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.cluster.three_nodes import PARTITIONS, new_topic, wait_in_sync, wait_moved
from tests.integration.support.clients import Clients
from tests.integration.support.storm import Storm, Stream
from tests.support.brokers import Broker
from tests.support.groups import checks
from tests.support.groups.history import History
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until

MEMBERS = 2
LIMIT_S = 60
# A write to the group's log waits until the dead node has left the in-sync replicas, which takes
# 6 seconds. Until then heartbeats may get no response, and a commit waits between two polls.
SESSION_MS, MAX_POLL_INTERVAL_MS = 30_000, 60_000
OPTIONS = {
    "classic": {"session_timeout_ms": SESSION_MS, "max_poll_interval_ms": MAX_POLL_INTERVAL_MS},
    "consumer": {"max_poll_interval_ms": MAX_POLL_INTERVAL_MS},
}

pytestmark = pytest.mark.timeout(600)  # three nodes start one after another


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[RealKafka]:
    """Replaces the usual fixture: sessions are longer."""
    configs = {
        "min.insync.replicas": "2",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
    }
    with RealKafka("4.3", nodes=3, configs=configs, heap="512m") as kafka:
        yield kafka


def test_groups_go_on_whoever_is_killed(
    cluster: RealKafka, clients: Clients, tmp_path: Path
) -> None:
    """No member loses a partition: the coordinator returns within the session. Scenario 4."""
    topic = new_topic(cluster)
    broker = Broker("kafka-4.3", cluster.bootstrap_servers, cluster.logs)
    stream = Stream(clients.producer(cluster, acks="all", linger_ms=5), topic, PARTITIONS)
    with ExitStack() as stack:
        groups: dict[str, Storm] = {}
        for protocol in ("classic", "consumer"):
            folder = tmp_path / protocol
            folder.mkdir()
            made = Storm(
                broker,
                topic,
                PARTITIONS,
                protocol,
                folder,
                stream,
                seed=1,
                group=protocol,
                options=OPTIONS[protocol],
            )
            groups[protocol] = stack.enter_context(made)
        with stream:
            for group in groups.values():
                for _ in range(MEMBERS):
                    group.join(alone=False)
            for group in groups.values():
                group.settle()
            # One member hears of it last, and its listener is called, although it gets nothing.
            wait_until(lambda: _share_a_generation(groups["classic"]), LIMIT_S, every=0.1)
            stream.goes_on(10)
            settled = time.monotonic()
            for node in cluster.nodes:
                cluster.kill(node.node_id)
                wait_moved(cluster, topic, node.node_id)
                for group in groups.values():
                    _reads_and_commits(group)
                cluster.start_node(node.node_id)
                wait_in_sync(clients, cluster, topic)
            over = time.monotonic()
        ends = broker.wire.end_offsets(topic)
        for protocol, group in groups.items():
            wait_until(lambda group=group: group.look().read_counts() == ends, LIMIT_S)  # type: ignore[misc]
            group.end()
            _check(group.history, ends)
            moved = _moves(group.history, settled, over)
            assert not moved, f"{protocol}: partitions moved: {moved}"


def _share_a_generation(group: Storm) -> bool:
    last = {member.number: event.numbers[0] for member, event in group.look().all("A")}
    return len(set(last.values())) == 1


def _reads_and_commits(group: Storm) -> None:
    """The group reads and commits records sent from now on, in all partitions."""
    now = time.monotonic()

    def done() -> bool:
        committed = {e.numbers[0] for _, e in group.look().all("C") if e.at > now}
        read = {e.numbers[0] for _, e in group.history.all("R") if e.at > now}
        return committed == read == set(range(PARTITIONS))

    wait_until(done, LIMIT_S, every=0.1, what="the group reading and committing")


def _check(history: History, ends: dict[int, int]) -> None:
    checks.check_owners(history)
    checks.check_read(history, ends)
    checks.check_commits(history)
    checks.check_received(history)


def _moves(history: History, settled: float, over: float) -> list[str]:
    """Returns the listener calls of the members between two times."""
    return [
        f"member {member.number}: {event}"
        for kind in "AVL"
        for member, event in history.all(kind)
        if settled < event.at < over
    ]
