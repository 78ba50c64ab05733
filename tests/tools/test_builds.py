"""Wheels and environments of tests are kept until something that goes into them changes."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from tests.support.builds import (
    Builds,
    archive_parts,
    copy_libraries,
    digest,
    interpreter_parts,
    toolchain_parts,
    tree_files,
    tree_parts,
    unpack,
)

OLD, NEW = digest([("a", b"1")]), digest([("a", b"2")])


class Recipe:
    """A build that counts how often it runs."""

    def __init__(self):
        self.runs = 0

    def __call__(self, folder):
        self.runs += 1
        (folder / "result").write_text(str(self.runs))


def test_a_result_is_built_once_for_each_digest(tmp_path):
    build = Recipe()
    first = Builds(tmp_path).get("wheel", OLD, build)
    again = Builds(tmp_path).get("wheel", OLD, build)
    assert first == again
    assert (again / "result").read_text() == "1"
    other = Builds(tmp_path).get("wheel", NEW, build)
    assert (other / "result").read_text() == "2"


def test_a_new_result_replaces_the_old_one_of_its_kind(tmp_path):
    builds, build = Builds(tmp_path), Recipe()
    old = builds.get("wheel", OLD, build)
    kept = builds.get("sdist-wheel", OLD, build)
    builds.get("wheel", NEW, build)
    assert not old.exists()
    assert (kept / "result").exists()


def test_an_interrupted_build_starts_again_in_an_empty_folder(tmp_path):
    def interrupted(folder):
        (folder / "half").touch()
        raise KeyboardInterrupt

    builds = Builds(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        builds.get("wheel", OLD, interrupted)
    build = Recipe()
    found = builds.get("wheel", OLD, build)
    assert build.runs == 1
    assert not (found / "half").exists()


def test_the_digest_depends_on_names_contents_and_their_limits():
    parts = [("a", b"1"), ("b", b"2")]
    assert digest(parts) == digest(parts[:1], parts[1:])
    others = [("b", b"1"), ("b", b"2")], [("a", b"1"), ("b", b"3")], [("a", b"1b2")]
    assert len({digest(each) for each in [parts, *others]}) == 1 + len(others)


@pytest.mark.parametrize(
    "changed",
    [
        "crates/core/src/lib.rs",
        "crates/core/README.md",
        "python/thalweg/__init__.py",
        "python/thalweg/py.typed",
        ".cargo/config.toml",
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "rust-toolchain.toml",
        ".gitignore",
    ],
)
def test_the_digest_of_a_tree_depends_on_each_source(tmp_path, changed):
    path = tmp_path / changed
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [digest(tree_parts(tmp_path))]
    for text in ("one", "two"):
        path.write_text(text)
        found.append(digest(tree_parts(tmp_path)))
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    "output",
    ["python/thalweg/_core.so", "python/thalweg/__pycache__/x.pyc", "target/debug/x", "tests/x.py"],
)
def test_the_digest_of_a_tree_ignores_output_and_tests(tmp_path, output):
    path = tmp_path / output
    path.parent.mkdir(parents=True)
    path.touch()
    assert tree_files(tmp_path) == []


def test_the_digest_of_the_toolchain_has_the_interpreter_the_compiler_and_its_flags(monkeypatch):
    monkeypatch.delenv("RUSTFLAGS", raising=False)
    found = dict(toolchain_parts())
    assert b"release:" in found["rustc"]
    assert dict(interpreter_parts()).items() <= found.items()
    monkeypatch.setenv("RUSTFLAGS", "-C debuginfo=0")
    assert dict(toolchain_parts())["RUSTFLAGS"] == b"-C debuginfo=0"


def archive(folder, **files):
    path = folder / "thalweg-1.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        for name, text in files.items():
            member = tarfile.TarInfo(f"thalweg-1/{name}.rs")
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
    return path


def test_what_did_not_change_keeps_its_time_when_an_archive_is_unpacked_over_another(tmp_path):
    source = tmp_path / "source"
    unpack(archive(tmp_path, same="1", changed="1", gone="1"), source)
    for path in source.iterdir():
        os.utime(path, (1, 1))
    unpack(archive(tmp_path, same="1", changed="2", new="1"), source)
    assert {path.stem: path.read_text() for path in source.iterdir()} == {
        "same": "1",
        "changed": "2",
        "new": "1",
    }
    assert {path.stem for path in source.iterdir() if path.stat().st_mtime == 1} == {"same"}


def test_the_digest_of_an_archive_depends_on_its_contents(tmp_path):
    found = [digest(archive_parts(archive(tmp_path, a=text))) for text in ("1", "1", "2")]
    assert len(set(found)) == 2


def test_other_peoples_libraries_are_copied_with_their_times(tmp_path):
    profile, copy = tmp_path / "target" / "debug", tmp_path / "other" / "debug"
    libraries = ["deps/libring-0a.rlib", "build/ring-0b/output", ".fingerprint/core2-0c/lib"]
    own = [
        "deps/libthalweg_broker-0a.rlib",
        "deps/thalweg_broker-0a.d",
        "deps/lib_core.so",
        "deps/_core.d",
        ".fingerprint/thalweg-python-0c/lib",
        ".fingerprint/xtask-0d/bin",
        "incremental/ring/x",
    ]
    for name in [*libraries, *own]:
        path = profile / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from the tree")
        os.utime(path, ns=(1, 10**18))
    kept = copy / libraries[0]
    kept.parent.mkdir(parents=True)
    kept.write_text("its own")
    copy_libraries(profile, copy)
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert found == set(libraries)
    assert kept.read_text() == "its own"
    assert (copy / libraries[1]).stat().st_mtime_ns == 10**18
