"""The files that ARCHITECTURE.md names and the tests that docs/failures.md names are there."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from tests.layering import conventions
from tests.support.paths import ROOT

FILE = re.compile(r"(?<![\w./-])[\w*/.-]*[\w*-](?:\.(?:md|py|pyi|rs|toml)\b|/(?!\w))")
TEST = re.compile(r"`(?:(?P<file>\w+/\w+))?::(?P<function>\w+)`")
# What failures.md says of its names: a folder's tests lie here.
PLACES = {
    **{each: f"crates/{each}/tests/{each}/%s.rs" for each in ("cluster", "network", "producer")},
    "consumer": "crates/consumer/tests/virtual_time/%s.rs",
    **{each: f"crates/{each}/tests/%s.rs" for each in ("protocol", "records")},
    **{each: f"tests/{each}/test_%s.py" for each in ("coordinator", "integration")},
}


def missing_files(text: str) -> list[str]:
    """Files and folders (`driver/`) that no path of the tree has; the map leaves `src/` out."""
    paths = ["/" + path.replace("/src/", "/") for path in conventions.tracked()]
    named = sorted(set(FILE.findall(text)))
    ends = {each: f"*/{each}*" if each.endswith("/") else f"*/{each}" for each in named}
    return [each for each in named if not any(fnmatch(path, ends[each]) for path in paths)]


def missing_tests(text: str) -> list[str]:
    """Tests of the table that the file they are said to be in does not have."""
    missing, path = [], Path()
    for found in TEST.finditer(text):
        if found["file"]:
            folder, _, name = found["file"].partition("/")
            path = ROOT / (PLACES[folder] % name)
        head = "def test_" if path.suffix == ".py" else "fn "
        source = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not re.search(rf"\b{head}{found['function']}\b", source):
            missing.append(f"{path.name}: {found['function']}")
    return missing


def test_the_files_that_the_map_names_are_there():
    assert missing_files((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")) == []


def test_the_tests_that_the_failures_name_are_there():
    assert missing_tests((ROOT / "docs/failures.md").read_text(encoding="utf-8")) == []


def test_names_that_lead_nowhere_are_found():
    assert missing_files("`tests/docs/test_names.py`, network/no.rs") == ["network/no.rs"]
    text = "`records/hostile::a_count_of_records_that_lies_is_refused`, `::no`, `cluster/no::no`"
    assert missing_tests(text) == ["hostile.rs: no", "no.rs: no"]
