"""Runs one client on one case in its own process, and also measures the process from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.peers import franz_go
from benches.peers.equal import consumer_options, producer_options
from benches.peers.security import connection_options
from benches.peers.settings import Case, Entrant, payloads
from tests.support import java, peers
from tests.support.paths import ROOT

LIMIT_S = 1800
_MODULES = {
    "ceiling": "ceiling",
    "confluent-kafka": "confluent",
    "kafka-python": "kafka_python",
    "aiokafka": "aiokafka_client",
    "thalweg": "thalweg_client",
    "thalweg-aio": "thalweg_aio_client",
}
_OURS = ("thalweg", "thalweg-aio")


@dataclass
class Run:
    """The results of one run: the client's own figures, and the measurements of its process."""

    rate: float
    records: int
    cpu_us: float | None
    rss_bytes: int
    more: dict[str, Any] = field(default_factory=dict)
    samples_us: list[float] = field(default_factory=list, repr=False)


def run(entrant: Entrant, case: Case) -> Run:
    """Runs a client.

    Raises:
        RuntimeError: the client failed. The message has its output.
    """
    if entrant.client == "java":
        return _run_java(case)
    output, rss, _ = _watch(_command(entrant, case))
    found = json.loads(output.splitlines()[-1])
    records, cpu = found.pop("records"), found.pop("cpu_seconds", None)
    seconds, samples_us = found.pop("seconds"), found.pop("samples_us", [])
    cpu_us = None if cpu is None else cpu / records * 1e6
    return Run(records / seconds, records, cpu_us, rss, found, samples_us)


def _command(entrant: Entrant, case: Case) -> list[str]:
    client = entrant.client
    if client == "franz-go":
        return franz_go.command(case)
    # confluent-kafka is in the other clients' environment. The ceiling uses kafka-python's encoder.
    python = entrant.python or peers.python_of("thalweg" if client in _OURS else "kafka-python")
    return [str(python), "-m", f"benches.peers.clients.{_MODULES[client]}", case.to_json()]


def _watch(command: list[str]) -> tuple[str, int, float]:
    """Runs a command and returns its output, its peak resident size and its CPU seconds."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        peak = 0
        while True:
            peak = max(peak, _peak_now(process.pid))
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.02)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise RuntimeError(f"{text[-3000:]}\n{command[:3]} exited with {process.returncode}")
    return text, peak or used.ru_maxrss * 1024, used.ru_utime + used.ru_stime


def _peak_now(pid: int) -> int:
    """Returns VmHWM of a process (ru_maxrss would include this process's size at the fork)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def _run_java(case: Case) -> Run:
    return _java_produce(case) if case.role == "produce" else _java_consume(case)


def _java_produce(case: Case) -> Run:
    options = [f"{key}={value}" for key, value in producer_options("java", case).items()]
    with (
        _connection_file(case) as connection,
        tempfile.NamedTemporaryFile("wb", suffix=".txt") as file,
    ):
        file.write(b"\n".join(payloads(case.size)))
        file.flush()
        where = "--topic", case.topic, "--bootstrap-server", case.address
        what = "--num-records", str(case.records), "--payload-file", file.name, "--throughput", "-1"
        options = ["--command-config", connection, "--command-property", *options]
        command = _java("ProducerPerformance", *where, *what, *options)
        output, rss, cpu = _watch(command)
    found = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", output)
    if not found or int(found[-1][0]) != case.records:
        raise RuntimeError(f"ProducerPerformance: {output[-2000:]}")
    # The CPU time is that of the complete process, with the JVM's start and its compilers.
    return Run(float(found[-1][1]), case.records, cpu / case.records * 1e6, rss)


@contextmanager
def _connection_file(case: Case) -> Iterator[str]:
    """Writes the options of Java's connection. A login line is not possible as an argument."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.writelines(
            f"{key}={value}\n" for key, value in connection_options("java", case).items()
        )
        file.flush()
        yield file.name


def _java_consume(case: Case) -> Run:
    options = [f"{key}={value}" for key, value in consumer_options("java", case).items()]
    where = "--topic", case.topic, "--bootstrap-server", case.address, "--hide-header"
    what = "--num-records", str(case.records), "--command-property", *options
    with _connection_file(case) as connection:
        what = *what, "--command-config", connection
        output, rss, cpu = _watch(_java("ConsumerPerformance", *where, *what))
    line = next(line for line in reversed(output.splitlines()) if line.count(",") >= 9)
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
    cells = [cell.strip() for cell in line.split(",")]
    records = int(float(cells[4]))
    return Run(float(cells[9]), records, cpu / records * 1e6, rss)


def _java(tool: str, *arguments: str) -> list[str]:
    """Returns a command line without the options of tests: they would slow the JVM down."""
    return java.command(f"org.apache.kafka.tools.{tool}", *arguments, heap="1g", jvm_options=())
