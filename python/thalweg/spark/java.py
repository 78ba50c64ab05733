"""Finds a Java that can start Spark: 17 or newer, with the module jdk.incubator.vector.

It looks in JAVA_HOME, on PATH and in the usual places of Linux and macOS. Reduced runtimes lack the
module. Spark's command line names the module, so without it Java exits at once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSION_MIN = 17
_MODULE = "jdk.incubator.vector"
_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_ADVICE = (
    "To get one: 'apt install openjdk-17-jre-headless' (Debian, Ubuntu), 'dnf install "
    "java-21-openjdk-headless' (Fedora) or 'brew install openjdk@21' (macOS), then set JAVA_HOME."
)


@dataclass(frozen=True)
class Java:
    """A usable Java: its home and its feature version."""

    home: Path
    version: int


@dataclass(frozen=True)
class Missing:
    """The reason why there is no usable Java, and advice on how to get one."""

    reason: str
    advice: str = _ADVICE


def find() -> Java | Missing:
    """Returns the first usable Java, or what is wrong with those that it found."""
    problems: list[str] = []
    for home in _homes():
        checked = check(home)
        if isinstance(checked, Java):
            return checked
        problems.append(checked)
    if problems:
        return Missing(f"No usable Java for Spark: {'; '.join(problems)}.")
    return Missing(f"Spark needs Java {VERSION_MIN} or newer, and none was found.")


def use(java: Java) -> None:
    """Makes Spark use this Java, in this process and its children."""
    os.environ["JAVA_HOME"] = str(java.home)


def check(home: Path) -> Java | str:
    """Checks the Java in a folder. Returns it, or what is wrong with it."""
    program = home / "bin" / "java"
    try:
        version_text = _output([str(program), "-version"])
        modules = _output([str(program), "--list-modules"])
    except (OSError, subprocess.SubprocessError) as error:
        return f"{home} does not run ({error})"
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if match is None:
        return f"{home} does not print its version"
    # Java 8 reports its version as 1.8.
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < VERSION_MIN:
        return f"{home} is Java {version}, older than Java {VERSION_MIN}"
    if not re.search(rf"^{re.escape(_MODULE)}\b", modules, re.MULTILINE):
        return f"{home} lacks the module {_MODULE}"
    return Java(home, version)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def _homes() -> Iterator[Path]:
    seen: set[Path] = set()
    for home in _candidates():
        resolved = home.resolve()
        if resolved not in seen and (resolved / "bin" / "java").is_file():
            seen.add(resolved)
            yield resolved


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for place in _PLACES:
        root = Path(place)
        yield from sorted(Path(root.anchor).glob(place.lstrip("/")), reverse=True)
