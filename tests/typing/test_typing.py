"""`make lint` checks the files next to this one: all assert_type hold, all errors are errors.

mypy and pyright check them in their strict modes, with the settings of pyproject.toml. Pyright is
basedpyright, which is the same checker and includes its own Node. These tests do not repeat that.
They show that `make lint` includes the files, and that both checkers find a wrong type.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
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


def test_make_lint_checks_these_files_with_both():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert "tests" in settings["mypy"]["files"]
    assert settings["mypy"]["strict"]
    assert "tests/typing" in settings["basedpyright"]["include"]
    assert settings["basedpyright"]["typeCheckingMode"] == "strict"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (lint,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert {"$(BIN)/mypy", "$(BIN)/basedpyright"} <= set(lint.split())


def test_both_would_find_a_wrong_type(tmp_path: Path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    assert "assert-type" in mypy(wrong)
    assert len(pyright(wrong)) == 1
