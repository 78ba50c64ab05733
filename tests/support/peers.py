"""Runs clients on files of records, each in its own process.

produce("confluent-kafka", broker.bootstrap_servers, topic, {"lz4": file, "none": other})
consume("java", broker.bootstrap_servers, topic, file, count=20_000)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import java
from tests.support.paths import PEERS_PYTHON, ROOT, made

CLIENTS = ("thalweg", "confluent-kafka", "kafka-python", "java")
_MODULES = {
    "thalweg": "thalweg_client",
    "confluent-kafka": "confluent",
    "kafka-python": "kafka_python",
    "aiokafka": "aiokafka_client",
}
# Kafka allows headers with a null value and records with neither key nor value. Some clients refuse
# to send them. All clients read them.
SENDS_NULL_HEADER_VALUES = {"thalweg", "confluent-kafka", "java"}
SENDS_NEITHER_KEY_NOR_VALUE = {"confluent-kafka", "java"}


def produce(client: str, bootstrap: str, topic: str, files: Mapping[str, Path]) -> None:
    """Produces the records of one file per codec in order, and waits for the acknowledgements.

    Raises:
        RuntimeError: the client failed. The message contains what it printed.
    """
    if client == "java":
        _java("produce", bootstrap, topic, *(str(each) for pair in files.items() for each in pair))
    else:
        parts = [str(each) for pair in files.items() for each in ("--produce", *pair)]
        _python(client, "produce", bootstrap, topic, *parts)


def consume(client: str, bootstrap: str, topic: str, file: Path, *, count: int) -> None:
    """Consumes `count` records of a topic from its beginning into a file.

    Raises:
        RuntimeError: the client failed. The message contains what it printed.
    """
    if client == "java":
        _java("consume", bootstrap, topic, str(file), str(count))
    else:
        _python(client, "consume", bootstrap, topic, "--file", str(file), "--count", str(count))


def python_of(client: str) -> Path:
    """Returns the interpreter of the environment in which a client is installed."""
    return Path(sys.executable) if client == "thalweg" else made(PEERS_PYTHON, "peers")


def environment() -> dict[str, str]:
    """Returns the environment variables for a program of this tree."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run_module(client: str, module: str, *arguments: str, timeout: float = 1800) -> str:
    """Runs a module of this tree in the environment of a client, and returns what it printed.

    Raises:
        RuntimeError: it failed. The message contains what it printed.
    """
    command = [str(python_of(client)), "-m", module, *arguments]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if result.returncode:
        output = f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        raise RuntimeError(f"{client}: {module} exited with {result.returncode}:\n{output}")
    return result.stdout


def _python(client: str, role: str, bootstrap: str, topic: str, *more: str) -> None:
    module = f"tests.support.clients.{_MODULES[client]}"
    run_module(client, module, role, "--bootstrap", bootstrap, "--topic", topic, *more)


def _java(*arguments: str) -> None:
    java.run("RecordPipe", *arguments, classes=java.compiled("RecordPipe"), timeout=1800)
