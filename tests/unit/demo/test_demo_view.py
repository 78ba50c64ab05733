"""The demo's progress bar, on a terminal and without one."""

from __future__ import annotations

import io
import re

from rich.console import Console

from tests.support.waiting import wait_until
from thalweg.demo.view import View


def view(file: io.StringIO, *, terminal: bool) -> View:
    # A separate environment, because with TERM=dumb even a terminal gets no bar.
    return View(Console(file=file, width=80, force_terminal=terminal, _environ={"TERM": "xterm"}))


def test_on_a_terminal_the_bar_grows_on_one_line():
    file = io.StringIO()
    with view(file, terminal=True).progress("producing", 100) as advance:
        advance(50)
        wait_until(lambda: " 50/100" in file.getvalue(), what="half a bar")
        advance(50)
    drawn = file.getvalue()
    assert drawn.index("  0/100") < drawn.index(" 50/100") < drawn.index("100/100")
    assert drawn.count("\r\x1b[2K") >= 3
    assert drawn.count("\n") == 1


def test_off_a_terminal_one_line_says_how_far_it_came():
    file = io.StringIO()
    with view(file, terminal=False).progress("producing", 100) as advance:
        advance(50)
        advance(25)
    assert re.fullmatch(r"producing \S+ +75/100 \d:\d\d:\d\d\n", re.sub(" +", " ", file.getvalue()))
