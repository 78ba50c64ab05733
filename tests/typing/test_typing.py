"""mypy and pyright check the files next to this one: all assert_type hold, all errors are errors.

Pyright is basedpyright, which is the same checker and includes its own Node. Both run in their
strict modes, with the settings of pyproject.toml.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = ("producers.py", "consumers.py", "options.py", "others.py", "native.py")
FILES = [HERE / name for name in NAMES]
WRONG = """
from typing import assert_type

from thalweg import KafkaConsumer


def wrong() -> None:
    assert_type(KafkaConsumer(), KafkaConsumer[str, str])
"""


def mypy(*files: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode in (0, 1), found.stderr
    return found.stdout


def pyright(*files: Path) -> list[str]:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *map(str, files)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(found.stdout)
    assert report["summary"]["filesAnalyzed"] >= len(files), found.stdout
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def test_mypy_agrees():
    assert mypy(*FILES) == ""


def test_pyright_agrees():
    assert pyright(*FILES) == []


def test_both_would_find_a_wrong_type(tmp_path: Path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    assert "assert-type" in mypy(wrong)
    assert len(pyright(wrong)) == 1
