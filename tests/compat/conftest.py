"""kafka-python of both dialects, unpacked into .cache/compat; what each offers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.3.0", "3.0.12")


def unpacked(version: str) -> Path:
    """The folder of a version of kafka-python; fetched by pip if it is not there."""
    folder = ROOT / ".cache" / "compat" / f"kafka_python-{version}"
    if not (folder / "kafka" / "__init__.py").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--target", str(folder), f"kafka-python=={version}"]
        subprocess.run(command, check=True)
    return folder


def description(folder: Path, package: str) -> dict[str, Any]:
    """What describe.py prints of a package."""
    program = Path(__file__).parent / "describe.py"
    command = [sys.executable, str(program), str(folder), package]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


@pytest.fixture(scope="session")
def both() -> dict[str, dict[str, Any]]:
    """{version: what kafka-python offers}."""
    return {version: description(unpacked(version), "kafka") for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def theirs(request, both) -> dict[str, Any]:
    """What one version of kafka-python offers."""
    found: dict[str, Any] = both[request.param]
    return found


@pytest.fixture(scope="session")
def ours() -> dict[str, Any]:
    """What thalweg offers."""
    return description(ROOT / "python", "thalweg")
