"""Makes the clients of one test, closes them at its end, and has steps that most tests need."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

CLOSE_LIMIT_S = 5
READ_LIMIT_S = 60


_Client = TypeVar("_Client")


class HasBootstrap(Protocol):
    """A broker of any kind."""

    @property
    def bootstrap_servers(self) -> str: ...


class Clients:
    """Makes clients and closes them all."""

    def __init__(self) -> None:
        self._opened: list[Any] = []

    def producer(self, broker: HasBootstrap, **options: Any) -> KafkaProducer[Any, Any]:
        """Makes a producer, with linger_ms=0 unless the test sets it."""
        options = {"linger_ms": 0, **options}
        made = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options)
        return self._keep(made)

    def consumer(
        self,
        broker: HasBootstrap,
        topic: str | None = None,
        partitions: Iterable[int] = (0,),
        **options: Any,
    ) -> KafkaConsumer[Any, Any]:
        """Makes a consumer that reads partitions of a topic from the beginning."""
        options = {"auto_offset_reset": "earliest", **options}
        made = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, **options)
        if topic is not None:
            made.assign([TopicPartition(topic, each) for each in partitions])
        return self._keep(made)

    def admin(self, broker: HasBootstrap, **options: Any) -> KafkaAdminClient:
        """Makes an admin client."""
        return self._keep(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, **options))

    def _keep(self, made: _Client) -> _Client:
        self._opened.append(made)
        return made

    def close(self) -> None:
        """Closes all clients, the most recent first."""
        while self._opened:
            each = self._opened.pop()
            if isinstance(each, KafkaProducer):
                each.close(timeout=CLOSE_LIMIT_S)
            elif isinstance(each, KafkaConsumer):
                each.close(timeout_ms=CLOSE_LIMIT_S * 1000)
            else:
                each.close()


def read(consumer: KafkaConsumer[Any, Any], count: int, limit: float = READ_LIMIT_S) -> list[Any]:
    """Returns the next `count` records of all partitions, in the order in which poll returns them.

    Raises:
        TimeoutError: the records did not arrive in time.
    """
    found: list[Any] = []

    def enough() -> bool:
        for records in consumer.poll(100).values():
            found.extend(records)
        return len(found) >= count

    wait_until(enough, limit, every=0, what=lambda: f"record {count}, after {len(found)}")
    return found


def read_more(consumer: KafkaConsumer[Any, Any], for_s: float = 0.5) -> list[Any]:
    """Returns all records that arrive within a time, to show that no more do."""
    found: list[Any] = []
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        for records in consumer.poll(50).values():
            found.extend(records)
    return found


def committed(clients: Clients, broker: HasBootstrap, topic: str, count: int) -> list[bytes]:
    """Returns the values that a read_committed consumer reads: `count`, and no more."""
    consumer = clients.consumer(broker, topic, isolation_level="read_committed")
    found = read(consumer, count) if count else []
    return [record.value for record in [*found, *read_more(consumer)]]


def by_partition(records: Iterable[Any]) -> dict[int, list[Any]]:
    """Groups records by partition and keeps their order."""
    found: dict[int, list[Any]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def fill(
    clients: Clients, broker: HasBootstrap, topic: str, count: int, **options: Any
) -> list[bytes]:
    """Sends `count` small values to one partition (0 by default) and returns them."""
    partition = options.pop("partition", 0)
    producer = clients.producer(broker, **{"linger_ms": 5, **options})
    values = [b"value-%d" % number for number in range(count)]
    producer.send_many(topic, values, partition=partition).get(READ_LIMIT_S)
    return values


@contextmanager
def within(limit_s: float, at_least_s: float = 0.0) -> Iterator[None]:
    """Checks that the block takes at most `limit_s` and at least `at_least_s`."""
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    assert took <= limit_s, f"took {took:.2f} s, which is more than {limit_s} s"
    assert took >= at_least_s, f"took {took:.2f} s, which is less than {at_least_s} s"
