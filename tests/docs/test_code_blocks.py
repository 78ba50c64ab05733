"""The Python blocks of README.md and docs/ run, all blocks of a document as one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import java
from tests.support.paths import ROOT
from tests.support.spark_home import quick_start

BLOCK = re.compile(r"(?P<before>[^\n]*)\n+```python\n(?P<code>.*?)\n```", re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \S.*-->")


def blocks(text: str) -> list[tuple[int, str]]:
    """Returns the blocks to run with their line numbers. A comment says why one is left out."""
    return [
        (text.count("\n", 0, found.start("code")) + 1, found["code"])
        for found in BLOCK.finditer("\n" + text)
        if not NOT_RUN.search(found["before"])
    ]


def documents() -> list[Path]:
    return [
        p
        for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        if blocks(p.read_text())
    ]


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_the_code_blocks_of_a_document_run(document, tmp_path):
    # Empty lines keep the line numbers of the document in a traceback.
    program = ""
    for line, code in blocks(document.read_text(encoding="utf-8")):
        program += "\n" * (line - 1 - program.count("\n")) + code + "\n"
    # Not the bare name: a document may have the name of a module that its program imports.
    file = tmp_path / f"blocks-of-{document.stem}.py"
    file.write_text(program, encoding="utf-8")
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.java_home()),
        **quick_start(),
        "PYSPARK_PYTHON": sys.executable,
    }
    result = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    left = [each.name for each in tmp_path.iterdir() if each != file]
    assert left == [], "a second run would find what the first one left"


def test_blocks_are_found_with_their_lines_and_left_out_with_a_reason():
    text = textwrap.dedent(
        """
        # T

        ```python
        a = 1
        ```

        <!-- not run: far away -->
        ```python
        b = 2
        ```
        and then:

        ```python
        c = 3
        ```
        """
    )
    assert [code for _, code in blocks(text)] == ["a = 1", "c = 3"]
    assert [text.splitlines()[line - 1] for line, _ in blocks(text)] == ["a = 1", "c = 3"]


def test_links_between_documents_lead_somewhere():
    links = [
        (document, link)
        for folder in (ROOT, ROOT / "docs", ROOT / "benches")
        for document in folder.glob("*.md")
        for link in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
        if not link.startswith("http")
    ]
    broken = [(d.name, link) for d, link in links if not (d.parent / link).exists()]
    assert broken == []
