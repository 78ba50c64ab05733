"""docs/spark-parity.md has each of the connector's 101 scenarios, and names tests that exist."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "spark"
ROW = re.compile(
    r"^\| (?P<first>\d+)(?:-(?P<last>\d+))? \|[^|]+\|(?P<tests>[^|]*)\|(?P<run_on>[^|]*)\|$",
    re.MULTILINE,
)
TEST = re.compile(r"`(?P<file>\w+)?::(?P<function>\w+)`")
# What a test runs on, by its fixtures.
FIXTURES = {
    "every_broker: Topics": {"embedded", "Kafka"},
    "both: Topics": {"embedded", "Kafka"},
    "topics: Topics": {"embedded"},
    "kafka: Broker": {"Kafka"},
}


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((ROOT / "docs" / "spark-parity.md").read_text(encoding="utf-8")))


def numbers(row: re.Match[str]) -> range:
    return range(int(row["first"]), int(row["last"] or row["first"]) + 1)


def named(cell: str) -> list[tuple[str, str]]:
    """Returns file and function of each test in a cell."""
    found, file = [], ""
    for test in TEST.finditer(cell):
        file = test["file"] or file
        found.append((file, test["function"]))
    return found


def signature(file: str, function: str) -> str:
    [path] = FOLDER.rglob(f"test_{file}.py")
    source = path.read_text(encoding="utf-8")
    found = re.search(rf"^def test_{function}\((.*?)\) ?[-:]", source, re.DOTALL | re.MULTILINE)
    assert found is not None, f"test_{file}.py has no test_{function}"
    return found[1]


def run_on(tests: list[tuple[str, str]]) -> str:
    found: set[str] = set()
    for test in tests:
        asked = signature(*test)
        found |= next((on for name, on in FIXTURES.items() if name in asked), {"no broker"})
    return ", ".join(each for each in ("embedded", "Kafka", "no broker") if each in found)


def test_each_scenario_has_one_row() -> None:
    assert [number for row in rows() for number in numbers(row)] == list(range(1, 102))


def test_each_row_names_tests_that_exist_and_what_they_run_on() -> None:
    said = {row["first"]: row["run_on"].strip() for row in rows()}
    assert said == {row["first"]: run_on(named(row["tests"])) for row in rows()}


def test_tests_with_a_number_are_in_the_row_of_that_number() -> None:
    cells = {number: named(row["tests"]) for row in rows() for number in numbers(row)}
    stray = []
    for path in sorted(FOLDER.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        for function, first, last in re.findall(
            r"^def test_(parity_(\d+)(?:_to_(\d+))?_\w+)", source, re.MULTILINE
        ):
            this = (path.stem.removeprefix("test_"), function)
            about = range(int(first), int(last or first) + 1)
            stray += [(number, *this) for number in about if this not in cells[number]]
    assert stray == []
