"""Two groups on a real cluster whose nodes are killed (-9) in turn while members read and commit.

Whoever coordinates a group and whoever leads a partition is killed that way. One group speaks the
classic protocol, the other KIP-848's; both read the same topic. support/group_checks.py says what
must be true of what the members wrote down: each record was read, what was read twice was not
committed, and nothing was committed that its member had not received.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.clients import Clients
from tests.integration.storm import Storm, Stream
from tests.integration.three_nodes import PARTITIONS, new_topic, wait_in_sync, wait_moved
from tests.support import group_checks
from tests.support.brokers import Broker
from tests.support.group_history import History
from tests.support.kafka import RealKafka
from tests.support.waiting import wait_until

MEMBERS = 2
LIMIT_S = 60
# What is written to the group's log waits until the dead node is out of its replicas in sync, which
# takes 6 seconds. Until then no heartbeat need be answered, and a commit waits between two polls.
SESSION_MS, MAX_POLL_INTERVAL_MS = 30_000, 60_000
OPTIONS = {
    "classic": {"session_timeout_ms": SESSION_MS, "max_poll_interval_ms": MAX_POLL_INTERVAL_MS},
    "consumer": {"max_poll_interval_ms": MAX_POLL_INTERVAL_MS},
}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[RealKafka]:
    """In place of the usual one: sessions are longer."""
    configs = {
        "min.insync.replicas": "2",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
    }
    with RealKafka("4.3", nodes=3, configs=configs, heap="512m") as kafka:
        yield kafka


def test_groups_go_on_whoever_is_killed(
    cluster: RealKafka, clients: Clients, tmp_path: Path
) -> None:
    """No member loses a partition, as the coordinator is back within the session; scenario 4."""
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


def _reads_and_commits(group: Storm) -> None:
    """Records sent from now on are read and committed, in all partitions, by the same group."""
    now = time.monotonic()

    def done() -> bool:
        committed = {e.numbers[0] for _, e in group.look().all("C") if e.at > now}
        read = {e.numbers[0] for _, e in group.history.all("R") if e.at > now}
        return committed == read == set(range(PARTITIONS))

    wait_until(done, LIMIT_S, every=0.1, what="the group reading and committing")


def _check(history: History, ends: dict[int, int]) -> None:
    group_checks.check_owners(history)
    group_checks.check_read(history, ends)
    group_checks.check_commits(history)
    group_checks.check_received(history)


def _moves(history: History, settled: float, over: float) -> list[str]:
    """What the members were told of partitions in between."""
    return [
        f"member {member.number}: {event}"
        for kind in "AVL"
        for member, event in history.all(kind)
        if settled < event.at < over
    ]
