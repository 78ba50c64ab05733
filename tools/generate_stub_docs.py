"""Writes the docstrings of python/thalweg/_core.pyi, which are those of the native module.

    /// in crates/python/src ──make build──> __doc__ in thalweg._core ──> docstrings in _core.pyi

The signatures in the stub are written by hand, because Rust does not know the Python types. Run
`make build`, then run this without arguments. With `--check` it only says whether the stub is up to
date. tests/unit/test_native_docs.py runs that check.

What the tool leaves as it is:
- The docstring of the stub, and comments.
- Types that only the stub has: classes with `@type_check_only`, TypedDicts, and aliases.
- Constants and other names with an annotation. PyO3 has no place for their docstrings.

Special methods like `__len__` get no docstring, because Python itself documents most of them. The
doc comment of the class describes what is special about them.
"""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NAME = "python/thalweg/_core.pyi"
STUB = ROOT / NAME
COMMAND = "make build && .venv/bin/python tools/generate_stub_docs.py"
LINE_MAX = 100
QUOTES = '"""'

Described = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A class, method, property or function of the stub."""

    name: str
    node: Described
    doc: str | None
    """The docstring in the native module, "" if there is none. None if the name is not there."""


def is_only_in_stub(node: ast.ClassDef) -> bool:
    """Whether a class exists only for type checkers."""
    marks = {ast.unparse(each) for each in (*node.decorator_list, *node.bases)}
    return bool(marks & {"type_check_only", "TypedDict"})


def is_special(name: str) -> bool:
    """Whether a name is one that Python itself calls: `__len__`."""
    return name.startswith("__") and name.endswith("__")


def documented(body: list[ast.stmt], native: Any, prefix: str = "") -> Iterator[Found]:
    """Yields what the stub declares, but only the first of several declarations of a name."""
    seen = set()
    for node in body:
        if not isinstance(node, Described) or node.name in seen:
            continue
        if isinstance(node, ast.ClassDef) and is_only_in_stub(node):
            continue
        seen.add(node.name)
        if not hasattr(native, node.name):
            yield Found(prefix + node.name, node, None)
            continue
        found = getattr(native, node.name)
        doc = "" if is_special(node.name) else found.__doc__ or ""
        yield Found(prefix + node.name, node, inspect.cleandoc(doc))
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, found, f"{prefix}{node.name}.")


def problem(found: Found) -> str | None:
    """Returns why the docstring cannot be written, or None."""
    if found.doc is None:
        return f"{found.name}: the native module does not have it. Is the build up to date?"
    if QUOTES in found.doc or "\\" in found.doc:
        return f"{found.name}: its doc comment must not contain a backslash or three quotes"
    if found.doc:
        return None
    if not is_special(found.name.rpartition(".")[2]):
        return f"{found.name}: it has no doc comment (///) in crates/python/src"
    if ast.get_docstring(found.node):
        return f"{found.name}: describe a special method in the doc comment of its class"
    return None


def quoted(doc: str, indent: str) -> str:
    """Returns a docstring. Wraps only its first paragraph, because the quotes are before it."""
    summary, gap, rest = doc.partition("\n\n")
    lines = textwrap.wrap(
        summary,
        LINE_MAX if gap else LINE_MAX - len(QUOTES),
        initial_indent=indent + QUOTES,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not gap and len(lines) == 1:
        return lines[0] + QUOTES
    lines += ["", textwrap.indent(rest, indent)] if gap else []
    return "\n".join([*lines, indent + QUOTES])


def body_of(found: Found) -> str:
    """Returns what to write after the signature: a docstring with a blank line, or an ellipsis."""
    if found.doc:
        return "\n" + quoted(found.doc, " " * (found.node.col_offset + 4)) + "\n"
    return "" if isinstance(found.node, ast.ClassDef) else " ..."


def edited(text: str, found: Found) -> str:
    """Replaces the docstring in the text of a stub, or adds it. Ruff then removes blank lines."""
    lines = text.split("\n")
    first = found.node.body[0]
    if isinstance(first, ast.Expr):  # a docstring or an ellipsis, to replace
        assert first.end_lineno is not None, "the parser sets it"
        head, tail = lines[: first.lineno], lines[first.end_lineno :]
        head[-1] = head[-1][: first.col_offset]
    else:
        decorators = first.decorator_list if isinstance(first, Described) else []
        begin = decorators[0].lineno if decorators else first.lineno
        head, tail = lines[: begin - 1], lines[begin - 1 :]
    return "\n".join(["\n".join(head).rstrip() + body_of(found), *tail])


def place(found: Found) -> tuple[int, int]:
    """Returns where the body of a declaration begins: line and column."""
    return found.node.body[0].lineno, found.node.body[0].col_offset


def formatted(text: str) -> str:
    """Returns the text of a stub as ruff formats it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", NAME, "-"]
    ended = subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return ended.stdout


def render(text: str, native: Any) -> tuple[str, list[str]]:
    """Returns the text of the stub with the docstrings of the native module, and the problems."""
    everything = list(documented(ast.parse(text).body, native))
    problems = [found for found in map(problem, everything) if found]
    if problems:
        return text, problems
    # From the end, so that the line numbers of earlier declarations stay correct.
    for found in sorted(everything, key=place, reverse=True):
        text = edited(text, found)
    return formatted(text), []


def main(arguments: list[str]) -> int:
    """Writes the stub, or checks it with `--check`."""
    sys.path.insert(0, str(ROOT / "python"))
    from thalweg import _core

    old = STUB.read_text(encoding="utf-8")
    new, problems = render(old, _core)
    if problems:
        print(f"{NAME} and the native module do not agree:", *problems, sep="\n")
        print(f"Correct crates/python/src or the stub, then run: {COMMAND}")
        return 1
    if "--check" not in arguments:
        STUB.write_text(new, encoding="utf-8")
        return 0
    if new != old:
        print(f"{NAME} is out of date: run {COMMAND}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
