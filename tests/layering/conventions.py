"""What files of the tree must not do on a builder's machine, pinned versions, and lengths of files.

tracked() -> texts() -> homes_set(), spark_packages()     lines that are wrong, with their places
                     -> long_files()                      files that are too long
          -> toolchain_pins()                             files that must not exist
a requirements file  -> unpinned()                        lines without a version
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from tests.support.paths import ROOT

LINES_MAX = 500  # of a source file, tests included
# Tables with an entry for each option of Kafka's and for each of its error codes.
TABLES = (
    "python/thalweg/_config/option_types.py",
    "python/thalweg/_config/options.py",
    "python/thalweg/errors/_broker.py",
)
# The stub of the native module. A module has one stub, whatever number of files it is made of.
# tests/unit/test_native_docs.py compares it with the module.
STUB = "python/thalweg/_core.pyi"
_HOMES = r"(?:HOME|CARGO_HOME|RUSTUP_HOME)"
_SETS_HOME = re.compile(
    rf"""
    (?<![\w$]) {_HOMES} \s* [:?+!]*=(?!=)            # sh and make: HOME=x, HOME := x
    | ["']{_HOMES}["'] \s* (?: \] \s* =(?!=) | : )   # Python: an item, or one of a dict's display
    | (?: putenv | setdefault ) \( \s* ["']{_HOMES}["']
    | \b unset \s (?: .*\s )? {_HOMES} \b
    """,
    re.VERBOSE,
)
_TOOLCHAIN_FILES = ("rust-toolchain", "rust-toolchain.toml")
_PINNED = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?==[\w.!+-]+(?: --hash=sha256:[0-9a-f]{64})*"
)


def tracked() -> list[str]:
    """Returns the paths of all files that git tracks, or would track in an unpacked archive."""
    if not (ROOT / ".git").exists():
        return unignored(ROOT)
    # Also read a checkout that belongs to another user, as in a container.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout.rstrip("\0").split("\0")


def unignored(root: Path) -> list[str]:
    """Returns all files except those in .gitignore, which has /folder/, anywhere/ and *.suffix."""
    patterns = (root / ".gitignore").read_text(encoding="utf-8").split()
    paths = {each[1:] for each in patterns if each.startswith("/")}
    names = [each for each in patterns if not each.startswith("/")]

    def is_kept(parent: str, name: str) -> bool:
        return parent + name not in paths and not any(fnmatchcase(name, each) for each in names)

    found = []
    for folder, folders, files in os.walk(root):
        where = Path(folder).relative_to(root).as_posix()
        parent = "" if where == "." else f"{where}/"
        folders[:] = [each for each in folders if is_kept(parent, f"{each}/")]
        found += [parent + each for each in files if is_kept(parent, each)]
    return sorted(found)


def texts(paths: Iterable[str]) -> dict[str, str]:
    """Returns the files among `paths` that exist and are text."""
    found = {}
    for path in paths:
        try:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
    return found


def is_script(path: str) -> bool:
    """Whether a file is part of building, testing or packaging."""
    return path.startswith(("tools/", ".ci/", ".cargo/")) or path in ("Makefile", "pyproject.toml")


def is_source(path: str) -> bool:
    """Whether a file is source code that people write."""
    return path.endswith((".java", ".py", ".pyi", ".rs")) and "/generated/" not in path


def long_files(sources: Mapping[str, str]) -> list[str]:
    """Lists source files that should be several files, one for each theme."""
    exempt = (*TABLES, STUB)
    counts = {path: len(text.splitlines()) for path, text in sources.items() if path not in exempt}
    return [f"{path}: {count} lines" for path, count in counts.items() if count > LINES_MAX]


def homes_set(files: Mapping[str, str]) -> list[str]:
    """Lists lines that set a home folder: tools and caches there belong to the user who builds."""
    return _lines_with(_SETS_HOME, files)


def spark_packages(files: Mapping[str, str]) -> list[str]:
    """Lists lines that make Spark fetch jars at its start: the source is Python and needs none."""
    return _lines_with(re.compile(r"spark\.jars\.packages"), files)


def toolchain_pins(paths: Iterable[str]) -> list[str]:
    """Lists files that make rustup install another Rust than the one that is installed."""
    return [path for path in paths if PurePosixPath(path).name in _TOOLCHAIN_FILES]


def unpinned(text: str) -> list[str]:
    """Lists lines of a requirements file that do not pin the version."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not _PINNED.fullmatch(line)]


def _lines_with(pattern: re.Pattern[str], files: Mapping[str, str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
