"""The files that ARCHITECTURE.md names and the tests that docs/failures.md names exist.

Each row of docs/failures.md also says what its tests run against. It names every test whose text
refers to that row.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

from tests.layering import conventions
from tests.support.paths import ROOT

FILE = re.compile(r"(?<![\w./-])[\w*/.-]*[\w*-](?:\.(?:md|py|pyi|rs|toml)\b|/(?!\w))")
TEST = re.compile(r"`(?P<file>\w+(?:/\w+)+)?::(?P<function>\w+)`")
ROW = re.compile(r"^\| (?P<number>\d+) \|")
ABOUT = re.compile(
    r"\b(?P<kind>scenario|bug)s? (?P<numbers>\d+(?:(?:, | and )\d+)*)", re.IGNORECASE
)
# The folders of the tests that failures.md names, by the first part of the name.
FOLDERS = {
    **{each: f"crates/{each}/tests/{each}" for each in ("cluster", "network", "producer")},
    "consumer": "crates/consumer/tests/virtual_time",
    **{each: f"crates/{each}/tests" for each in ("protocol", "records", "simulation")},
    **{
        each: f"tests/{each}" for each in ("benches", "coordinator", "integration", "spark", "unit")
    },
}
# What the tests of a folder run on. For `integration` the parameters of the tests decide.
RUN_ON = {
    **dict.fromkeys(("cluster", "consumer", "coordinator", "producer"), "virtual time"),
    **dict.fromkeys(("network", "simulation"), "in memory"),
    **dict.fromkeys(("protocol", "records"), "bytes"),
    **dict.fromkeys(("benches", "spark"), "embedded"),
    "unit": "no broker",
}
FIXTURES = {
    "broker: Broker": ("embedded", "Kafka"),
    "modern_broker": ("embedded", "Kafka"),
    "group: Group": ("embedded", "Kafka"),
    "EmbeddedBroker": ("embedded",),
    "embedded:": ("embedded",),
    "start_embedded": ("embedded",),
    "login: Login": ("embedded",),
    "RealKafka": ("Kafka",),
    "kafka: Broker": ("Kafka",),
    "start_kafka": ("Kafka",),
    "token_servers": ("embedded", "Kafka"),
    "election: Election": ("Kafka",),
    "scripted": ("scripted",),
}
ORDER = ("virtual time", "in memory", "bytes", "embedded", "Kafka", "scripted", "no broker")


def missing_files(text: str) -> list[str]:
    """Lists files and folders (`driver/`) that do not exist. The map omits `src/`."""
    paths = ["/" + path.replace("/src/", "/") for path in conventions.tracked()]
    named = sorted(set(FILE.findall(text)))
    ends = {each: f"*/{each}*" if each.endswith("/") else f"*/{each}" for each in named}
    return [each for each in named if not any(fnmatch(path, ends[each]) for path in paths)]


def named_tests(text: str) -> list[tuple[str, Path, str]]:
    """Returns folder, file and function of each test that a text names."""
    named, folder, path = [], "", Path()
    for found in TEST.finditer(text):
        if found["file"]:
            folder, *below, name = found["file"].split("/")
            top = FOLDERS[folder]
            file = f"{name}.rs" if top.startswith("crates/") else f"test_{name}.py"
            path = ROOT.joinpath(top, *below, file)
        named.append((folder, path, found["function"]))
    return named


def signature(path: Path, function: str) -> str | None:
    """Returns the parameters of a test, or None if the file has no such test."""
    head = "def test_" if path.suffix == ".py" else "fn "
    source = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(rf"\b{head}{function}\b(.*?)\) ?[-:{{]", source, re.DOTALL)
    return found[1] if found else None


def missing_tests(text: str) -> list[str]:
    """Lists tests of the table that are not in the file that it names."""
    return [
        f"{path.name}: {function}"
        for _, path, function in named_tests(text)
        if signature(path, function) is None
    ]


def run_on(row: str) -> str:
    """Returns what the tests of a row run against, in the words of docs/failures.md."""
    found = set()
    for folder, path, function in named_tests(row):
        if folder in RUN_ON:
            found.add(RUN_ON[folder])
            continue
        asked = signature(path, function) or ""
        brokers = [each for name, each in FIXTURES.items() if name in asked]
        found.update(*brokers or [("no broker",)])
    return ", ".join(each for each in ORDER if each in found)


def tables(text: str) -> dict[tuple[str, int], str]:
    """Returns the rows by ("scenario" or "bug", number)."""
    scenarios, _, bugs = text.partition("## Bugs of other clients")
    found = {}
    for kind, part in (("scenario", scenarios), ("bug", bugs)):
        for line in part.splitlines():
            if row := ROW.match(line):
                found[kind, int(row["number"])] = line
    return found


def said_to_be_about(path: Path) -> set[tuple[tuple[str, int], str]]:
    """Returns the rows that a file's tests refer to, each with the test."""
    source = path.read_text(encoding="utf-8")
    head = r"^(?:async )?def test_" if path.suffix == ".py" else r"^(?:async )?fn "
    # The comment of a Rust test is above it.
    begins = r"^(?:///|#\[)[^\n]*\n(?:(?:///|#\[)[^\n]*\n)*" if path.suffix == ".rs" else ""
    starts = [found.start() for found in re.finditer(begins + head, source, re.MULTILINE)]
    found = set()
    for start, end in pairwise([*starts, len(source)]):
        text = source[start:end]
        (name,) = re.findall(head + r"(\w+)", text, re.MULTILINE)[:1]
        if path.suffix == ".rs" and not re.search(r"^#\[.*\btest\b", text, re.MULTILINE):
            continue
        for about in ABOUT.finditer(text):
            for number in re.findall(r"\d+", about["numbers"]):
                found.add(((about["kind"].lower(), int(number)), name))
    return found


