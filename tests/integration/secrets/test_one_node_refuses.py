"""One broker of several refuses a user that the others know already."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

USERS = {"alice": "alice-secret"}


def test_a_node_that_does_not_know_the_user_yet_delays_only_its_own_partitions(
    start_embedded: Callable[..., EmbeddedBroker],
) -> None:
    """Scenario 105."""
    broker = start_embedded(nodes=3, security_protocol="SASL_PLAINTEXT", users=USERS)
    broker.create_topic("t", 3)
    for partition, node in enumerate(broker.nodes):
        broker.move_leader(("t", partition), node)
    refusing = broker.faults.on("SaslAuthenticate", node=broker.nodes[1])
    fault = refusing.then_fail("SASL_AUTHENTICATION_FAILED", times=None)
    options = broker.client_config("alice") | {"reconnect_backoff_max_ms": 500}
    # A client that begins with this node would raise at once.
    servers = broker.bootstrap_servers.split(",")
    options["bootstrap_servers"] = [servers[0], servers[2]]
    with (
        KafkaAdminClient(**options) as admin,
        KafkaProducer(**options) as producer,
        KafkaConsumer(**options, auto_offset_reset="earliest") as consumer,
    ):
        waiting = producer.send("t", b"value", partition=1)
        for _ in range(3):
            assert "t" in admin.list_topics()
            assert producer.send("t", b"value", partition=0).get(20).partition == 0
            assert producer.send("t", b"value", partition=2).get(20).partition == 2
        consumer.assign([TopicPartition("t", 0), TopicPartition("t", 2)])
        read = 0
        while read < 6:
            read += sum(map(len, consumer.poll(5000).values()))
        wait_until(lambda: fault.hits > 0, 20, what="a refused login")
        assert not waiting.is_done
        fault.remove()  # the user has arrived there, too
        assert waiting.get(30).partition == 1
