"""One process runs all tests that share a broker, a cluster or a wheel."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.runs.scheduling import group, rank


@pytest.mark.parametrize(
    ("test", "together"),
    [
        (
            "tests/integration/consumer/test_polling.py::test_x[kafka-4.3]",
            "tests/integration/consumer/test_polling.py",
        ),
        ("tests/spark/test_demo.py::test_x", "tests/spark/test_demo.py::test_x"),
        ("tests/spark/test_installs.py::test_x", "tests/spark/test_installs.py::test_x"),
        ("tests/spark/test_write.py::test_x[kafka-4.3]", "tests/spark"),
        ("tests/spark/test_options.py::test_x", "tests/spark/test_options.py"),
        ("tests/admin/test_acls.py::test_x[4.3]", "tests/admin"),
        ("tests/unit/admin/test_groups.py::test_x", "tests/unit/admin/test_groups.py"),
        ("tests/packaging/test_contents.py::test_x", "tests/packaging"),
        ("tests/packaging/test_installed.py::test_x[a]", "tests/packaging"),
        (
            "tests/interop/test_exchange.py::test_x[kafka-3.9-lz4]",
            "tests/interop/test_exchange.py[kafka-3.9]",
        ),
        ("tests/interop/test_exchange.py::test_y", "tests/interop/test_exchange.py"),
    ],
)
def test_the_group_of_a_test(test, together):
    assert group(test) == together


def test_the_longest_files_begin_and_single_tests_fill_what_is_left_before_the_rest():
    assert rank("test_installed.py") < rank("test_exchange.py")
    assert rank("test_stream_read.py") < rank("test_demo.py") < rank("test_polling.py")


def test_one_process_runs_all_of_a_file():
    """Uses the installed scheduler and plugin, not only their rules.

    Without them `--dist load` spreads a file's tests over all processes, which `loadscope` would
    not.
    """
    files = ["tests/unit/test_partitioner.py", "tests/unit/test_structs.py"]
    pytest_ = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "load", "-v", *files]
    ran = subprocess.run(pytest_, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    processes: dict[str, set[str]] = {}
    for process, file in re.findall(r"^\[(gw\d)\].* PASSED (\S+?)::", ran.stdout, re.MULTILINE):
        processes.setdefault(file, set()).add(process)
    assert sorted(processes) == files
    assert all(len(of_a_file) == 1 for of_a_file in processes.values()), processes


def test_only_the_tests_of_three_processes_use_a_shared_spark_session():
    """A test with the fixture in another file would start one more Spark."""
    uses = re.compile(r"^def test_\w+\([^)]*\b(?:spark|source|stream_of)\b\s*[:,)]", re.MULTILINE)
    files = [
        path
        for path in (ROOT / "tests" / "spark").rglob("test_*.py")
        if uses.search(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 1
    named = {path.relative_to(ROOT).as_posix() for path in files}
    sessions = {group(f"{name}::test_x") for name in named}
    assert sessions == {"tests/spark", "tests/spark/exactly_once", "tests/spark/parity"}
