"""A stream while brokers restart, executors are killed and topics change, for half an hour.

Run it with `python -m benches.spark.soak --minutes 30`.

    producer ──> soak-origin, soak-side ──> a query on two executors ──> copy ──> a reader
                 (three real brokers)       (failOnDataLoss=false,                (read_committed)
                                             exactly-once sink)

In each period (a minute) a broker restarts, so that leaders move, and one of these happens:
`soak-origin` gets a partition; the executor of the second worker is killed; `soak-side` is deleted
after the query has read it, and is created again with new records.

Each period prints a line. At the end the soak exits with 1 if a row is missing, duplicated or
unknown, if the query or a client failed, or if memory has grown: the heap of the driver's JVM after
a garbage collection, the resident size of the driver's Python processes, or that of the Python
processes of the first executor. The mean of the last quarter may be at most 10% above that of the
second quarter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benches.soak import GROWTH_MAX, conclude, growth, resident_mb
from tests.spark.clusters.daemons import standalone_cluster
from tests.spark.exactly_once.processes import executors, kill_executor, kill_session, pythons
from tests.spark.programs import SESSION, environment
from tests.support import spark_home
from tests.support.java import java_home
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tests.support.wire import Wire
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

ORIGIN, SIDE, COPY, NODES = "soak-origin", "soak-side", "copy", 3
SIDE_ROWS, PREFERRED = 500, 0
# How long a step may take while brokers or executors start.
PATIENCE_S = 180
# Fewer measurements say nothing about memory.
PERIODS_MIN = 8
KINDS = ("driver heap", "driver Python", "executor Python")
PROGRAM = (
    SESSION
    + """
import json
from tests.support.spark_queries import begun

