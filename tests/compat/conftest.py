"""Unpacks both major versions of kafka-python into .cache/compat, and describes them."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.3.0", "3.0.12")


def unpacked(version: str) -> Path:
    """Returns the folder of a version of kafka-python. pip fetches it if it is missing."""
    folder = ROOT / ".cache" / "compat" / f"kafka_python-{version}"
    if not (folder / "kafka" / "__init__.py").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Another process of the tests may do the same: a folder has its name when it is complete.
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            command += ["--target", f"{new}/done", f"kafka-python=={version}"]
            subprocess.run(command, check=True)
            try:
                Path(new, "done").rename(folder)
            except OSError:
                if not (folder / "kafka" / "__init__.py").exists():
                    raise
    return folder


def description(folder: Path, package: str) -> dict[str, Any]:
    """Returns what describe.py prints for a package."""
    program = Path(__file__).parent / "describe.py"
    command = [sys.executable, str(program), str(folder), package]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


@pytest.fixture(scope="session")
def both() -> dict[str, dict[str, Any]]:
    """{version: the public interface of kafka-python}."""
    return {version: description(unpacked(version), "kafka") for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def theirs(request, both) -> dict[str, Any]:
    """The public interface of one version of kafka-python."""
    found: dict[str, Any] = both[request.param]
    return found


@pytest.fixture(scope="session")
def ours() -> dict[str, Any]:
    """The public interface of thalweg."""
    return description(ROOT / "python", "thalweg")
