"""The Python modules import only what tools/layers.toml allows."""

from __future__ import annotations

import copy
import subprocess
import sys
import textwrap

import pytest

from tests.layering import packages
from tests.layering.crates import rules
from tests.support.paths import ROOT


def lint(config: str, folder, cwd) -> subprocess.CompletedProcess[str]:
    file = folder / "importlinter.ini"
    file.write_text(config, encoding="utf-8")
    program = (
        "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    command = [sys.executable, "-c", program, "--config", str(file), "--no-cache"]
    environment = {"PYTHONPATH": str(cwd), "PATH": ""}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_modules_import_only_what_stands_below_them(tmp_path):
    result = lint(
        packages.linter_config(rules(), list(packages.imports())), tmp_path, ROOT / "python"
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_table_names_no_module_that_is_gone():
    assert packages.gone(rules()) == []


@pytest.mark.parametrize(
    "folder", ["python", "tests", "benches", "tools", "crates", "fuzz/fuzz_targets", "xtask"]
)
def test_no_folder_is_crowded(folder):
    assert packages.crowded(ROOT / folder) == []


def test_spark_is_imported_only_by_the_spark_packages():
    assert packages.library_users(rules(), list(packages.imports())) == []


def test_heavy_libraries_are_not_imported_at_import():
    assert packages.eager_imports(rules(), list(packages.imports())) == []


def test_state_machines_import_no_io_clock_thread_or_randomness():
    assert packages.impure_imports(rules(), list(packages.imports())) == []


# Tests of the checks themselves: each finds the violation that it is for.


def test_an_import_upwards_is_found(tmp_path):
    root = tmp_path / "thalweg"
    root.mkdir()
    (tmp_path / "pyspark_thalweg").mkdir()
    (tmp_path / "pyspark_thalweg" / "__init__.py").touch()
    for name in ("__init__", "errors", "producer"):
        (root / f"{name}.py").touch()
    config = packages.linter_config(rules(), [])
    result = lint(config, tmp_path, tmp_path)
    assert result.returncode == 0, result.stdout
    (root / "errors.py").write_text("import thalweg.producer\n", encoding="utf-8")
    result = lint(config, tmp_path, tmp_path)
    assert result.returncode == 1
    assert "thalweg.errors -> thalweg.producer" in result.stdout


def test_a_module_without_a_place_is_found(tmp_path):
    root = tmp_path / "thalweg"
    root.mkdir()
    (tmp_path / "pyspark_thalweg").mkdir()
    (tmp_path / "pyspark_thalweg" / "__init__.py").touch()
    (root / "__init__.py").touch()
    (root / "utils.py").touch()
    result = lint(packages.linter_config(rules(), []), tmp_path, tmp_path)
    assert result.returncode == 1
    assert "utils" in result.stdout


def test_an_import_upwards_inside_a_room_is_found(tmp_path):
    root = tmp_path / "thalweg"
    (root / "_config").mkdir(parents=True)
    (tmp_path / "pyspark_thalweg").mkdir()
    (tmp_path / "pyspark_thalweg" / "__init__.py").touch()
    for name in ("__init__", "_config/__init__", "_config/options", "_config/coerce"):
        (root / f"{name}.py").touch()
    upwards = packages.Import("thalweg._config.options", "thalweg._config.coerce", True, 1)
    config = packages.linter_config(rules(), [upwards])
    result = lint(config, tmp_path, tmp_path)
    assert result.returncode == 0, result.stdout
    (root / "_config" / "options.py").write_text(f"import {upwards.imported}\n", encoding="utf-8")
    result = lint(config, tmp_path, tmp_path)
    assert result.returncode == 1
    assert "thalweg._config.options -> thalweg._config.coerce" in result.stdout


def test_a_crowded_folder_is_found(tmp_path):
    full, more = packages.FILES_MAX, packages.FILES_MAX + 1
    for room, suffix, count in (("full", "py", full), ("python", "py", more), ("rust", "rs", more)):
        (tmp_path / room).mkdir()
        for number in range(count):
            (tmp_path / room / f"m{number}.{suffix}").touch()
    assert packages.crowded(tmp_path) == [f"python: {more} files", f"rust: {more} files"]


def test_folders_with_one_file_an_api_would_be_crowded():
    for folder in packages.ONE_FILE_AN_API:
        assert len(list((ROOT / folder).glob("*.rs"))) > packages.FILES_MAX


def test_a_module_that_is_gone_is_found():
    table = copy.deepcopy(rules())
    table["python"]["layers"].append("testing : consumer")
    table["python"]["lazy"]["except"].append({"module": "thalweg.aio.gone", "libraries": []})
    assert packages.gone(table) == ["thalweg.aio.gone", "thalweg.testing"]


SOURCE = """
    import socket
    from typing import TYPE_CHECKING
    from . import driver
    from ..errors import KafkaError
    if TYPE_CHECKING:
        import pyspark
    else:
        import time
    def late():
        import pyarrow as pa
    class Early:
        import pandas
"""


@pytest.fixture
def found(tmp_path):
    path = tmp_path / "member.py"
    path.write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    return list(
        packages.imports_of("thalweg.coordinator.classic.member", ("thalweg", "coordinator"), path)
    )


def test_imports_are_read_with_their_place(found):
    assert [(each.imported, each.at_import) for each in found] == [
        ("socket", True),
        ("typing.TYPE_CHECKING", True),
        ("thalweg.coordinator.driver", True),
        ("thalweg.errors.KafkaError", True),
        ("time", True),
        ("pyarrow", False),
        ("pandas", True),
    ]


def test_the_checks_find_what_they_look_for(found):
    late_spark = packages.Import("thalweg.producer", "pyspark.sql", False, 3)
    assert len(packages.library_users(rules(), [*found, late_spark])) == 1
    assert [line.split()[-6:-3] for line in packages.eager_imports(rules(), found)] == [
        ["imports", "pandas", "at"]
    ]
    assert len(packages.impure_imports(rules(), found)) == 2