def test_the_files_that_the_map_names_are_there():
    assert missing_files((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")) == []


def test_the_tests_that_the_failures_name_are_there():
    assert missing_tests((ROOT / "docs/failures.md").read_text(encoding="utf-8")) == []


def test_each_failure_says_what_its_tests_run_on():
    rows = tables((ROOT / "docs/failures.md").read_text(encoding="utf-8"))
    assert len(rows) > 60
    said = {key: row.removesuffix(" |").rpartition("| ")[2] for key, row in rows.items()}
    assert said == {key: run_on(row) for key, row in rows.items()}


def test_tests_that_say_what_they_are_about_are_in_that_row():
    rows = tables((ROOT / "docs/failures.md").read_text(encoding="utf-8"))
    files = [each for each in conventions.tracked() if re.search(r"tests/.*\.(py|rs)$", each)]
    stray = [
        (path, *about)
        for path in files
        if not path.startswith("tests/docs/")
        for about in said_to_be_about(ROOT / path)
        if f"::{about[1]}`" not in rows.get(about[0], "")
    ]
    assert stray == []


def test_names_that_lead_nowhere_are_found():
    assert missing_files("`tests/docs/test_names.py`, network/no.rs") == ["network/no.rs"]
    text = "`records/hostile::a_count_of_records_that_lies_is_refused`, `::no`, `cluster/no::no`"
    assert missing_tests(text) == ["hostile.rs: no", "no.rs: no"]


def test_what_a_test_runs_on_is_told_by_its_place_and_fixtures():
    tests = {
        "`records/hostile::a_count_of_records_that_lies_is_refused`": "bytes",
        "`integration/consumer/corruption::other_partitions_flow_past_a_damaged_batch`": (
            "embedded, Kafka, scripted"
        ),
        "`integration/cluster/cluster_killed::leaders_killed_in_turn_lose_and_double_nothing`": (
            "Kafka"
        ),
        "`integration/connections/bootstrap_errors::a_host_without_address_is_named`": (
            "no broker"
        ),
    }
    assert {each: run_on(each) for each in tests} == tests
    assert run_on(" ".join(tests)) == "bytes, embedded, Kafka, scripted, no broker"
