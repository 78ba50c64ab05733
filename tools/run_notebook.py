"""Runs the code of a notebook, and stores the outputs in it, as Jupyter does.

    python tools/run_notebook.py docs/flights.ipynb
    python tools/run_notebook.py docs/flights.ipynb --output other.ipynb

The tree has no Jupyter, so that it needs fewer packages. This program stores what notebooks of the
documentation use: printed text, the value of a cell's last line, and the pictures of matplotlib.
It does not store standard error, and ends at the first exception.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--output", type=Path, help="default: the notebook itself")
    arguments = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    notebook = json.loads(arguments.notebook.read_text(encoding="utf-8"))
    run(notebook)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    (arguments.output or arguments.notebook).write_text(text, encoding="utf-8")


def run(notebook: dict[str, Any]) -> None:
    """Runs all code cells in one namespace, and replaces their outputs."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        cell["execution_count"] = number
        cell["outputs"] = list(outputs("".join(cell["source"]), number, namespace))


def outputs(code: str, number: int, namespace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Runs a cell, and yields its outputs.

    Args:
        code: The code of the cell.
        number: The number of the cell, for its value and for tracebacks.
        namespace: The variables of the notebook.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = evaluated(code, f"<cell {number}>", namespace)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
    if value is not None:
        yield {
            "output_type": "execute_result",
            "execution_count": number,
            "metadata": {},
            "data": _forms(value),
        }
    for png in pictures():
        data = {"image/png": base64.b64encode(png).decode("ascii")}
        yield {"output_type": "display_data", "metadata": {}, "data": data}


def evaluated(code: str, name: str, namespace: dict[str, Any]) -> Any:
    """Runs code, and returns the value of its last line, or None if that has none."""
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or code.rstrip().endswith(";"):
        exec(compile(tree, name, "exec"), namespace)
        return None
    tree.body.pop()
    exec(compile(tree, name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def pictures() -> Iterator[bytes]:
    """Yields the open figures of matplotlib as PNG, and closes them."""
    from matplotlib import pyplot as plt

    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", bbox_inches="tight", metadata={})
        plt.close(number)
        yield file.getvalue()


def _forms(value: Any) -> dict[str, list[str]]:
    forms = {"text/plain": _lines(repr(value))}
    html = getattr(value, "_repr_html_", lambda: None)()
    return forms if html is None else {"text/html": _lines(html), **forms}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
