"""Writes the tables of states in docs/groups.md from coordinator/states.py.

python tools/generate_states.py [--check]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "groups.md"
sys.path.insert(0, str(ROOT / "python"))
_PLACE = re.compile(r"<!-- states: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def table(name: str) -> str:
    """The rows of one table of states."""
    from thalweg.coordinator import states

    rows = [
        f"| {state} | {', '.join(sorted(into)) or '(the end)'} |"
        for state, into in getattr(states, name).items()
    ]
    return "\n".join(["| state | may become |", "|---|---|", *rows])


def written(text: str) -> str:
    """The page with its tables as the code has them."""
    return _PLACE.sub(
        lambda found: f"<!-- states: {found[1]} -->\n{table(found[1])}\n<!-- end -->", text
    )


def main() -> None:
    """Writes the page, or says that it is out of date."""
    text = PAGE.read_text(encoding="utf-8")
    new = written(text)
    if "--check" in sys.argv[1:] and new != text:
        sys.exit(f"{PAGE.name} is out of date: run python tools/generate_states.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
