"""What many known partitions cost a producer: `python -m benches.known_partitions`.

    a client that knows 4 partitions, and one that knows 50,004 ──> an embedded broker

Both are idle for a while, then send to the same 4 partitions. A line for each has the CPU while
idle and records per second. confluent-kafka does the same. All use the same broker in its own
process. It is the embedded broker, because 50,000 logs are too many for a real one on a small
machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from tests.support.paths import ROOT
from tests.support.peers import run_module

TOPICS, PARTITIONS_EACH = 50, 1000
BUSY = "busy"
BUSY_PARTITIONS = 4
VALUE = b"x" * 100
SETTLE_S = 2.0


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(send: Any, flush: Any, idle_s: float, records: int) -> dict[str, float]:
    """Returns the CPU time of an idle client in ms per second, and its rate."""
    for number in range(10_000):
        send(number)
    flush()
    time.sleep(SETTLE_S)
    before = cpu_seconds()
    time.sleep(idle_s)
    idle = (cpu_seconds() - before) / idle_s * 1000
    start = time.perf_counter()
    for number in range(records):
        send(number)
    flush()
    return {"idle": idle, "rate": records / (time.perf_counter() - start)}


def thalweg(bootstrap: str, topics: list[str], idle_s: float, records: int) -> dict[str, float]:
    from thalweg import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=131_072) as producer:
        for topic in topics:
            assert len(producer.partitions_for(topic)) == PARTITIONS_EACH
        send = producer.send

        def one(number: int) -> None:
            send(BUSY, VALUE, partition=number % BUSY_PARTITIONS)

        return measured(one, producer.flush, idle_s, records)


def confluent(bootstrap: str, topics: list[str], idle_s: float, records: int) -> dict[str, float]:
    import confluent_kafka as ck

    producer = ck.Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 131_072,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    for topic in topics:
        # After a record it knows the topic permanently. It would forget a topic that it only looked
        # up.
        producer.produce(topic, VALUE, partition=0)
    producer.flush()

    def one(number: int) -> None:
        while True:
            try:
                producer.produce(BUSY, VALUE, partition=number % BUSY_PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)

    return measured(one, producer.flush, idle_s, records)


CLIENTS = {"thalweg": thalweg, "confluent-kafka": confluent}


def run(client: str, bootstrap: str, many: bool, options: argparse.Namespace) -> dict[str, float]:
    """Runs one client in its own process."""
    arguments = ["--client", client, "--bootstrap", bootstrap, "--idle", str(options.idle)]
    arguments += ["--records", str(options.records), *(["--many"] if many else [])]
    printed = run_module(client, "benches.known_partitions", *arguments, timeout=600)
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def serve() -> None:
    """Runs the broker's process: prints its address, then waits until its input ends."""
    from thalweg import EmbeddedBroker

    with EmbeddedBroker() as broker:
        broker.create_topic(BUSY, BUSY_PARTITIONS)
        for number in range(TOPICS):
            broker.create_topic(f"known-{number}", PARTITIONS_EACH)
        print(broker.bootstrap_servers, flush=True)
        sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.known_partitions", description=__doc__)
    parser.add_argument("--idle", type=float, default=20, help="seconds")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", choices=[*CLIENTS, "broker"], help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--many", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client == "broker":
        return serve()
    if options.client:
        topics = [f"known-{number}" for number in range(TOPICS)] if options.many else []
        client = CLIENTS[options.client]
        print(json.dumps(client(options.bootstrap, topics, options.idle, options.records)))
        return None
    return compare(options)


def compare(options: argparse.Namespace) -> None:
    """Runs all clients in turn, and prints the results."""
    command = [sys.executable, "-m", "benches.known_partitions", "--client", "broker"]
    broker = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert broker.stdin is not None
    assert broker.stdout is not None
    try:
        bootstrap = broker.stdout.readline().strip()
        found: dict[tuple[str, bool], list[dict[str, float]]] = {}
        for number in range(1, options.rounds + 1):
            for client in CLIENTS:
                for many in (False, True):
                    print(f"  round {number}: {client}, {'many' if many else 'few'}", flush=True)
                    one = run(client, bootstrap, many, options)
                    found.setdefault((client, many), []).append(one)
    finally:
        broker.stdin.close()
        broker.wait(30)
    print(f"{'':18}{'known':>8}{'idle CPU ms/s':>16}{'rec/s':>14}{'of few':>8}")
    for (client, many), runs in found.items():
        idle = statistics.median(each["idle"] for each in runs)
        rate = statistics.median(each["rate"] for each in runs)
        pairs = zip(runs, found[client, False], strict=True)
        share = statistics.median(each["rate"] / few["rate"] for each, few in pairs)
        known = BUSY_PARTITIONS + many * TOPICS * PARTITIONS_EACH
        print(f"{client:18}{known:>8,}{idle:>16.2f}{rate:>14,.0f}{share:>8.2f}")


if __name__ == "__main__":
    main()
