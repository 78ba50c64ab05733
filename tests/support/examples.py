"""The example programs of the Rust crates, which some tests run."""

from __future__ import annotations

import functools
import json
import subprocess

from tests.support.paths import ROOT


@functools.cache
def _programs() -> dict[str, str]:
    """Where each lies; built all at once, as `cargo test` does, so that nothing is built twice."""
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
    """The path of a program, built if it must be.

    Raises:
        KeyError: there is none of that name.
    """
    return _programs()[name]
