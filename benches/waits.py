"""Senders that wait for each of their records: `python -m benches.waits`.

    1, 16, 100 threads, or 1, 100, 1,000 tasks:   send ──> acknowledged ──> the next

Each runs with the default linger and with none, in turn, on one real broker. Each round is a new
process. A line for each has records per second, CPU per record, p50 and p99 of a wait, and records
per request. With `--beside` the clients of another source tree run, too, and the ratio compares
both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benches.broker import bench_broker
from benches.peers.clients.program import Stopwatch
from tests.support.paths import ROOT
from tests.support.wire import Wire

PARTITIONS = 4
VALUE = b"x" * 100
THREADS = (1, 16, 100)
TASKS = (1, 100, 1_000)
WARM_UP_S = 1.0
TOPIC = "waits"


class Samples:
    """Measures each wait, from the end of the warm-up until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.perf_counter() + WARM_UP_S
        self.end = self.begin + seconds
        self.took: list[float] = []

    def __iter__(self) -> Iterator[None]:
        while (start := time.perf_counter()) < self.end:
            yield
            if start >= self.begin:
                self.took.append(time.perf_counter() - start)

    def result(self, seconds: float, cpu: float, metrics: Any) -> dict[str, float]:
        ordered = sorted(self.took)
        return {
            "rate": len(ordered) / seconds,
            "cpu_us": cpu / len(ordered) * 1e6,
            "p50_ms": ordered[len(ordered) // 2] * 1000,
            "p99_ms": ordered[len(ordered) * 99 // 100] * 1000,
            "records": metrics["producer-metrics"]["records-per-request-avg"],
        }


def options_of(linger: str) -> dict[str, Any]:
    return {} if linger == "default" else {"linger_ms": int(linger)}


def threads(bootstrap: str, count: int, linger: str, seconds: float) -> dict[str, float]:
    from thalweg import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, **options_of(linger)) as producer:
        producer.send(TOPIC, VALUE).get(timeout=30)
        samples = Samples(seconds)

        def work() -> None:
            for _ in samples:
                producer.send(TOPIC, VALUE).get(timeout=30)

        running = [threading.Thread(target=work) for _ in range(count)]
        for thread in running:
            thread.start()
        time.sleep(samples.begin - time.perf_counter())
        with Stopwatch() as watch:
            for thread in running:
                thread.join()
        return samples.result(seconds, watch.cpu, producer.metrics())


async def tasks(bootstrap: str, count: int, linger: str, seconds: float) -> dict[str, float]:
    from thalweg.aio import AIOKafkaProducer

    options = options_of(linger)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        await producer.send_and_wait(TOPIC, VALUE)
        samples = Samples(seconds)

        async def work() -> None:
            for _ in samples:
                await producer.send_and_wait(TOPIC, VALUE)

        running = asyncio.gather(*(work() for _ in range(count)))
        await asyncio.sleep(samples.begin - time.perf_counter())
        with Stopwatch() as watch:
            await running
        return samples.result(seconds, watch.cpu, producer.metrics())


def tasks_run(*arguments: Any) -> dict[str, float]:
    return asyncio.run(tasks(*arguments))


WAYS: dict[str, Callable[..., dict[str, float]]] = {"threads": threads, "tasks": tasks_run}


def run(tree: Path, bootstrap: str, way: str, count: int, linger: str, seconds: float) -> Any:
    """Runs one measurement in its own process, with the clients of a source tree."""
    command = [sys.executable, "-m", "benches.waits", "--way", way, "--count", str(count)]
    command += ["--bootstrap", bootstrap, "--linger", linger, "--seconds", str(seconds)]
    path = os.pathsep.join([str(tree / "python"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(options: argparse.Namespace) -> None:
    trees = {"here": ROOT} | ({"beside": options.beside} if options.beside else {})
    cases = [("threads", each) for each in THREADS] + [("tasks", each) for each in TASKS]
    entrants = [(name, linger) for name in trees for linger in ("default", "0")]
    with bench_broker() as broker:
        Wire(broker.bootstrap_servers).create_topic(TOPIC, PARTITIONS)
        for way, count in cases:
            found: dict[tuple[str, str], list[dict[str, float]]] = {}
            for _ in range(options.rounds):
                for name, linger in entrants:
                    arguments = (way, count, linger, options.seconds)
                    one = run(trees[name], broker.bootstrap_servers, *arguments)
                    found.setdefault((name, linger), []).append(one)
            report(f"{count} {way}", found)


def report(title: str, found: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    base = found.get(("beside", "default"), found["here", "0"])
    for (name, linger), runs in found.items():
        middle = {
            what: statistics.median(each[what] for each in runs)
            for what in ("rate", "cpu_us", "p50_ms", "p99_ms", "records")
        }
        pairs = list(zip(runs, base, strict=True))
        rate = statistics.median(one["rate"] / other["rate"] for one, other in pairs)
        print(
            f"{title:14}{name:>8} linger {linger:8}{middle['rate']:>11,.0f}/s"
            f"{middle['cpu_us']:>8.1f} us{middle['p50_ms']:>9.3f}{middle['p99_ms']:>9.3f} ms"
            f"{middle['records']:>8.1f} a request{rate:>8.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.waits", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another tree, with its extension built")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--linger", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        way = WAYS[options.way]
        found = way(options.bootstrap, options.count, options.linger, options.seconds)
        print(json.dumps(found))
        return
    compare(options)


if __name__ == "__main__":
    main()
