"""Transactions while the nodes of a real cluster are killed (-9) and restarted in turn."""

from __future__ import annotations

from tests.integration.cluster.three_nodes import PARTITIONS, new_topic, wait_in_sync
from tests.integration.cluster.transactional_load import TransactionalLoad
from tests.integration.support.clients import Clients
from tests.integration.support.load import RECORDS
from tests.support.kafka.cluster import RealKafka

SHARE = RECORDS // 4  # sent before the first node is stopped, and while each of three is down


def _coordinator_first(clients: Clients, cluster: RealKafka, transactional_id: str) -> list[int]:
    """Returns all nodes, the transaction coordinator first."""
    with clients.admin(cluster) as admin:
        found = admin.describe_transactions([transactional_id])
    coordinator = found[transactional_id].coordinator_id
    return sorted((1, 2, 3), key=lambda node: node != coordinator)


def test_transactions_are_whole_whoever_is_killed(cluster: RealKafka, clients: Clients) -> None:
    """Leaders and coordinators are killed in turn, during transactions."""
    topic = new_topic(cluster)
    producer = clients.producer(cluster, transactional_id="killed", linger_ms=2)
    producer.init_transactions()
    with TransactionalLoad(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in _coordinator_first(clients, cluster, "killed"):
            cluster.kill(node)
            load.wait_for(SHARE)
            cluster.start_node(node)
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster, isolation_level="read_committed"))


def test_a_rolling_restart_costs_no_transaction(cluster: RealKafka, clients: Clients) -> None:
    """Coordinators move, and the application does not notice."""
    topic = new_topic(cluster)
    producer = clients.producer(cluster, transactional_id="rolled", linger_ms=2)
    producer.init_transactions()
    with TransactionalLoad(producer, topic, PARTITIONS) as load:
        load.wait_for(SHARE)
        for node in _coordinator_first(clients, cluster, "rolled"):
            cluster.stop_node(node)
            load.wait_for(SHARE)
            cluster.start_node(node)
            wait_in_sync(clients, cluster, topic)
    load.check(clients.consumer(cluster, isolation_level="read_committed"))
    assert load.failed == 0
