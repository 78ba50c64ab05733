"""The connector's stress tests, 64 and 87: topics change at random while a query runs.

The number in a test's name is that of the scenario in docs/spark-parity.md. A failure prints the
seed. To run the same changes again, set THALWEG_SIMULATION_SEED to it.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.spark.conftest import Topics
from tests.spark.parity.engine import Engine
from tests.support.scale import scaled
from tests.support.waiting import wait_until

LAX = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
# A task that reads a topic that was created again, and a trigger that sees old offsets, do not wait
# long. But a task of a busy machine may need seconds for the records that are there.
QUICK = {"kafkaConsumer.pollTimeoutMs": "5000", "fetchOffset.retryIntervalMs": "20"}


class Chaos:
    """Topics with one prefix, and the values that were sent to each."""

    def __init__(self, topics: Topics) -> None:
        self.seed = int(os.environ.get("THALWEG_SIMULATION_SEED") or random.randrange(2**32))
        self.random = random.Random(self.seed)
        self.prefix = topics.broker.unused_name("stress")
        self.sent: dict[str, list[str]] = {}
        self._partitions: dict[str, int] = {}
        self._topics = topics
        self._names = (f"{self.prefix}-{n}" for n in itertools.count())
        self._values = (f"{n:06d}" for n in itertools.count())

    def create(self, name: str | None = None) -> str:
        """Creates a topic, with a new name or a given one."""
        name = name or next(self._names)
        count = self._partitions[name] = self.random.randint(1, 3)
        self._topics.broker.wire.create_topic(name, count, configs={"retention.ms": "-1"})
        self.sent.setdefault(name, [])
        return name

    def send(self, name: str) -> None:
        """Sends some records."""
        values = [next(self._values) for _ in range(self.random.randint(1, 10))]
        self._topics.send(name, values)
        self.sent[name] += values

    def add_partitions(self, name: str) -> None:
        """Adds one or two partitions."""
        self._partitions[name] += self.random.randint(1, 2)
        self._topics.add_partitions(name, self._partitions[name])

    def delete(self, name: str) -> None:
        """Deletes a topic."""
        self._topics.delete(name)


class Running:
    """A thread that runs triggers. While a test holds the lock, no trigger runs."""

    def __init__(self, query: Engine) -> None:
        self.lock = threading.RLock()
        self._query = query
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Running:
        self._query.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        self._query.stop()
        self.check()

    def check(self) -> None:
        """Raises the error that ended the query, if one did."""
        if self._failure is not None:
            raise self._failure

    def wait_for(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        """Waits until the query has read something, or raises its error."""

        def is_met() -> bool:
            self.check()
            return condition()

        wait_until(is_met, limit, what=what)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                with self.lock:
                    self._query.trigger()
                self._stop.wait(0.01)  # lets another thread take the lock
        except BaseException as failure:
            self._failure = failure


def test_parity_64_topics_and_partitions_come_and_go(both: Topics) -> None:
    chaos = Chaos(both)
    print(f"seed {chaos.seed}")
    living = [chaos.create(), chaos.create()]
    limits = {"minPartitions": "4", "maxOffsetsPerTrigger": "25"}
    query = Engine(both, subscribePattern=f"{chaos.prefix}-.*", **LAX, **QUICK, **limits)

    def is_read(names: list[str]) -> bool:
        found = Counter(query.values())
        return all(found[value] for name in names for value in chaos.sent[name])

    with Running(query) as running:
        for _ in range(scaled(600, minimum=40)):
            action = chaos.random.random()
            name = chaos.random.choice(living)
            if action < 0.55:
                chaos.send(name)
            elif action < 0.7:
                chaos.add_partitions(name)
            elif action < 0.8:
                living.append(chaos.create())
            elif action < 0.9 and len(living) > 1:
                # Its records are read first, so that none of them is lost.
                running.wait_for(partial(is_read, [name]), 120, f"the records of {name}")
                living.remove(name)
                chaos.delete(name)
            else:
                with running.lock:
                    query.start()  # a restart
        running.wait_for(lambda: is_read(living), 120, f"all records (seed {chaos.seed})")
    sent = Counter(value for values in chaos.sent.values() for value in values)
    assert Counter(query.values()) == sent, f"seed {chaos.seed}"


def test_parity_87_topics_are_deleted_and_created_again(both: Topics) -> None:
    chaos = Chaos(both)
    print(f"seed {chaos.seed}")
    kept = chaos.create()
    living, deleted = [chaos.create(), chaos.create()], []
    query = Engine(both, subscribePattern=f"{chaos.prefix}-.*", **LAX, **QUICK)
    with Running(query) as running:
        for _ in range(scaled(400, minimum=40)):
            action = chaos.random.random()
            if action < 0.5:
                chaos.send(chaos.random.choice([kept, *living]))
            elif action < 0.7 and living:
                # Perhaps a task reads it now, and perhaps its records are never read.
                deleted.append(living.pop(chaos.random.randrange(len(living))))
                chaos.delete(deleted[-1])
            elif action < 0.9 and deleted:
                living.append(chaos.create(deleted.pop(chaos.random.randrange(len(deleted)))))
            elif action < 0.95:
                living.append(chaos.create())
            else:
                with running.lock:
                    query.start()
        running.wait_for(
            lambda: set(chaos.sent[kept]) <= set(query.values()),
            120,
            f"all records of the topic that was never deleted (seed {chaos.seed})",
        )
    found = Counter(query.values())
    sent = {value for values in chaos.sent.values() for value in values}
    assert set(found) <= sent, f"seed {chaos.seed}"
    assert max(found.values(), default=1) == 1, f"a record was read twice (seed {chaos.seed})"
