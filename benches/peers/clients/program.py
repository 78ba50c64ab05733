"""Code that the clients' programs share: reads the case, prints the measurements.

The measurement is from the first record to the last acknowledgement (or from the first poll to the
last record). Imports, construction and warm-up are before it.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benches.peers.settings import Case, from_json, payloads

WARM_UP_RECORDS = 2_000
LATENCY_WARM_UP = 500
IDLE_LIMIT_S = 30.0


class Stopwatch:
    """Measures wall and CPU time of a `with` block, with all threads of the process."""

    def __enter__(self) -> Stopwatch:
        self.cpu = -_cpu()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu += _cpu()

    def result(self, records: int, **more: Any) -> dict[str, Any]:
        return {"records": records, "seconds": self.seconds, "cpu_seconds": self.cpu, **more}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(**roles: Callable[[Case], dict[str, Any]]) -> None:
    """Runs the role that the case on the command line names, and prints its result."""
    case = from_json(sys.argv[1])
    print(json.dumps(roles[case.role](case)))


def in_threads(threads: int, count: int, send: Callable[[int], None]) -> None:
    """Splits `count` between threads, which each call `send(their_share)`."""
    if threads == 1:
        return send(count)
    shares = [count // threads + (number < count % threads) for number in range(threads)]
    running = [threading.Thread(target=send, args=(share,)) for share in shares]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return None


class Waiting:
    """Raises if nothing arrives for too long, so that a lost record ends a run."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def got(self, anything: object) -> None:
        now = time.monotonic()
        if anything:
            self.last = now
        elif now - self.last > IDLE_LIMIT_S:
            raise TimeoutError(f"nothing for {IDLE_LIMIT_S} s")


class Samples:
    """Measures each turn of a `for` loop over it: a case's records, after some for warm-up.

    It is a loop because asyncio's clients await in its body.
    """

    def __init__(self, case: Case) -> None:
        self._count = case.records
        self._took: list[float] = []

    def __iter__(self) -> Iterator[None]:
        for number in range(self._count + LATENCY_WARM_UP):
            begin = time.perf_counter()
            yield
            if number >= LATENCY_WARM_UP:
                self._took.append(time.perf_counter() - begin)

    def result(self) -> dict[str, Any]:
        """Returns p50 and p99 in milliseconds, and all latencies for pooling."""
        ordered = sorted(self._took)
        return {
            "records": len(ordered),
            "seconds": sum(ordered),
            "p50_ms": ordered[len(ordered) // 2] * 1000,
            "p99_ms": ordered[len(ordered) * 99 // 100] * 1000,
            "samples_us": [round(each * 1e6, 1) for each in ordered],
        }


def end_to_end(producer: Any, consumer: Any, case: Case) -> dict[str, Any]:
    """Sends, acknowledges and reads one record at a time, with kafka-python's API."""
    value, samples = payloads(case.size)[0], Samples(case)
    for _ in samples:
        producer.send(case.topic, value, partition=0).get(timeout=10)
        if not consumer.poll(timeout_ms=10_000):
            raise SystemExit("the record was not read")
    consumer.close()
    producer.close()
    return samples.result()
