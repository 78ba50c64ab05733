"""A steady load of numbered records, and the check that each was written once and in order.

with Load(producer, "t", 4) as load:
    broker.kill(1)
    load.wait_for(1000)            1000 more records are acknowledged
load.check(consumer)               all futures succeeded. The log has each record once, in order
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import defaultdict
from types import TracebackType
from typing import Any

from tests.integration.support.clients import READ_LIMIT_S
from tests.support.scale import scale, scaled
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition

# All records of a run with faults.
RECORDS = scaled(2_000_000)
FLUSH_LIMIT_S = 120
# Enough to keep several batches in flight without filling a small machine's memory. A small run
# uses a lower rate, because brokers are starting on the machine at the same time.
RATE_PER_S = scaled(30_000, minimum=12_000)
_PAUSE_S = 0.002 if scale() >= 10 else 0.01
_DIGITS = 9


class Load:
    """Sends records from its own thread while the block runs.

    Args:
        producer: sends the records. Their futures are awaited and checked.
        topic: the topic of the records.
        partitions: the number of partitions of the topic. Records go to each in turn.
        size: the bytes of a value, without its number.
        rate_per_s: the maximum number of records per second.
    """

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        topic: str,
        partitions: int,
        *,
        size: int = 200,
        rate_per_s: int = RATE_PER_S,
    ) -> None:
        self.producer, self.topic, self.partitions = producer, topic, partitions
        self._padding = b"x" * size
        self._pause_every = max(1, round(rate_per_s * _PAUSE_S))
        self._futures: list[Any] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._failed: BaseException | None = None

    @property
    def sent(self) -> int:
        """The number of records handed to the producer so far."""
        return len(self._futures)

    def _send(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                value = numbered(number, self._padding)
                where = number % self.partitions
                self._futures.append(self.producer.send(self.topic, value, partition=where))
                number += 1
                if number % self._pause_every == 0:
                    time.sleep(_PAUSE_S)
        except BaseException as error:
            self._failed = error

    def wait_for(self, more: int, limit: float = 60) -> None:
        """Waits until `more` further records are acknowledged."""
        wanted = self.sent + more
        limit += more / 2000
        wait_until(lambda: self._failed or self.sent >= wanted, limit, what="the load going on")
        if self._failed is None:
            last = self._futures[wanted - 1]
            wait_until(lambda: last.is_done, limit, what="the load being acknowledged")

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if error is None and self._failed is not None:
            raise self._failed

    def check(self, consumer: KafkaConsumer[Any, Any]) -> None:
        """Checks that each record is at its acknowledged offset, once, in the order sent."""
        self.producer.flush(FLUSH_LIMIT_S)
        failed = [each.exception for each in self._futures if not each.succeeded()]
        assert not failed, f"{len(failed)} of {self.sent} failed: {failed[:3]}"
        consumer.assign([TopicPartition(self.topic, each) for each in range(self.partitions)])
        log = Numbers()
        log.read(consumer, self.sent, limit=60 + self.sent / 10_000)
        log.read_more(consumer)
        for partition in range(self.partitions):
            wanted = array("q", range(partition, self.sent, self.partitions))
            log.check(partition, wanted)
            offsets = [self._futures[number].get(0).offset for number in wanted]
            known = [offset for offset in offsets if offset >= 0]
            # -1: the batch was written, but its response was lost and the broker forgot the offset.
            assert known == [at for at, offset in enumerate(offsets) if offset >= 0]


def numbered(number: int, rest: bytes) -> bytes:
    """Returns a value that begins with its number, as `Numbers` reads it."""
    return b"%0*d%s" % (_DIGITS, number, rest)


class Numbers:
    """The numbers at the start of values, by partition, in the order read.

    Keeps only the numbers: two million complete records would take half a gigabyte.
    """

    def __init__(self) -> None:
        self._found: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def read(
        self, consumer: KafkaConsumer[Any, Any], count: int, limit: float = READ_LIMIT_S
    ) -> None:
        """Reads `count` more numbers.

        Raises:
            TimeoutError: the records did not arrive in time.
        """
        wanted = len(self) + count

        def enough() -> bool:
            self._poll(consumer)
            return len(self) >= wanted

        wait_until(enough, limit, every=0, what=lambda: f"record {wanted}, after {len(self)}")

    def read_more(self, consumer: KafkaConsumer[Any, Any], for_s: float = 0.5) -> None:
        """Reads everything that arrives within a time, to show that no more records do."""
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            self._poll(consumer)

    def _poll(self, consumer: KafkaConsumer[Any, Any]) -> None:
        for where, records in consumer.poll(100).items():
            numbers = [int(each.value[:_DIGITS]) for each in records]
            self._found[where.partition].extend(numbers)

    def check(self, partition: int, wanted: array[int]) -> None:
        """Checks that a partition's log has exactly these numbers, each once, in this order."""
        found = self._found[partition]
        assert found == wanted, _difference(found, wanted)


def _difference(found: array[int], wanted: array[int]) -> str:
    """Describes what is lost, duplicated or out of order."""
    lost = sorted(set(wanted) - set(found))
    doubled = len(found) - len(set(found))
    order = next((a for a, b in zip(found, sorted(found), strict=True) if a != b), None)
    return f"lost {len(lost)} {lost[:5]}, doubled {doubled}, out of order from {order}"
