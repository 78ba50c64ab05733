"""Keeps what takes long to build until something that goes into it changes.

    builds = Builds(CACHE / "packaging")
    folder = builds.get("wheel", digest(tree_parts(), toolchain_parts()), build)

The name of a result contains the digest of everything that goes into it. A new digest replaces the
old result. A result counts only if its build has ended: an interrupted build starts again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import ROOT

# What a wheel or a source distribution of the tree may contain, and what decides how it is built.
# `.gitignore` decides which files maturin leaves out.
_FOLDERS = ("crates", "python", ".cargo")
_FILES = (
    "Cargo.toml",
    "Cargo.lock",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".gitignore",
)
_OUTPUT = (".so", ".pyd", ".pyc")
_COMPLETE = "complete"
# The tree's own crates in cargo's folder: `thalweg-core-0a1b...`, `libthalweg_core.rlib`.
_OWN_CRATE = re.compile(r"(lib)?(_core|thalweg|xtask)\b|(lib)?(thalweg|xtask)[-_]")
# Of a profile's folder: the state of each crate, the output of build scripts, and the libraries.
_LIBRARIES = (".fingerprint", "build", "deps")

Part = tuple[str, bytes]


class Builds:
    """Results of builds in a folder, one of each kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, kind: str, digest: str, build: Callable[[Path], object]) -> Path:
        """Returns the folder of a result. `build(folder)` makes it if it does not exist yet.

        A file that is written last says that the result is complete. Renaming a finished folder
        would do the same, but virtual environments contain their own path.
        """
        result = self._folder / f"{kind}-{digest}"
        with self._locked():
            if not (result / _COMPLETE).exists():
                for old in self._folder.glob(f"{kind}-{'?' * len(digest)}"):
                    shutil.rmtree(old)
                result.mkdir()
                build(result)
                (result / _COMPLETE).touch()
        return result

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lets one process build at a time. The lock ends with the process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def digest(*parts: Iterable[Part]) -> str:
    """Returns a digest of names and contents. The order of the parts counts."""
    found = hashlib.sha256()
    for each in parts:
        for name, content in each:
            for field in (name.encode(), content):
                found.update(len(field).to_bytes(8, "big"))
                found.update(field)
    return found.hexdigest()[:16]


def tree_files(root: Path = ROOT) -> list[Path]:
    """Returns the files of the tree that may go into a wheel or a source distribution."""
    found = [path for folder in _FOLDERS for path in (root / folder).rglob("*")]
    sources = [
        path
        for path in found
        if path.is_file() and path.suffix not in _OUTPUT and "__pycache__" not in path.parts
    ]
    return sorted([*sources, *(root / name for name in _FILES if (root / name).exists())])


def tree_parts(root: Path = ROOT) -> Iterator[Part]:
    """Yields the names and contents of the tree's files."""
    for path in tree_files(root):
        yield path.relative_to(root).as_posix(), path.read_bytes()


def archive_parts(archive: Path) -> Iterator[Part]:
    """Yields the names and contents of a source distribution's files."""
    with tarfile.open(archive) as opened:
        for member in sorted(opened.getmembers(), key=lambda each: each.name):
            if (content := opened.extractfile(member)) is not None:
                yield member.name, content.read()


def toolchain_parts() -> Iterator[Part]:
    """Yields the versions of what builds a wheel, and the variables that change its result."""
    rustc = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, check=True)
    yield "rustc", rustc.stdout
    yield "maturin", importlib.metadata.version("maturin").encode()
    yield from interpreter_parts()
    for name in sorted(os.environ):
        if name.startswith(("CARGO_", "MATURIN_", "RUSTC", "RUSTFLAGS")):
            yield name, os.environ[name].encode()


def interpreter_parts() -> Iterator[Part]:
    """Yields what identifies this interpreter."""
    yield "python", sys.version.encode()
    yield "executable", os.path.realpath(sys.executable).encode()
    yield "abi", str(sysconfig.get_config_var("SOABI")).encode()


def copy_libraries(profile: Path, copy: Path) -> None:
    """Copies what cargo has compiled of other people's crates, so that it is not compiled again.

    Cargo reuses it if the version, the features, the profile and the compiler are the same.

    Args:
        profile: a folder of outputs: `target/debug`.
        copy: such a folder of another target folder. Files that it has already are kept.
    """
    for kind in _LIBRARIES:
        for path in sorted((profile / kind).glob("*")):
            if not _OWN_CRATE.match(path.name) and not (copy / kind / path.name).exists():
                (copy / kind).mkdir(parents=True, exist_ok=True)
                # With the times of the originals, from which cargo sees that they are up to date.
                copied = shutil.copytree if path.is_dir() else shutil.copy2
                copied(path, copy / kind / path.name)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a source distribution, without its outermost folder, over an earlier one.

    A file that has not changed keeps its time. A changed one gets the current time. In the archive
    all files have the same time, so cargo would reuse what it built from an earlier archive.
    """
    kept: set[Path] = set()
    for name, content in archive_parts(archive):
        path = folder / name.split("/", 1)[1]
        kept.add(path)
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()
