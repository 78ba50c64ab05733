"""Generates the state diagrams in docs/groups.md from the tables in coordinator/states.py.

python tools/generate_states.py [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "groups.md"
sys.path.insert(0, str(ROOT / "python"))
_PLACE = re.compile(r"<!-- states: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def diagram(name: str) -> str:
    """Returns one table of states as a Mermaid diagram, which code hosts and editors render."""
    from thalweg.coordinator import states

    arrows = []
    for state, into in getattr(states, name).items():
        if isinstance(into, Mapping):  # {trigger: state}
            to = [f"{_id(each)}: {trigger}" for trigger, each in into.items()]
        else:
            to = [_id(each) for each in sorted(into)]
        arrows += [f"    {_id(state)} --> {each}" for each in to or ["[*]"]]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"])


def _id(state: str) -> str:
    return re.sub(r"\W", "_", state)


def written(text: str) -> str:
    """Returns the page with diagrams that match the code."""
    return _PLACE.sub(
        lambda found: f"<!-- states: {found[1]} -->\n{diagram(found[1])}\n<!-- end -->", text
    )


def main() -> None:
    """Writes the page. With `--check` it fails if the page is out of date."""
    text = PAGE.read_text(encoding="utf-8")
    new = written(text)
    if "--check" in sys.argv[1:] and new != text:
        sys.exit(f"{PAGE.name} is out of date: run python tools/generate_states.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
