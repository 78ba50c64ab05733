"""Scripts set no home folder, Spark fetches no jars, versions are pinned, files are short."""

from __future__ import annotations

import pytest

from tests.layering import conventions
from tests.support.paths import ROOT

REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))

SET = """\
HOME=/tmp cargo build
export HOME := $(CURDIR)
	CARGO_HOME = .cache/cargo
RUSTUP_HOME ?= .cache/rustup
: "${HOME:=/root}"
env FOO=1 HOME=/tmp make
os.environ["CARGO_HOME"] = "x"
subprocess.run(command, env={"HOME": "/tmp"})
os.environ.setdefault("RUSTUP_HOME", "x")
unset FOO HOME
environment = { CARGO_HOME = "/cargo" }
"""
LEFT = """\
JAVA_HOME=/usr/lib/jvm make test
"${root:-${HOME-}}"/.sdkman
PATH = "$HOME/.cargo/bin:$PATH"
test "$HOME" = /root
if os.environ["HOME"] == "/root":
home = os.environ["HOME"]
$(HOME)/.cargo/bin/cargo
"""


def test_no_script_sets_a_home_folder():
    scripts = conventions.texts(filter(conventions.is_script, conventions.tracked()))
    assert {"Makefile", "tools/doctor", ".ci/run", "pyproject.toml"} <= scripts.keys()
    assert conventions.homes_set(scripts) == []


def test_nothing_has_spark_fetch_jars():
    own = "tests/layering/test_conventions.py"
    files = conventions.texts(path for path in conventions.tracked() if path != own)
    assert "python/thalweg/demo/spark.py" in files
    assert conventions.spark_packages(files) == []


def test_no_file_asks_for_another_rust():
    assert conventions.toolchain_pins(conventions.tracked()) == []


def test_what_fixes_versions_is_tracked():
    wanted = {"Cargo.lock", "requirements/constraints.txt", "requirements/peers.txt"}
    assert wanted <= set(conventions.tracked())


def test_no_source_file_is_too_long():
    sources = conventions.texts(filter(conventions.is_source, conventions.tracked()))
    assert {"crates/records/src/lib.rs", *conventions.TABLES, conventions.STUB} <= sources.keys()
    assert conventions.long_files(sources) == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_has_one_version(path):
    text = path.read_text(encoding="utf-8")
    assert "==" in text
    assert conventions.unpinned(text) == []


# Tests of the checks themselves: each finds the violation that it is for.


def test_without_git_what_was_built_in_an_archives_folder_is_left_out(tmp_path):
    own = [".gitignore", "Makefile", "fuzz/target.rs", "src/a.py", "src/target/b.py"]
    built = ["target/x", "fuzz/corpus/1", "src/__pycache__/a.pyc", "src/a.so", "a.egg-info/x"]
    for path in map(tmp_path.joinpath, own + built):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("/target/\n/fuzz/corpus/\n__pycache__/\n*.so\n*.egg-info/\n")
    assert conventions.unignored(tmp_path) == sorted(own)


@pytest.mark.parametrize("line", SET.splitlines())
def test_a_line_that_sets_a_home_folder_is_found(line):
    assert conventions.homes_set({"Makefile": f"all:\n{line}\n"}) == [f"Makefile:2: {line.strip()}"]


@pytest.mark.parametrize("line", LEFT.splitlines())
def test_a_line_that_only_reads_one_is_not(line):
    assert conventions.homes_set({"Makefile": line}) == []


def test_the_checks_find_what_they_look_for():
    config = '.config("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0")'
    assert conventions.spark_packages({"a.py": f"x = 1\n{config}"}) == [f"a.py:2: {config}"]
    pins = ["rust-toolchain", "fuzz/rust-toolchain.toml"]
    assert conventions.toolchain_pins(["Cargo.toml", *pins, "docs/rust-toolchain.md"]) == pins
    open_ones = ["rich", "rich>=13", "rich==15.*", "rich~=15.0", "-r more.txt", "rich==15.0,>14"]
    assert conventions.unpinned("\n".join(["# why", "", *open_ones])) == open_ones
    hashed = f"rich==15.0 --hash=sha256:{'0' * 64}"
    assert conventions.unpinned(f"pip==26.3\npyspark[sql]==4.3.0  # why\n{hashed}\n") == []


def test_a_file_that_is_too_long_is_found():
    table, generated = conventions.TABLES[0], "crates/protocol/src/generated/table.rs"
    limit = "x\n" * conventions.LINES_MAX
    more = limit + "x"
    sources = {"tests/a.py": limit, "tests/b.py": more, "tests/c.pyi": more, table: more}
    assert conventions.long_files({**sources, conventions.STUB: more}) == [
        f"tests/{name}: {conventions.LINES_MAX + 1} lines" for name in ("b.py", "c.pyi")
    ]
    assert conventions.is_source(conventions.STUB)
    assert not conventions.is_source(generated)
