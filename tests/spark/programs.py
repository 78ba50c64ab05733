"""Programs in their own process: with another interpreter, another master, another environment."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Shorter than the limit of a test: the error of a program that hangs then has its output.
LIMIT_S = 480

SESSION = """
import os, sys
from pyspark.sql import SparkSession

def session(master="local[1]", **conf):
    builder = SparkSession.builder.master(master)
    quiet = {
        "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    }
    for key, value in {**quiet, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
"""


def environment(home: Path, **added: str) -> dict[str, str]:
    """Returns the environment of a shell in which no virtual environment is activated."""
    names = "HOME", "LANG", "TMPDIR", "SPARK_SUBMIT_OPTS"
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "JAVA_HOME": str(home), **added}


def run(
    arguments: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    interpreter: str = sys.executable,
    limit_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """Runs a Python interpreter by its path and returns its output."""
    return subprocess.run(
        [interpreter, *arguments],
        env=dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def run_on_a_terminal(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path
) -> tuple[int, str]:
    """Runs this Python with a terminal as output, and returns its exit status and the output."""
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    try:
        text = _read_to_the_end(ours)
        status = process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return status, text


def _read_to_the_end(terminal: int) -> str:
    parts: list[bytes] = []
    end = time.monotonic() + LIMIT_S
    while (left := end - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # on Linux: no process has the terminal open for writing any more
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)
    raise AssertionError(f"it hangs: {b''.join(parts).decode(errors='replace')}")


def printed(
    code: str,
    env: Mapping[str, str],
    cwd: Path,
    interpreter: str = sys.executable,
    arguments: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> str:
    """Runs a program, which must succeed, and returns its output."""
    file = cwd / "program.py"
    file.write_text(textwrap.dedent(code), encoding="utf-8")
    result = run([str(file), *arguments], env, cwd, interpreter, limit_s)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def interpreter_without_thalweg(folder: Path) -> str:
    """Makes a virtual environment with this one's pyspark and pyarrow, and without thalweg."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = Path(
        subprocess.run(
            [str(python), "-c", show], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "thalweg" not in entry.name and entry.suffix != ".pth":
            (target / entry.name).symlink_to(entry)
    return str(python)
