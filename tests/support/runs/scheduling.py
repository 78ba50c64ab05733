"""Decides which process of `pytest -n` runs which test: the tests of a file share its brokers.

xdist's own `--dist loadgroup` writes the name of a group into the ID of a test. pytest 9.2 no
longer allows that: any process may then get any test, without an error. So the group comes from the
ID here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each test of these files starts what it needs itself, so any process may run it.
_ALONE = {
    "test_broker_killed.py",
    "test_clusters.py",
    "test_delivery.py",
    "test_demo.py",
    "test_driver_killed.py",
    "test_executors.py",
    "test_installs.py",
}
# These files take too long for one process, and the tests of each broker are independent.
_BY_BROKER = {"test_exchange.py", "test_sessions.py"}
# The files of these folders share what takes long to create: wheels, brokers with an authorizer.
_TOGETHER = {"tests/admin", "tests/packaging"}
# The files of a folder share a Spark session. One session for all of them would be the longest part
# of a run: two of them keep two cores busy, although each takes some seconds to start.
_SPARK_SESSIONS = {
    "tests/spark": "tests/spark",
    "tests/spark/clusters": "tests/spark",
    "tests/spark/exactly_once": "tests/spark/exactly_once",
    "tests/spark/helpers": "tests/spark",
    "tests/spark/parity": "tests/spark/parity",
    "tests/spark/pushdown": "tests/spark",
}
# The files with that session. The other files of their folder start no Spark, or their own.
_WITH_SPARK = {
    "test_batch_read.py",
    "test_costs.py",
    "test_exactly_once.py",
    "test_group_offsets.py",
    "test_identity_provider.py",
    "test_parity_batch.py",
    "test_parity_jvm_streams.py",
    "test_parity_queries.py",
    "test_parity_starts.py",
    "test_parity_transactions.py",
    "test_parity_triggers.py",
    "test_parity_writes.py",
    "test_prefixes_and_topics.py",
    "test_progress.py",
    "test_queries.py",
    "test_registration.py",
    "test_security.py",
    "test_session.py",
    "test_stream_read.py",
    "test_task_memory.py",
    "test_two_at_once.py",
    "test_write.py",
}
# The longest files run first, so that the last process does not end with one of them.
_FIRST: Sequence[str] = (
    "test_installed.py",
    "test_exchange.py",
    "test_cluster_killed.py",
    "test_cluster_transactions.py",
    *sorted(_WITH_SPARK),
)
_BROKER = re.compile(r"\[(embedded|kafka-[\d.]+)")


def rank(file: str) -> int:
    """Returns the rank of a file with this name. Lower ranks run earlier."""
    return _FIRST.index(file) if file in _FIRST else len(_FIRST) + (file not in _ALONE)


def group(test: str) -> str:
    """Returns the group of a test, from its ID. One process runs all tests of a group."""
    path = test.split("::", 1)[0]
    folder, file = path.rsplit("/", 1)
    if folder in _TOGETHER:
        return folder
    if file in _ALONE:
        return test
    if folder in _SPARK_SESSIONS and file in _WITH_SPARK:
        return _SPARK_SESSIONS[folder]
    found = _BROKER.search(test) if file in _BY_BROKER else None
    return f"{path}[{found[1]}]" if found else path


class Scheduling(LoadScopeScheduling):
    """Gives each process one complete `group` at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
