"""The wheel, the source distribution, and empty environments.

Wheels and environments are kept in .cache/packaging until something that goes into them changes
(tests/support/builds.py). No wheel has the profile `dist`: minutes of link-time optimization would
show nothing more about the contents.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

from tests.support import builds, java
from tests.support.builds import Builds
from tests.support.paths import CACHE, ROOT

KEPT = CACHE / "packaging"
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
# The name with which the tree's own extension was linked. For another name cargo would build the
# binding's dependencies again.
PYTHON = Path(sys.executable).with_name("python")
MATURIN = Path(sys.executable).with_name("maturin")


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Runs a command and returns its output. The error of a failure contains the output."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PYO3_PYTHON": str(PYTHON), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and an empty folder to run programs in."""

    folder: Path
    work: Path

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

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
            timeout=600,
            check=False,
        )


def metadata_of(wheel: Path) -> Message:
    """Returns the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="session")
def kept() -> Builds:
    """What earlier sessions have built."""
    return Builds(KEPT)


@pytest.fixture(scope="session")
def wheel(kept: Builds) -> Path:
    """A wheel built from the tree."""

    def build(folder: Path) -> None:
        run(MATURIN, "build", "--profile", "dev", "--locked", "--out", folder, cwd=ROOT)

    digest = builds.digest(builds.tree_parts(), builds.toolchain_parts(), _recipe())
    (found,) = kept.get("wheel", digest, build).glob("*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution. It is never kept, because making it compiles nothing."""
    out = tmp_path_factory.mktemp("sdist")
    run(MATURIN, "sdist", "--out", out, cwd=ROOT)
    (found,) = out.glob("*.tar.gz")
    return found


@pytest.fixture(scope="session")
def sdist_wheel(kept: Builds, sdist: Path) -> Path:
    """A wheel that pip built from the source distribution, outside of the tree's crates."""

    def build(folder: Path) -> None:
        source, target = KEPT / "source", CACHE / "sdist-target"
        builds.unpack(sdist, source)
        builds.copy_libraries(ROOT / "target" / "debug", target / "debug")
        pip = PYTHON, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source
        settings = {
            "MATURIN_PEP517_ARGS": "--profile dev --locked",
            # Its own folder. In the tree's, other tests that run cargo would wait for this build.
            "CARGO_TARGET_DIR": str(target),
            # The test checks the contents, not the speed.
            "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
            "CARGO_PROFILE_DEV_DEBUG": "0",
        }
        run(*pip, cwd=folder, **settings)

    digest = builds.digest(builds.archive_parts(sdist), builds.toolchain_parts(), _recipe())
    (found,) = kept.get("sdist-wheel", digest, build).glob("*.whl")
    return found


def _recipe() -> list[builds.Part]:
    return [("recipe", Path(__file__).read_bytes())]


MakeEnvironment = Callable[[Path, str], Environment]


@pytest.fixture(scope="session")
def environment_of(kept: Builds, tmp_path_factory: pytest.TempPathFactory) -> MakeEnvironment:
    """Returns an environment with a wheel, and with one of its extras if it is named.

    pip installs the wheel with its dependencies into an empty environment. Until the requirements
    of a wheel change, only the wheel itself is installed again.
    """

    def make(wheel: Path, extra: str) -> Environment:
        what = f"{wheel}[{extra}]" if extra else str(wheel)

        def build(folder: Path) -> None:
            run(sys.executable, "-m", "venv", folder, cwd=folder)
            _install(folder, what)
            _note_installed(folder, wheel)

        required = [
            ("requires", "\n".join(metadata_of(wheel).get_all("Requires-Dist") or ()).encode()),
            ("constraints", CONSTRAINTS.read_bytes()),
        ]
        digest = builds.digest(required, builds.interpreter_parts(), _recipe())
        folder = kept.get(f"environment-{extra or 'bare'}", digest, build)
        if _installed(folder) != _contents(wheel):
            (folder / INSTALLED).unlink(missing_ok=True)
            _install(folder, "--force-reinstall", "--no-deps", str(wheel))
            _note_installed(folder, wheel)
        return Environment(folder, tmp_path_factory.mktemp("work"))

    return make


INSTALLED = "installed"


def _install(environment: Path, *what: str) -> None:
    pip = environment / "bin" / "python", "-m", "pip", "install", "--quiet"
    run(*pip, "--constraint", CONSTRAINTS, *what, cwd=environment)


def _contents(wheel: Path) -> str:
    return builds.digest([(wheel.name, wheel.read_bytes())])


def _installed(environment: Path) -> str:
    note = environment / INSTALLED
    return note.read_text(encoding="utf-8") if note.exists() else ""


def _note_installed(environment: Path, wheel: Path) -> None:
    (environment / INSTALLED).write_text(_contents(wheel), encoding="utf-8")


@pytest.fixture(scope="session")
def bare(wheel: Path, environment_of: MakeEnvironment) -> Environment:
    """An environment with only thalweg."""
    return environment_of(wheel, "")


@pytest.fixture(scope="session")
def full(sdist_wheel: Path, environment_of: MakeEnvironment) -> Environment:
    """An environment with thalweg, from its source distribution, and the extra `demo`."""
    return environment_of(sdist_wheel, "demo")
