"""Tests of a real cluster of three nodes, which they kill and restart in turn.

The cluster is the file's; every test leaves its three nodes running and in sync.
"""

from __future__ import annotations

import itertools

from tests.integration.clients import Clients
from tests.support.kafka import RealKafka
from tests.support.waiting import wait_until

PARTITIONS = 4
_numbers = itertools.count(1)


def new_topic(cluster: RealKafka) -> str:
    """A topic on all three nodes."""
    topic = f"t-{next(_numbers)}"
    cluster.create_topic(topic, PARTITIONS, replication_factor=3)
    return topic


def wait_in_sync(clients: Clients, cluster: RealKafka, topic: str) -> None:
    """Until all three nodes have all of a topic."""
    wait_until(lambda: _in_sync(clients, cluster, topic), 60)


def _in_sync(clients: Clients, cluster: RealKafka, topic: str) -> bool:
    with clients.admin(cluster) as admin:
        (found,) = admin.describe_topics([topic])
    return all(len(each["isr_nodes"]) == 3 for each in found["partitions"])
