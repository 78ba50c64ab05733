"""The record batches that the records crate writes, for other clients to decode."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from tests.support import java
from tests.support.examples import example
from tests.support.paths import PEERS_PYTHON, ROOT, made

RECORDS = ROOT / "tests" / "conformance" / "records"


@functools.cache
def written() -> Path:
    """Writes our batches into a folder, each with the text of its contents."""
    folder = Path(tempfile.mkdtemp(prefix="thalweg-batches-"))
    subprocess.run([example("write_golden"), str(folder)], check=True)
    return folder


def texts(folder: Path, *kinds: str) -> dict[str, list[str]]:
    """Returns the contents of each file of a folder, by the name of the batches' file.

    `kinds` selects lines by their first word ("batch", "record", "marker"): those that a client
    shows.
    """
    return {
        path.with_suffix(".bin").name: [
            line
            for line in path.read_text().splitlines()
            if not kinds or line.split(maxsplit=1)[0] in kinds
        ]
        for path in sorted(folder.glob("*.txt"))
    }


def dumped(command: list[str], folder: Path) -> dict[str, list[str]]:
    """Returns the contents of each file of a folder, as a client's program prints them.

    Raises:
        RuntimeError: the client refused a batch. The message has the program's output.
    """
    files = sorted(str(path) for path in folder.glob("*.bin"))
    result = subprocess.run(
        [*command, "dump", *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{result.stdout[-1000:]}\n{result.stderr}")
    found: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        if line.startswith("file "):
            lines = found[line.removeprefix("file ")] = []
        else:
            lines.append(line)
    return found


def java_command() -> list[str]:
    """Runs Kafka's own client code. THALWEG_KAFKA_JARS names another folder of jars."""
    given = os.environ.get("THALWEG_KAFKA_JARS")
    jars = made(Path(given), "kafka") if given else java.kafka_libs()
    program = RECORDS / "java" / "RecordBatches.java"
    return [java.tool("java"), "-Xmx256m", "-cp", str(jars / "*"), str(program)]


def peers_command(module: str) -> list[str]:
    """Runs a module next to this one, with an interpreter that has the other clients.

    THALWEG_PEERS_PYTHON names another interpreter that has them.
    """
    given = os.environ.get("THALWEG_PEERS_PYTHON")
    python = made(Path(given) if given else PEERS_PYTHON, "peers")
    return [str(python), "-m", f"tests.conformance.records.{module}"]
