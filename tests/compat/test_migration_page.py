"""docs/migrating-from-kafka-python.md states the defaults correctly."""

import re
from pathlib import Path

from tests.compat import differences
from tests.compat.describe import INTERNAL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migrating-from-kafka-python.md"
# Differences that need no row: only the notation differs, or they have no effect.
NO_ROW = ("the same", "without effect", "bootstrap_timeout_ms has the same meaning")
WORDS = {
    "random without key": ("callable", "DefaultPartitioner"),
    "sticky without key": ("'default'",),
    "range, roundrobin": ("[RangePartitionAssignor, RoundRobinPartitionAssignor]",),
    "range, cooperative-sticky": ("['range', 'cooperative-sticky']",),
    "numbered": ("None",),
}


def section(title: str) -> str:
    return PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def rows() -> dict[str, list[str]]:
    found = {}
    for line in section("Different defaults").splitlines():
        match = re.match(r"\| `(\w+)`[^|]*\|(.*)\|$", line)
        if match:
            found[match[1]] = [cell.strip() for cell in match[2].split("|")]
    return found


def test_every_default_that_differs_in_effect_has_a_row():
    wanted = {
        option
        for option, reason in differences.DEFAULTS.items()
        if not reason.startswith(NO_ROW) or option == "partitioner"
    }
    assert set(rows()) == wanted


def test_the_rows_give_the_defaults_as_they_are(both, ours):
    for option, cells in rows().items():
        described = [both["2.3.0"], both["3.0.12"], ours]
        for cell, each in zip(cells[:3], described, strict=True):
            values = {options[option] for options in each["defaults"].values() if option in options}
            expected = WORDS.get(cell, (cell, repr(cell)))
            assert values & set(expected), (option, cell, values)


def test_every_module_that_is_gone_is_listed():
    gone = set(re.findall(r"`([\w.*]+)`", section("Modules").split("do not exist:")[1]))
    for path in (*differences.MODULES, *INTERNAL):
        assert (f"{path}*" if path.endswith("._") else path) in gone, path
