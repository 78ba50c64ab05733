"""The rules of tools/layers.toml for the Python code.

import-linter checks the layers, with a configuration made from the table. The functions here read
the import statements to check which library is imported where.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

PYTHON = ROOT / "python"
FILES_MAX = 20  # source files in one folder
# Folders with one file for each of Kafka's APIs.
ONE_FILE_AN_API = (
    "crates/broker/src/handlers",
    "crates/protocol/src/generated/messages",
)


@dataclass(frozen=True)
class Import:
    """One import statement: the module, what it imports, and whether at its own import."""

    module: str
    imported: str
    at_import: bool
    line: int

    def of(self, library: str) -> bool:
        return within(self.imported, library)


def within(name: str, package: str) -> bool:
    """Whether a dotted name is the package or is inside it."""
    return name == package or name.startswith(package + ".")


def linter_config(rules: dict[str, Any], found: list[Import]) -> str:
    """Returns the table's layers as a configuration of import-linter."""
    lines = [
        "[importlinter]",
        "root_packages =\n    thalweg\n    pyspark_thalweg",
        "exclude_type_checking_imports = True",
    ]
    # The linter refuses a package that does not exist.
    packages = {each.module.rpartition(".")[0] for each in found}
    for room, layers in rules["python"]["rooms"].items():
        if f"thalweg.{room}" in packages:
            lines += contract(f"thalweg.{room}", layers)
    lines += contract("thalweg", rules["python"]["layers"])
    lines.append("exhaustive_ignores =\n    __main__")
    # The linter refuses an exception for an import that does not exist.
    there = {(each.module, each.imported.rpartition(".")[0]) for each in found}
    exceptions = [
        f"    {rule['from']} -> {rule['to']}"
        for rule in rules["python"]["against_the_order"]
        if (rule["from"], rule["to"]) in there
    ]
    if exceptions:
        lines += ["ignore_imports =", *exceptions]
    return "\n".join(lines) + "\n"


def contract(package: str, layers: list[str]) -> list[str]:
    """Returns the lines of a contract for the modules of one package."""
    lines = [
        f"[importlinter:contract:{package}]",
        f"name = layers of {package}",
        "type = layers",
        f"containers = {package}",
        "exhaustive = True",
        "layers =",
    ]
    for layer in layers:
        separator = " : " if ":" in layer else " | "
        names = [f"({name.strip()})" for name in layer.replace("|", ":").split(":")]
        lines.append("    " + separator.join(names))
    return lines


def gone(rules: dict[str, Any]) -> list[str]:
    """Lists modules that the table names and that do not exist."""
    table = rules["python"]
    named = {
        *named_in("thalweg", table["layers"]),
        *(
            name
            for room in table["rooms"]
            for name in named_in(f"thalweg.{room}", table["rooms"][room])
        ),
        *(rule[end] for rule in table["against_the_order"] for end in ("from", "to")),
        *(package for rule in table["libraries"].values() for package in rule["packages"]),
        *(rule["module"] for rule in table["lazy"]["except"]),
        table["pure"]["package"],
        *table["pure"]["except"],
    }
    return sorted(name for name in named if not is_module(name))


def named_in(package: str, layers: list[str]) -> set[str]:
    return {f"{package}.{name}" for layer in layers for name in re.findall(r"\w+", layer)}


def crowded(root: Path) -> list[str]:
    """Lists folders with so many source files that they should be rooms of several things."""
    patterns = ("*.py", "*.pyi", "*.rs")
    counts = Counter(path.parent for pattern in patterns for path in root.rglob(pattern))
    exempt = [ROOT / each for each in ONE_FILE_AN_API]
    return [
        f"{folder.relative_to(root)}: {count} files"
        for folder, count in sorted(counts.items())
        if count > FILES_MAX and folder not in exempt
    ]


def is_module(name: str) -> bool:
    path = PYTHON.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imports() -> Iterator[Import]:
    """Yields all import statements of our packages, except those for type checkers."""
    for path in sorted(PYTHON.rglob("*.py")):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        package = parts if parts[-1] == "__init__" else parts[:-1]
        name = ".".join(part for part in parts if part != "__init__")
        package = tuple(part for part in package if part != "__init__")
        yield from imports_of(name, package, path)


def imports_of(module: str, package: tuple[str, ...], path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node, at_import in statements(tree, True):
        for imported in imported_names(node, package):
            yield Import(module, imported, at_import, node.lineno)


def statements(
    node: ast.AST, at_import: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yields the import statements below a node, and whether they run at the module's import."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, at_import
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and is_type_checking(node.test):
        children = list(node.orelse)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        at_import = False
    for child in children:
        yield from statements(child, at_import)


def is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def imported_names(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = list(package[: len(package) - node.level + 1]) if node.level else []
    module = ".".join(base + ([node.module] if node.module else []))
    return [f"{module}.{alias.name}" for alias in node.names]


def library_users(rules: dict[str, Any], found: list[Import]) -> list[str]:
    """Lists imports of a library outside the packages that may use it."""
    return [
        f"{each.module}:{each.line} imports {each.imported}: {rule['why']}"
        for each in found
        for library, rule in rules["python"]["libraries"].items()
        if each.of(library)
        and not any(within(each.module, package) for package in rule["packages"])
    ]


def eager_imports(rules: dict[str, Any], found: list[Import]) -> list[str]:
    """Lists imports of heavy libraries that run when a module is imported."""
    lazy = rules["python"]["lazy"]
    return [
        f"{each.module}:{each.line} imports {each.imported} at its own import"
        for each in found
        for library in lazy["libraries"]
        if each.at_import
        and each.of(library)
        and not any(
            within(each.module, rule["module"]) and library in rule["libraries"]
            for rule in lazy["except"]
        )
    ]


def impure_imports(rules: dict[str, Any], found: list[Import]) -> list[str]:
    """Lists imports of I/O, clocks, threads or randomness in the state machines."""
    pure = rules["python"]["pure"]
    return [
        f"{each.module}:{each.line} imports {each.imported}"
        for each in found
        if within(each.module, pure["package"])
        and not any(within(each.module, driver) for driver in pure["except"])
        and any(each.of(module) for module in pure["modules"])
    ]