given = json.loads(sys.argv[1])
spark = session(given["master"], **given["conf"])
writer = (
    spark.readStream.format("thalweg").options(**given["source"]).load().select("value")
    .writeStream.format("thalweg").options(**given["sink"])
    .option("checkpointLocation", given["checkpoint"])
    .trigger(processingTime="1 second")
)
query = begun(writer.start)
runtime = spark._jvm.java.lang.Runtime.getRuntime()
for _ in sys.stdin:  # each line requests the state
    runtime.gc()
    progress = query.lastProgress
    state = {
        "heap": (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
        "batch": progress["batchId"] if progress else -1,
        "offsets": progress["sources"][0]["endOffset"] if progress else None,
        "error": str(query.exception() or ""),
    }
    print(json.dumps(state), flush=True)
query.stop()
spark.stop()
"""
)


class Brokers(Protocol):
    """Three nodes that can be restarted."""

    @property
    def bootstrap_servers(self) -> str: ...

    def stop_node(self, node_id: int, /) -> Any: ...

    def start_node(self, node_id: int, /) -> Any: ...


@dataclass
class Seen:
    """What the soak knows so far. Each field changes in one thread only."""

    sent: set[bytes] = field(default_factory=set)
    side: set[bytes] = field(default_factory=set)
    read: set[bytes] = field(default_factory=set)
    twice: int = 0
    errors: list[str] = field(default_factory=list)
    sizes: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})


class Query:
    """The driver, in a separate process, which reports its state."""

    def __init__(self, master: str, folder: Path, servers: str, log: Path) -> None:
        home = java_home()
        conf = {
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
        }
        kafka = {"kafka.bootstrap.servers": servers}
        given = {
            "master": master,
            "conf": conf,
            "source": {
                **kafka,
                "subscribePattern": "soak-.*",
                "startingOffsets": "earliest",
                "failOnDataLoss": "false",
                "kafka.metadata.max.age.ms": "5000",
            },
            "sink": {
                **kafka,
                "topic": COPY,
                "delivery.guarantee": "exactly-once",
                "transactional.id.prefix": "soak",
            },
            "checkpoint": str(folder / "checkpoint"),
        }
        program = folder / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        env = environment(
            home,
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=str(ROOT),
            **spark_home.quick_start(),
        )
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, str(program), json.dumps(given)],
            env=env,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,  # its ID is the process ID of the program
        )

    @property
    def session(self) -> int:
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """Returns the state of the query, and the heap of its driver (MB)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("status\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            text = Path(self._log.name).read_text(errors="replace")
            raise RuntimeError(f"the driver has ended:\n{text[-5_000:]}")
        state: dict[str, Any] = json.loads(line)
        if state["error"]:
            raise RuntimeError(f"the query has failed: {state['error']}")
        return state

    def offsets(self, topic: str) -> dict[str, int]:
        """Returns the end of the newest complete micro-batch."""
        found = self.status()["offsets"]
        found = json.loads(found) if isinstance(found, str) else found
        return dict((found or {}).get(topic, {}))

    def close(self) -> None:
        """Stops the query, and kills what is left of it."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=60)
        kill_session(self._process.pid)
        self._log.close()


class Soak:
    """One run."""

    def __init__(self, brokers: Brokers, folder: Path, query: Query, seen: Seen) -> None:
        self._brokers, self._folder, self._query, self._seen = brokers, folder, query, seen
        self._wire = Wire(brokers.bootstrap_servers)
        self._partitions, self._generation = 2, 0

    def disturb(self, number: int) -> str:
        """Restarts a broker, and causes the fault of this period. Returns a description of both."""
        node = 1 + number % NODES
        self._brokers.stop_node(node)
        if number % 3 == 1:
            happened = self._kill_executor()
        elif number % 3 == 2:
            happened = self._replace_side()
        self._brokers.start_node(node)
        if number % 3 == 0:  # all nodes must be there for its replicas
            happened = self._add_partition()
        with KafkaAdminClient(bootstrap_servers=self._brokers.bootstrap_servers) as admin:
            partitions = [TopicPartition(ORIGIN, each) for each in range(self._partitions)]
            admin.elect_leaders(PREFERRED, partitions, raise_errors=False)
        return f"node {node} restarted, {happened}"

    def send_side(self) -> None:
        """Sends new records to the topic that is deleted from time to time."""
        rows = {b"side %d %d" % (self._generation, number) for number in range(SIDE_ROWS)}
        with KafkaProducer(bootstrap_servers=self._brokers.bootstrap_servers) as producer:
            for future in [producer.send(SIDE, row) for row in rows]:
                future.get(PATIENCE_S)
        self._seen.side |= rows

    def measure(self) -> None:
        """Records the memory of the processes."""
        sizes, first = self._seen.sizes, next(executors(self._folder / "work-0"))
        sizes[KINDS[0]].append(self._query.status()["heap"])
        sizes[KINDS[1]].append(sum(map(resident_mb, pythons(self._query.session))))
        sizes[KINDS[2]].append(sum(map(resident_mb, pythons(first))))

    def has_read(self, topic: str) -> bool:
        """Returns whether a complete micro-batch contains all records that are there now."""
        ends = {str(each): end for each, end in self._wire.end_offsets(topic).items()}
        return self._query.offsets(topic) == ends

    def _add_partition(self) -> str:
        self._partitions += 1
        with KafkaAdminClient(bootstrap_servers=self._brokers.bootstrap_servers) as admin:
            admin.create_partitions({ORIGIN: self._partitions})
        return f"{self._partitions} partitions"

    def _kill_executor(self) -> str:
        kill_executor(self._folder / "work-1")
        return "executor killed"

    def _replace_side(self) -> str:
        wait_until(lambda: self.has_read(SIDE), PATIENCE_S, what="the query to read the topic")
        self._wire.delete_topic(SIDE)
        wait_until(lambda: not self._wire.metadata(SIDE).topics.get(SIDE), PATIENCE_S)
        self._generation += 1
        replicas = 2  # one node may be away
        self._wire.create_topic(SIDE, 1, replication_factor=replicas)
        # If the new topic had as many records as the old one, the query could not tell them apart.
        wait_until(lambda: self.has_read(SIDE), PATIENCE_S, what="the query to see the new topic")
        self.send_side()
        return f"topic {self._generation} of the same name"


@contextlib.contextmanager
def _brokers(embedded: bool) -> Iterator[Brokers]:
    if embedded:
        with EmbeddedBroker(nodes=NODES) as broker:
            yield broker
    else:
        with RealKafka("4.3", nodes=NODES, heap="768m") as kafka:
            yield kafka


def produce(servers: str, rate: int, seen: Seen, stop: threading.Event) -> None:
    """Sends numbers at a steady rate until `stop` is set, and waits for all acknowledgements."""
    start, number, pending = time.monotonic(), 0, []
    try:
        with KafkaProducer(bootstrap_servers=servers, linger_ms=20) as producer:
            while not stop.wait(0.1):
                due = int((time.monotonic() - start) * rate)
                for value in map(b"%d".__mod__, range(number, due)):
                    pending.append(producer.send(ORIGIN, value))
                    seen.sent.add(value)
                number = max(number, due)
                while pending and pending[0].is_done:
                    pending.pop(0).get(0)
            for each in pending:
                each.get(PATIENCE_S)
    except Exception as error:
        seen.errors.append(f"producer: {error!r}")


def consume(servers: str, seen: Seen, stop: threading.Event) -> None:
    """Reads what the query has committed, until `stop` is set and it has read to the end."""
    options: dict[str, Any] = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "bootstrap_timeout_ms": PATIENCE_S * 1000,
    }
    try:
        with KafkaConsumer(COPY, bootstrap_servers=servers, **options) as consumer:
            while not (stop.is_set() and _is_at_end(consumer)):
                for records in consumer.poll(500).values():
                    for record in records:
                        value = bytes(record.value or b"")
                        seen.twice += value in seen.read
                        seen.read.add(value)
    except Exception as error:
        seen.errors.append(f"reader: {error!r}")


def _is_at_end(consumer: KafkaConsumer[Any, Any]) -> bool:
    ends = consumer.end_offsets(consumer.assignment())
    return all(consumer.position(each) >= end for each, end in ends.items())


def run(
    periods: int, period_s: float, rate: int, embedded: bool, say: Callable[[str], None] = print
) -> list[str]:
    """Runs the soak. Returns what went wrong."""
    folder, seen = Path(tempfile.mkdtemp(prefix="spark-soak-")), Seen()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        brokers = stack.enter_context(_brokers(embedded))
        wire = Wire(brokers.bootstrap_servers)
        for topic, partitions in ((ORIGIN, 2), (SIDE, 1), (COPY, 3)):
            wire.create_topic(topic, partitions, replication_factor=NODES)
        cluster = standalone_cluster(folder, java_home(), workers=2, several_hosts=True)
        master = stack.enter_context(cluster)
        query = Query(master, folder, brokers.bootstrap_servers, folder / "driver.log")
        stack.callback(query.close)
        soak = Soak(brokers, folder, query, seen)
        _run(soak, query, (brokers.bootstrap_servers, periods, period_s, rate), seen, say)
    return verdict(seen)


def _run(
    soak: Soak,
    query: Query,
    given: tuple[str, int, float, int],
    seen: Seen,
    say: Callable[[str], None],
) -> None:
    servers, periods, period_s, rate = given
    enough, over = threading.Event(), threading.Event()
    producing = threading.Thread(target=produce, args=(servers, rate, seen, enough))
    reading = threading.Thread(target=consume, args=(servers, seen, over))
    producing.start()
    reading.start()
    try:
        soak.send_side()
        wait_until(lambda: len(seen.read) > 0, PATIENCE_S, what="the first rows")
        started = time.monotonic()
        for number in range(1, periods + 1):
            happened = soak.disturb(number)
            time.sleep(max(0.0, started + number * period_s - time.monotonic()))
            soak.measure()
            sizes = ", ".join(f"{kind} {found[-1]:.0f}" for kind, found in seen.sizes.items())
            say(
                f"{(time.monotonic() - started) / 60:6.1f} min  {len(seen.sent):,} sent"
                f"  {len(seen.read):,} read  {happened}  MB: {sizes}"
            )
        enough.set()
        producing.join()
        # If rows are missing, the verdict says it.
        with contextlib.suppress(AssertionError, TimeoutError):
            expected = len(seen.sent) + len(seen.side)
            wait_until(lambda: query.status() and len(seen.read) >= expected, PATIENCE_S)
    except Exception as error:
        seen.errors.append(f"{type(error).__name__}: {error}")
    finally:
        enough.set()
        producing.join()
        query.close()
        over.set()
        reading.join()


def verdict(seen: Seen) -> list[str]:
    """Returns what went wrong."""
    wrong, expected = list(seen.errors), seen.sent | seen.side
    if lost := expected - seen.read:
        wrong.append(f"{len(lost)} rows are missing, among them {sorted(lost)[:5]}")
    if unknown := seen.read - expected:
        wrong.append(f"{len(unknown)} rows were never sent, among them {sorted(unknown)[:5]}")
    if seen.twice:
        wrong.append(f"{seen.twice} rows are twice in the log")
    for kind, sizes in seen.sizes.items():
        if len(sizes) >= PERIODS_MIN and (grown := growth(sizes)) > GROWTH_MAX:
            wrong.append(f"{kind} has grown by {grown - 1:.0%}: {[round(each) for each in sizes]}")
    return wrong


def main() -> int:
    """Runs the soak and prints its lines."""
    parser = argparse.ArgumentParser(prog="python -m benches.spark.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--period", type=float, default=60, help="seconds (60)")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second (1000)")
    parser.add_argument("--embedded", action="store_true", help="embedded brokers")
    given = parser.parse_args()
    periods = max(1, round(given.minutes * 60 / given.period))

    def say(line: str) -> None:
        print(line, flush=True)

    wrong = run(periods, given.period, given.rate, given.embedded, say)
    return conclude(wrong)


if __name__ == "__main__":
    sys.exit(main())
