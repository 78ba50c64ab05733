"""Real brokers restarted after they wrote batches whose answers were lost.

A restarted broker remembers only the last batch of each producer, so it refuses to hear of the
others again: an idempotent producer must neither double them nor call them failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.integration.clients import Clients, by_partition, read
from tests.support.kafka import RealKafka
from tests.support.proxy import Proxies
from tests.support.waiting import wait_until
from tests.support.wire import Wire

# So many batches of a partition may be without an answer, and on a connection so many requests.
UNANSWERED = 5
# More are sent meanwhile, and wait.
NUMBERS = range(UNANSWERED + 4)


@pytest.mark.parametrize("version, nodes", [("4.3", 1), ("3.9", 1), ("4.3", 3)])
def test_batches_written_without_an_answer_are_not_doubled_by_a_restart(
    start_kafka: Callable[..., RealKafka], clients: Clients, version: str, nodes: int
) -> None:
    kafka = start_kafka(version, nodes=nodes, proxied=True)
    # Each node leads one.
    partitions = range(nodes)
    kafka.create_topic("t", nodes, replication_factor=nodes)
    wire = Wire(kafka.bootstrap_servers)

    def has_ends(offset: int) -> bool:
        return wire.end_offsets("t") == dict.fromkeys(partitions, offset)

    with Proxies(kafka) as proxies:
        producer = clients.producer(proxies, acks="all", linger_ms=0, request_timeout_ms=60_000)
        sent = []
        for number in NUMBERS:
            sent += [
                producer.send("t", b"%d" % number, partition=partition) for partition in partitions
            ]
            if number == 0:
                producer.flush(30)
                proxies.lose_answers()
            elif number <= UNANSWERED:
                # Each is a batch of its own, and written.
                wait_until(partial(has_ends, number + 1), 30)
        assert not any(each.is_done for each in sent[nodes:])
        for node in kafka.nodes:
            kafka.stop_node(node.node_id)
            kafka.start_node(node.node_id)
        proxies.pass_on()
        offsets = [each.get(90).offset for each in sent]

    found = by_partition(read(clients.consumer(kafka, "t", partitions), len(sent)))
    for partition in partitions:
        assert [int(record.value) for record in found[partition]] == list(NUMBERS)
    assert has_ends(len(NUMBERS))
    # Where it wrote the first of those without an answer the broker no longer knows.
    for offset, number in zip(offsets, (n for n in NUMBERS for _ in partitions), strict=True):
        forgotten = 0 < number <= UNANSWERED
        assert offset == number or (forgotten and offset == -1)
    assert -1 in offsets
