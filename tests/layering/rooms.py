"""The rules of tools/layers.toml for the rooms of the Rust crates: functions that list violations.

A room is a folder or a file in a crate's src/. The facts are the paths in its source text, outside
tests: `use crate::room::…`, `crate::room::…` in code, `super::…` that leaves the room, and names
that lib.rs exports again (`crate::Core` is in the room `core`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.layering.crates import source_files
from tests.support.paths import ROOT

_PATH = re.compile(r"\b(crate|super(?:::super)*)::")
_EXPORTED = re.compile(r"\buse (?:crate::)?(\w+)::([^;]*);")
_LAST_NAME = re.compile(r"\w+(?=\s*[,};]|$)")


@dataclass(frozen=True)
class Use:
    """A path that leaves its room."""

    crate: str
    file: str  # below src/
    line: int
    room: str
    used: str

    @property
    def place(self) -> str:
        return f"crates/{self.crate}/src/{self.file}:{self.line}"


def rooms_of(crate: str) -> set[str]:
    """Returns the names of the folders and files in src/."""
    src = ROOT / "crates" / crate / "src"
    return {path.stem for path in src.iterdir()} - {"lib", "tests"}


def uses(crate: str) -> list[Use]:
    """Returns all paths of a crate that leave their room."""
    return list(uses_in(crate, rooms_of(crate), dict(source_files(crate))))


def uses_in(crate: str, rooms: set[str], files: dict[str, str]) -> Iterator[Use]:
    exported = exports(rooms, files["lib.rs"])
    for name, text in files.items():
        if name == "lib.rs":
            continue
        modules = [part for part in Path(name).with_suffix("").parts if part != "mod"]
        for found in _PATH.finditer(text):
            if found[1] != "crate" and found[1].count("super") != len(modules):
                continue
            line = text.count("\n", 0, found.start()) + 1
            for first in first_names(text[found.end() :]):
                used = first if first in rooms else exported.get(first)
                if used is None and found[1] == "crate":
                    used = first  # of no room: not in the table
                if used is not None and used != modules[0]:
                    yield Use(crate, name, line, modules[0], used)


def exports(rooms: set[str], lib: str) -> dict[str, str]:
    """Returns the room of each name that lib.rs exports."""
    return {
        name: found[1]
        for found in _EXPORTED.finditer(lib)
        if found[1] in rooms
        for name in _LAST_NAME.findall(found[2])
    }


def first_names(text: str) -> list[str]:
    """Returns the first part of a path, or of each path in braces."""
    if not text.startswith("{"):
        return re.findall(r"\A\w+", text)
    names, depth, at_start = [], 0, False
    for token in re.findall(r"\w+|\S", text):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            break
        if depth == 1 and at_start and re.match(r"\w", token):
            names.append(token)
        at_start = depth == 1 and token in "{,"
    return names


def exceptions(rules: dict[str, Any], crate: str) -> set[tuple[str, str]]:
    """Returns the edges against the order that the table names, each with a reason."""
    return {
        (rule["from"], to)
        for rule in rules["rust"]["against_the_order"]
        if rule["crate"] == crate
        for to in rule["to"]
    }


def forbidden(rules: dict[str, Any], crate: str, found: Iterable[Use]) -> list[str]:
    """Lists paths into a room that the table does not allow."""
    table, named = rules["rust"]["rooms"][crate], exceptions(rules, crate)
    return [
        f"{each.place}: {each.room} may not know {each.used}: see [rust.rooms.{crate}]"
        for each in found
        if each.used not in table.get(each.room, ()) and (each.room, each.used) not in named
    ]


def unused(rules: dict[str, Any], crate: str, found: Iterable[Use]) -> list[str]:
    """Lists edges of the table that no source file needs any more."""
    needed = {(each.room, each.used) for each in found}
    table = rules["rust"]["rooms"][crate]
    allowed = {(room, used) for room, known in table.items() for used in known}
    return [
        f"{crate}: {room} does not use {used}"
        for room, used in sorted((allowed | exceptions(rules, crate)) - needed)
    ]


def misplaced(rules: dict[str, Any], crate: str, rooms: set[str]) -> list[str]:
    """Lists rooms that are missing in the table or gone, and edges to a room further down."""
    table = rules["rust"]["rooms"][crate]
    broken = [f"{crate}: {room} is not in the table" for room in sorted(rooms - table.keys())]
    broken += [f"{crate}: {room} is gone" for room in sorted(table.keys() - rooms)]
    above: set[str] = set()
    for room, known in table.items():
        broken += [
            f"{crate}: {room} -> {used}: {used} is not above {room}. Name the edge in "
            "rust.against_the_order, with the reason"
            for used in known
            if used not in above
        ]
        above.add(room)
    return broken
