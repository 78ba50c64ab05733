"""Which process of `pytest -n` runs which test: a file's tests stay together with its brokers.

xdist's own `--dist loadgroup` writes a group's name into the test's id, which pytest 9.2 no longer
lets it do: every test goes anywhere, without a word. So the group is told from the id here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each of these tests starts what it needs itself, so any process may run it.
_ALONE = {"test_broker_killed.py", "test_delivery.py", "test_demo.py", "test_registration.py"}
# Too long for one process, and each broker's part is whole by itself.
_BY_BROKER = {"test_exchange.py"}
# The files of these folders share what takes long to make: wheels, brokers with an authorizer.
_TOGETHER = {"admin", "packaging"}
# The longest files begin, so that none of them is left for one process at the end.
_FIRST: Sequence[str] = (
    "test_installed.py",
    "test_exchange.py",
    "test_cluster_killed.py",
    "test_cluster_transactions.py",
    "test_stream_read.py",
)
_BROKER = re.compile(r"\[(embedded|kafka-[\d.]+)")


def rank(file: str) -> int:
    """Where a file named so stands among all: the lower, the earlier."""
    return _FIRST.index(file) if file in _FIRST else len(_FIRST) + (file not in _ALONE)


def group(test: str) -> str:
    """The tests that one process runs, for the id of one of them."""
    path = test.split("::", 1)[0]
    folder, file = path.rsplit("/", 2)[-2:]
    if folder in _TOGETHER:
        return folder
    if file in _ALONE:
        return test
    found = _BROKER.search(test) if file in _BY_BROKER else None
    return f"{path}[{found[1]}]" if found else path


class Scheduling(LoadScopeScheduling):
    """Gives each process a whole `group` at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
