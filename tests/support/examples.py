"""Builds the example programs of the Rust crates, which some tests run."""

from __future__ import annotations

import functools
import json
import subprocess

from tests.support.paths import ROOT


@functools.cache
def _programs() -> dict[str, str]:
    """Builds all programs at once, like `cargo test`, so that nothing is built twice."""
    crates = ["--workspace", "--exclude", "thalweg-python", "--examples"]
    built = subprocess.run(
        ["cargo", "build", "--quiet", "--locked", *crates, "--message-format", "json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    messages = map(json.loads, built.stdout.splitlines())
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message["reason"] == "compiler-artifact" and message["executable"]
    }


def example(name: str) -> str:
    """Returns the path of a program, and builds it if needed.

    Raises:
        KeyError: there is no program of that name.
    """
    return _programs()[name]
