"""The rules of tools/layers.toml for the Rust code, as functions that list violations.

The facts come from `cargo metadata` (edges, libraries, licences) and from the source text (words
that a core must not contain). The rules for words do not apply to tests. Those for edges do.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

PREFIX = "thalweg-"


@cache
def rules() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tools" / "layers.toml").read_text(encoding="utf-8"))


@cache
def metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def members(graph: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the packages of the workspace by the name of their folder."""
    ours = set(graph["workspace_members"])
    return {short(p["name"]): p for p in graph["packages"] if p["id"] in ours}


def short(name: str) -> str:
    return name.removeprefix(PREFIX)


def crate_edges(graph: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """Lists edges between our crates that the table does not allow."""
    ours, broken = members(graph), []
    for crate, package in ours.items():
        if crate not in rules["crates"]:
            broken.append(f"{crate} is not in the table of crates")
            continue
        for dependency in package["dependencies"]:
            other = short(dependency["name"])
            if other not in ours:
                continue
            allowed = set(rules["crates"][crate])
            if dependency["kind"] == "dev":
                allowed |= set(rules["dev_crates"].get(crate, ()))
            if other not in allowed:
                broken.append(f"{crate} -> {other} ({dependency['kind'] or 'normal'} dependency)")
    return broken


def library_users(graph: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """Lists crates that depend on a library which the table gives to other crates."""
    broken = []
    for crate, package in members(graph).items():
        for dependency in package["dependencies"]:
            rule = rules["libraries"].get(dependency["name"])
            if rule and crate not in rule["crates"]:
                broken.append(f"{crate} names {dependency['name']}: {rule['why']}")
    return broken


def feature_users(graph: dict[str, Any], feature: str) -> list[str]:
    """Lists what enables a feature of one of our crates: dependencies, and other features."""
    users = []
    for crate, package in members(graph).items():
        users += [
            f"{crate} ({dependency['kind'] or 'normal'} dependency)"
            for dependency in package["dependencies"]
            if feature in dependency["features"]
        ]
        users += [
            f"{crate} (feature {other})"
            for other, enabled in package["features"].items()
            if any(each.split("/")[-1] == feature for each in enabled)
        ]
    return users


def licences(graph: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """Lists packages that a wheel contains under a licence that is not allowed."""
    allowed = set(rules["licences"]["allowed"])
    packages = {p["id"]: p for p in graph["packages"]}
    nodes = {n["id"]: n for n in graph["resolve"]["nodes"]}
    todo = [p["id"] for p in members(graph).values()]
    seen: set[str] = set()
    while todo:
        package = todo.pop()
        if package in seen:
            continue
        seen.add(package)
        todo += [
            dependency["pkg"]
            for dependency in nodes[package]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
    broken = []
    for package in sorted(seen):
        licence = packages[package]["license"]
        if licence is None or not licence_allowed(licence, allowed):
            broken.append(f"{packages[package]['name']}: {licence}")
    return broken


def licence_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be satisfied with the allowed licences."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either() -> bool:
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both() -> bool:
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one() -> bool:
        if tokens[0] == "(":
            tokens.pop(0)
            value = either()
            tokens.pop(0)
            return value
        name = tokens.pop(0)
        if tokens and tokens[0] == "WITH":
            name = f"{name} WITH {tokens[1]}"
            del tokens[:2]
        return name in allowed

    return either()


def source_files(crate: str) -> Iterator[tuple[str, str]]:
    """Yields the crate's own source files by path below src/, without tests and comments."""
    folder = ROOT / "crates" / crate / "src"
    for path in sorted(folder.rglob("*.rs")):
        name = path.relative_to(folder).as_posix()
        if not is_test_file(path):
            yield name, without_tests(path.read_text(encoding="utf-8"))


def is_test_file(path: Path) -> bool:
    return path.stem == "tests" or path.stem.endswith("_tests") or "tests" in path.parts


def without_tests(text: str) -> str:
    """Returns source text up to its test module, without line comments."""
    text = re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ *\{", text, maxsplit=1)[0]
    return "\n".join(re.sub(r"(^|\s)//.*", "", line) for line in text.splitlines())


def words_in(text: str, words: list[str]) -> list[tuple[int, str]]:
    """Returns lines of a text that contain one of the words."""
    return [
        (number, word)
        for number, line in enumerate(text.splitlines(), 1)
        for word in words
        if re.search(
            rf"(?<![\w:]){re.escape(word)}(?!\w)" if word[-1].isalnum() else re.escape(word), line
        )
    ]


def forbidden_words(rules: dict[str, Any]) -> list[str]:
    """Lists places in the source that contain a forbidden word."""
    broken = []
    for crate in rules["cores"]["crates"]:
        for name, text in source_files(crate):
            for number, word in words_in(text, rules["cores"]["words"]):
                broken.append(f"crates/{crate}/src/{name}:{number}: {word} in a core")
    for rule in rules["words"]:
        for name, text in source_files(rule["crate"]):
            if any(
                name == each or (each.endswith("/") and name.startswith(each))
                for each in rule["only_in"]
            ):
                continue
            for number, word in words_in(text, rule["words"]):
                broken.append(f"crates/{rule['crate']}/src/{name}:{number}: {word}: {rule['why']}")
    return broken


def without_forbid_unsafe(rules: dict[str, Any]) -> list[str]:
    """Lists crates that should forbid unsafe code and do not."""
    return [
        crate
        for crate in rules["cores"]["forbid_unsafe"]
        if "#![forbid(unsafe_code)]"
        not in (ROOT / "crates" / crate / "src" / "lib.rs").read_text(encoding="utf-8")
    ]
