"""Builds franz-go's program when it is needed, if there is a Go toolchain."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from benches.peers.equal import consumer_options, producer_options
from benches.peers.settings import Case, payloads
from tests.support.paths import CACHE, ROOT

_SOURCE = ROOT / "benches" / "peers" / "clients" / "franz_go"
_FOLDER = CACHE / "franz-go"


def command(case: Case) -> list[str]:
    """Returns the command that runs a case.

    Raises:
        RuntimeError: Go is missing, or the build failed.
    """
    settings = producer_options("franz-go", case) | consumer_options("franz-go", case)
    return [str(_program()), case.to_json(), json.dumps(settings), str(_values(case.size))]


@cache
def _program() -> Path:
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("franz-go is left out: go is not on PATH (https://go.dev/doc/install)")
    print("building franz-go's program ...", flush=True)
    program = _FOLDER / "program"
    # In the tree, with permissions that let the folder be removed.
    folders = {"GOMODCACHE": str(_FOLDER / "modules"), "GOCACHE": str(_FOLDER / "builds")}
    built = subprocess.run(
        [go, "build", "-modcacherw", "-o", str(program), "."],
        cwd=_SOURCE,
        env={**os.environ, **folders},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise RuntimeError(f"go build: {built.stderr}")
    return program


@cache
def _values(size: int) -> Path:
    path = _FOLDER / f"payloads-{size}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(payloads(size)))
    return path
