"""Fills the source of consume-transform-produce programs, and checks their result."""

from __future__ import annotations

from tests.integration.support.clients import Clients, HasBootstrap, read, read_more
from tests.support.scale import scaled

PARTITIONS = 4
RECORDS = scaled(500_000, minimum=20_000)


def fill_source(clients: Clients, broker: HasBootstrap, source: str) -> None:
    """Sends the numbers below `RECORDS` to the partitions in turn."""
    producer = clients.producer(broker, linger_ms=20)
    for partition in range(PARTITIONS):
        values = [b"%d" % number for number in range(partition, RECORDS, PARTITIONS)]
        producer.send_many(source, values, partition=partition).get(120)


def check_each_once(clients: Clients, broker: HasBootstrap, sink: str) -> None:
    """Checks that each number was transformed once, in the order of its partition."""
    consumer = clients.consumer(broker, sink, range(PARTITIONS), isolation_level="read_committed")
    records = [*read(consumer, RECORDS, limit=120), *read_more(consumer)]
    for partition in range(PARTITIONS):
        found = [int(record.value[:-1]) for record in records if record.partition == partition]
        wanted = list(range(partition, RECORDS, PARTITIONS))
        missing = sorted(set(wanted) - set(found))[:10]
        assert found == wanted, f"{len(found)} of {len(wanted)} in {partition}, without {missing}"
