"""The contents of the wheel and of the source distribution."""

from __future__ import annotations

import json
import tarfile
import tomllib
import zipfile

import pytest

from tests.packaging.conftest import metadata_of
from tests.support.builds import tree_files
from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="session")
def names(wheel):
    return zipfile.ZipFile(wheel).namelist()


@pytest.fixture(scope="session")
def metadata(wheel):
    return metadata_of(wheel)


@pytest.fixture(scope="session")
def sdist_names(sdist):
    with tarfile.open(sdist) as archive:
        return {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}


@pytest.mark.parametrize("package", ["thalweg", "pyspark_thalweg"])
def test_the_wheel_has_both_packages_with_their_types(names, package):
    assert {f"{package}/__init__.py", f"{package}/py.typed"} <= set(names)


def test_the_wheel_has_every_python_module(names):
    wanted = {
        path.relative_to(ROOT / "python").as_posix()
        for path in (ROOT / "python").rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }
    assert wanted <= set(names)


def test_the_wheel_has_one_extension_module_of_this_interpreter(names, wheel):
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    assert len(modules) == 1
    assert modules[0].startswith("thalweg/_core.")
    assert "abi3" not in wheel.name


def test_the_wheel_carries_no_tests_sources_or_build_output(names):
    allowed = ("thalweg/", "pyspark_thalweg/", "thalweg-")
    assert [name for name in names if not name.startswith(allowed)] == []


def test_the_version_is_cargos(metadata):
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert metadata["Version"] == cargo["workspace"]["package"]["version"]


def test_nothing_is_required_without_an_extra(metadata):
    required = metadata.get_all("Requires-Dist")
    assert [each for each in required if "extra ==" not in each] == []
    assert set(metadata.get_all("Provides-Extra")) == {"arrow", "aws", "spark", "demo", "all"}
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_licence_is_in_the_wheel(metadata, names):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_a_list_of_all_crates_with_their_hashes_is_in_the_wheel(names, wheel):
    """PEP 770. Tools compare it with lists of known vulnerabilities."""
    (name,) = (name for name in names if ".dist-info/sboms/" in name)
    listed = json.loads(zipfile.ZipFile(wheel).read(name))
    assert listed["bomFormat"] == "CycloneDX"
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    locked = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    found = {
        (each["name"], each["version"]): each.get("hashes", [{}])[0].get("content")
        for each in listed["components"]
    }
    assert {"rustls", "ring", "tokio", "zstd-sys", "pyo3"} <= {name for name, _ in found}
    assert found == {each: locked[each] for each in found}
    assert "criterion" not in {name for name, _ in found}, "no dependencies of tests"


def test_the_source_distribution_has_what_a_build_needs(sdist_names):
    wanted = {"Cargo.lock", "Cargo.toml", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    wanted |= {
        path.relative_to(ROOT).as_posix()
        for crate in ("protocol", "records", "cluster", "producer", "consumer", "columns")
        for path in (ROOT / "crates" / crate / "src").rglob("*.rs")
    }
    assert wanted - sdist_names == set()


def test_the_source_distribution_has_no_output(sdist_names):
    unwanted = (".venv/", ".cache/", "target/", "dist/", "artifacts/")
    assert [name for name in sdist_names if name.startswith(unwanted)] == []
    assert [name for name in sdist_names if name.endswith((".so", ".pyc"))] == []


def test_a_change_of_any_file_of_the_source_distribution_builds_the_wheels_again(sdist_names):
    covered = {path.relative_to(ROOT).as_posix() for path in tree_files()}
    assert sdist_names - covered == {"PKG-INFO"}  # made from pyproject.toml and Cargo.toml
