"""The notebooks of docs/ run, and their stored outputs are those of the run."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import java
from tests.support.paths import ROOT
from tests.support.spark_home import quick_start

NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
RUN = ROOT / "tools" / "run_notebook.py"
PNG = b"\x89PNG\r\n\x1a\n"


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def shown(notebook: Path) -> list[list[Any]]:
    """Returns the outputs of each cell: texts, and the sizes of pictures.

    Other versions of libraries draw the same picture with other pixels.
    """
    return [[_shown(each) for each in cell["outputs"]] for cell in cells(notebook, "code")]


def _shown(output: dict[str, Any]) -> Any:
    if output["output_type"] == "stream":
        return "".join(output["text"])
    data = output["data"]
    if "image/png" not in data:
        return "".join(data["text/plain"])
    png = base64.b64decode(data["image/png"])
    assert png.startswith(PNG)
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    return round(width, -2), round(height, -2)


def ran(notebook: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """Runs the cells of a notebook in a separate process."""
    return subprocess.run(
        [sys.executable, str(RUN), str(notebook), "--output", str(output)],
        cwd=output.parent,
        env={**os.environ, "JAVA_HOME": str(java.java_home()), **quick_start()},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_the_outputs_of_its_code(notebook: Path, tmp_path: Path) -> None:
    output = tmp_path / notebook.name
    result = ran(notebook, output)
    assert result.returncode == 0, result.stdout + result.stderr
    assert shown(output) == shown(notebook), f"run tools/run_notebook.py docs/{notebook.name}"
    assert [each.name for each in tmp_path.iterdir()] == [notebook.name]


def test_each_kind_of_output_is_stored(tmp_path: Path) -> None:
    codes = [
        "from matplotlib import pyplot as plt\nn = 3\nprint(n)",
        "class Table:\n    def _repr_html_(self):\n        return '<b>'\nTable()",
        "n + 1",
        "n + 1;",
        "for _ in range(2):\n    plt.subplots()",
    ]
    made = [{"cell_type": "code", "source": [code]} for code in codes]
    notebook, output = tmp_path / "a.ipynb", tmp_path / "b.ipynb"
    notebook.write_text(json.dumps({"cells": made}))
    assert ran(notebook, output).returncode == 0
    text, [html], four, nothing, two = (cell["outputs"] for cell in cells(output, "code"))
    assert text == [{"output_type": "stream", "name": "stdout", "text": ["3\n"]}]
    assert html["data"]["text/html"] == ["<b>"]
    assert four[0]["data"] == {"text/plain": ["4"]}
    assert nothing == []
    assert [list(each["data"]) for each in two] == [["image/png"]] * 2


def test_an_error_leaves_the_notebook_unchanged(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}))
    before = notebook.read_text()
    failed = ran(notebook, notebook)
    assert failed.returncode != 0
    assert "<cell 1>" in failed.stderr
    assert notebook.read_text() == before


def test_there_are_pictures() -> None:
    outputs = [each for path in NOTEBOOKS for cell in shown(path) for each in cell]
    assert sum(isinstance(each, tuple) for each in outputs) >= 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_links_of_a_notebook_lead_somewhere(notebook: Path) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells(notebook, "markdown"))
    links = [each for each in re.findall(r"\]\(([^)#\s]+)", text) if not each.startswith("http")]
    assert links
    assert [each for each in links if not (notebook.parent / each).exists()] == []
