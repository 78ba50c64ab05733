"""The docstrings of the native module and of its stub say the same.

Rust has the text that `help()` shows. The docstring in _core.pyi begins with that text, word for
word, and may say more to the callers in this package. So neither can change alone. The stub is the
source of the signatures: mypy's stubtest compares them (`make lint`).
"""

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.paths import ROOT
from thalweg import _core

STUB = ast.parse((ROOT / "python" / "thalweg" / "_core.pyi").read_text(encoding="utf-8"))


def documented(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields what the stub describes, with docstrings, but no types that only the stub has."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        decorators = {ast.unparse(each) for each in node.decorator_list}
        if "type_check_only" in decorators or not hasattr(
            _core, (prefix + node.name).split(".")[0]
        ):
            continue
        yield prefix + node.name, ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, f"{prefix}{node.name}.")


DOCS = {
    name: text
    for name, text in documented(STUB.body)
    # Python itself documents the special methods of native classes.
    if not name.rpartition(".")[2].startswith("__")
}


# Native classes that users get from calls. The fields of a ConsumerRecord need no description.
PUBLIC = ("BatchMetadata", "FutureBatchMetadata", "FutureRecordMetadata", "RecordFuture")


def native_doc(name: str) -> str:
    found: Any = _core
    for part in name.split("."):
        found = getattr(found, part)
    return found.__doc__ or ""


def words(text: str) -> list[str]:
    return text.replace("`", "").split()


@pytest.mark.parametrize("name", PUBLIC)
def test_help_of_a_public_class_describes_each_name(name: str) -> None:
    cls = getattr(_core, name)
    names = [f"{name}.{each}" for each in vars(cls) if not each.startswith("_")]
    assert [each for each in (name, *names) if not native_doc(each)] == []


@pytest.mark.parametrize("name", DOCS)
def test_the_docstring_of_the_stub_begins_with_the_native_one(name: str) -> None:
    native = words(native_doc(name))
    assert words(DOCS[name])[: len(native)] == native
