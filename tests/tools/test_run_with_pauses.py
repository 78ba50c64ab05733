"""A command runs with pauses of its processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tools.run_with_pauses import pause, running

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

PAUSE_S = 0.6
# Ticks until one tick took PAUSE_S, or for 60 s at most. Its child does the same.
TICKS = f"""
import os, subprocess, sys, time
child = None if "child" in sys.argv else subprocess.Popen([*sys.orig_argv, "child"])
last, longest, ends = time.monotonic(), 0.0, time.monotonic() + 60
while longest < {PAUSE_S} and last < ends:
    time.sleep(0.01)
    now = time.monotonic()
    last, longest = now, max(longest, now - last)
passed = longest >= {PAUSE_S} and (child is None or child.wait() == 7)
sys.exit(7 if passed else 1)
"""
SLEEP = "import time; time.sleep(600)"
SLEEPS = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{SLEEP}']); {SLEEP}"


@pytest.mark.parametrize("options", [[], ["--single"]])
def test_a_command_and_its_child_are_paused_and_its_status_is_returned(options: list[str]) -> None:
    command = [sys.executable, str(ROOT / "tools" / "run_with_pauses.py"), *options]
    command += ["--every", "0.5", "--longest", str(PAUSE_S + 0.2), "--seed", "1"]
    command += [sys.executable, "-c", TICKS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 7, ended.stderr
    assert "--seed 1" in ended.stderr


def test_a_source_of_chance_chooses_the_one_process_that_stops() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as process:
        try:
            wait_until(lambda: len(running(process.pid)) == 2)
            assert pause(process.pid, 0.0, random.Random(1)) == 1
            assert pause(process.pid, 0.0) == 2
        finally:
            for pid in running(process.pid):
                os.kill(pid, signal.SIGKILL)


def test_a_process_that_was_stopped_before_stays_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as process:
        try:
            assert running(process.pid) == {process.pid}
            os.kill(process.pid, signal.SIGSTOP)
            limit = time.monotonic() + 60
            while running(process.pid):
                assert time.monotonic() < limit
                time.sleep(0.01)
            assert pause(process.pid, 0.0) == 0
            assert running(process.pid) == set()
        finally:
            process.kill()
