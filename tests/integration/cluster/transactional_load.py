"""A steady load of transactions, and the check that each is complete, once, or not there at all.

with TransactionalLoad(producer, "t", 4) as load:
    broker.kill(1)
    load.wait_for(1000)            1000 more records are committed
load.check(consumer)               a read_committed consumer
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.integration.support.load import Numbers, numbered
from tests.support.scale import scale, scaled
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.errors import AbortableTransactionError, KafkaTimeoutError

# The minimum number of records in a transaction, and how many more it may have. At full scale the
# round trips of commits would otherwise take most of the time.
RECORDS_MIN, RECORDS_MORE = 10, scaled(2_000, minimum=200)
# The test aborts one of this many transactions on purpose.
ABORT_EVERY = 5
# Longer than a broker is down. max_block_ms is a minute.
CALL_LIMIT_S = 180
# A small run pauses, because brokers are starting on the machine at the same time.
_PAUSE_S = 0.0 if scale() >= 10 else 0.02


class TransactionalLoad:
    """Runs transactions in its own thread while the block runs.

    Attributes:
        committed: numbers of the records of committed transactions, in the order sent.
        failed: the number of transactions that had to be aborted.
    """

    def __init__(
        self, producer: KafkaProducer[Any, Any], topic: str, partitions: int, size: int = 200
    ) -> None:
        self.producer, self.topic, self.partitions = producer, topic, partitions
        self.committed: list[int] = []
        self.failed = 0
        self._size = size
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def _run(self) -> None:
        number = transactions = 0
        try:
            while not self._stopping.is_set():
                transactions += 1
                count = RECORDS_MIN + transactions * 37 % RECORDS_MORE
                numbers = range(number, number + count)
                number += count
                if self._transact(numbers, commit=transactions % ABORT_EVERY != 0):
                    self.committed.extend(numbers)
                time.sleep(_PAUSE_S)
        except BaseException as error:
            self._error = error

    def _transact(self, numbers: range, *, commit: bool) -> bool:
        """Runs one transaction, and returns whether it is committed."""
        self.producer.begin_transaction()
        try:
            for number in numbers:
                value = numbered(number, bytes(self._size))
                self.producer.send(self.topic, value, partition=number % self.partitions)
            if commit:
                until_known(self.producer.commit_transaction)
                return True
        except AbortableTransactionError:
            self.failed += 1
        until_known(self.producer.abort_transaction)
        return False

    def wait_for(self, more: int, limit: float = 120) -> None:
        """Waits until `more` further records are committed."""
        wanted = len(self.committed) + more
        wait_until(
            lambda: self._error or len(self.committed) >= wanted,
            limit + more / 2000,
            what=lambda: f"{wanted} records committed, after {len(self.committed)}",
        )
        if self._error is not None:
            raise self._error

    def __enter__(self) -> TransactionalLoad:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(CALL_LIMIT_S)
        if error is None and self._thread.is_alive():
            raise TimeoutError("the load did not end")
        if error is None and self._error is not None:
            raise self._error

    def check(self, consumer: KafkaConsumer[Any, Any]) -> None:
        """Checks that the consumer reads all records of committed transactions, once, in order."""
        consumer.assign([TopicPartition(self.topic, each) for each in range(self.partitions)])
        count = len(self.committed)
        log = Numbers()
        log.read(consumer, count, limit=60 + count / 10_000)
        log.read_more(consumer)
        for partition in range(self.partitions):
            wanted = (each for each in self.committed if each % self.partitions == partition)
            log.check(partition, array("q", wanted))


def until_known(call: Callable[[], None]) -> None:
    """Repeats a call whose result was not known within max_block_ms."""
    end = time.monotonic() + CALL_LIMIT_S
    while True:
        try:
            return call()
        except KafkaTimeoutError:
            if time.monotonic() > end:
                raise
