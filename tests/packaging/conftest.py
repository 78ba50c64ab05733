"""The wheel, the source distribution, and empty environments, made once per session.

Both wheels are built with the profile `release`, not `dist`: minutes of link-time optimization
would show nothing more about the contents.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import java
from tests.support.paths import CACHE, ROOT

# The name with which the tree's own extension was linked. For another name cargo would build the
# binding's dependencies again.
PYTHON = Path(sys.executable).with_name("python")


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Runs a command and returns its output. The error of a failure contains the output."""
    answer = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PYO3_PYTHON": str(PYTHON), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, f"{command}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and an empty folder to run programs in."""

    folder: Path
    work: Path

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

    def install(self, what: str) -> None:
        constraints = ROOT / "requirements" / "constraints.txt"
        pip = self.program("python"), "-m", "pip", "install", "--quiet"
        run(*pip, "--constraint", constraints, what, cwd=self.work)

    def call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, without activating it and without the source tree."""
        environment = {
            k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")
        }
        environment["JAVA_HOME"] = str(java.java_home())
        return subprocess.run(
            [str(self.program(program)), *arguments],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )


def new_environment(folder: Path) -> Environment:
    work = folder / "work"
    work.mkdir()
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    return Environment(folder / "venv", work)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """A wheel built from the tree."""
    out = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).with_name("maturin")
    run(maturin, "build", "--profile", "release", "--locked", "--out", out, cwd=ROOT)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    """The source distribution."""
    out = tmp_path_factory.mktemp("sdist")
    run(Path(sys.executable).with_name("maturin"), "sdist", "--out", out, cwd=ROOT)
    (found,) = out.glob("*.tar.gz")
    return found


def _unpacked(sdist: Path, folder: Path) -> Path:
    """Unpacks the source distribution, and sets the time of all files to now.

    In the archive all files have the same time. cargo would otherwise reuse what it built from an
    earlier archive.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    for path in source.rglob("*"):
        path.touch()
    return source


@pytest.fixture(scope="session")
def sdist_wheel(sdist, tmp_path_factory):
    """A wheel that pip built from the source distribution, in an empty folder."""
    out = tmp_path_factory.mktemp("sdist-wheel")
    source = _unpacked(sdist, tmp_path_factory.mktemp("sdist-source"))
    pip = PYTHON, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, source
    settings = {
        "MATURIN_PEP517_ARGS": "--profile release --locked",
        # Its own folder, kept between runs. With the tree's folder each build would undo the
        # other's.
        "CARGO_TARGET_DIR": str(CACHE / "sdist-target"),
        # The test checks the contents, not the speed.
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_PROFILE_RELEASE_DEBUG": "0",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    }
    run(*pip, cwd=out, **settings)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def bare(wheel, tmp_path_factory):
    """An environment with only thalweg."""
    environment = new_environment(tmp_path_factory.mktemp("bare"))
    environment.install(str(wheel))
    return environment


@pytest.fixture(scope="session")
def full(sdist_wheel, tmp_path_factory):
    """An environment with thalweg, from its source distribution, and the extra `demo`."""
    environment = new_environment(tmp_path_factory.mktemp("full"))
    environment.install(f"{sdist_wheel}[demo]")
    return environment
