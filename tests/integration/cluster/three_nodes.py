"""Helpers for tests of a real cluster of three nodes, which the tests kill and restart in turn.

The tests of a file share the cluster. Each test leaves its three nodes running and in sync.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from tests.integration.support.clients import Clients
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from tests.support.wire import Wire, WireError

PARTITIONS = 4
_numbers = itertools.count(1)


def new_topic(cluster: RealKafka) -> str:
    """Creates a topic with replicas on all three nodes."""
    topic = f"t-{next(_numbers)}"
    cluster.create_topic(topic, PARTITIONS, replication_factor=3)
    return topic


def wait_in_sync(clients: Clients, cluster: RealKafka, topic: str) -> None:
    """Waits until all three nodes have all records of a topic."""
    wait_until(lambda: _in_sync(clients, cluster, topic), 120, every=0.1)


def wait_moved(cluster: RealKafka, topic: str, node_id: int) -> None:
    """Waits until the other nodes lead all partitions of a topic, as one of them reports."""
    other = next(node for node in cluster.nodes if node.node_id != node_id)
    wire = Wire(f"127.0.0.1:{other.ports['PLAINTEXT']}", timeout=5)

    def moved() -> bool:
        with suppress(OSError, WireError):
            found = wire.metadata(topic).topics[topic]
            return all(each.leader not in (node_id, -1) for each in found)
        return False

    wait_until(moved, 60)


def _in_sync(clients: Clients, cluster: RealKafka, topic: str) -> bool:
    with clients.admin(cluster) as admin:
        (found,) = admin.describe_topics([topic])
    # A node that has just started may not know the topic yet.
    in_sync = [len(each["isr_nodes"]) for each in found["partitions"]]
    return in_sync == [3] * PARTITIONS
