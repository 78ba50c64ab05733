"""Paths in the source tree."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
PEERS_PYTHON = CACHE / "peers" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def made(path: Path, target: str) -> Path:
    """Returns `path` if it exists. `make target` creates it.

    Raises:
        FileNotFoundError: it does not exist yet.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make {target}` first")
    return path
