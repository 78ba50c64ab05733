"""Runs a command, and stops its processes for some seconds, again and again.

    .venv/bin/python tools/run_with_pauses.py .venv/bin/pytest -n 6 tests/integration
    .venv/bin/python tools/run_with_pauses.py --single --every 0.5 .venv/bin/pytest -n 6 tests/admin

A busy virtual machine has such pauses, too. If all processes stop, the tool finds time limits that
are too short. If a single one stops while the others run, it finds races between them. It needs
Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

# Shorter pauses happen anyway.
SHORTEST_S = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--every", type=float, default=45, help="seconds between pauses, on average"
    )
    parser.add_argument(
        "--longest", type=float, default=4, help="length of the longest pause, in seconds"
    )
    parser.add_argument(
        "--single", action="store_true", help="stop one process at a time, chosen at random"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.command[:1] == ["--"]:
        del arguments.command[0]
    if not arguments.command:
        parser.error("no command is given. Add it after the options")
    if not Path("/proc/self/stat").exists():
        parser.error("this tool needs /proc, which this system does not have. Run it on Linux")
    print(f"--seed {arguments.seed}", file=sys.stderr)
    return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns its exit status."""
    source = random.Random(arguments.seed)
    with subprocess.Popen(arguments.command) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(source.uniform(0.3, 1.7) * arguments.every)
                seconds = source.uniform(min(SHORTEST_S, arguments.longest), arguments.longest)
                count = pause(process.pid, seconds, source if arguments.single else None)
                print(f"processes paused for {seconds:.1f} s: {count}", file=sys.stderr)
        except KeyboardInterrupt:  # the terminal has sent it to the command, too
            return process.wait()


def pause(root: int, seconds: float, source: random.Random | None = None) -> int:
    """Stops a process and its descendants for this time. Returns their number.

    If `source` is given, it chooses one of them, and only this one stops.
    """
    stopped: set[int] = set()
    try:
        while new := running(root) - stopped:  # a process may start others until it is stopped
            if source is not None:
                new = {source.choice(sorted(new))}
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= new
            if source is not None:
                break
        time.sleep(seconds)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    return len(stopped)


def running(root: int) -> set[int]:
    """Returns a process and its descendants, without those that have ended or are stopped."""
    states: dict[int, str] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            # "pid (name) state parent ...". The name may contain spaces and parentheses.
            state, parent = each.read_text(errors="replace").rpartition(")")[2].split()[:2]
            states[int(each.parent.name)] = state
            children[int(parent)].append(int(each.parent.name))
    found, queue = set[int](), [root]
    while queue:
        pid = queue.pop()
        queue += children[pid]
        if states.get(pid, "Z") not in "TZX":
            found.add(pid)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
