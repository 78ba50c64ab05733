"""Checks the names of the source's and the sink's options, not their values.

    a misspelled option, a client option without "kafka.", an unknown "kafka." option ──> an error
    an option of a write in a read (or vice versa), any other unknown name ───────────> a warning

Spark's own connector ignores unknown names, so a misspelled `startingOffset` silently reads from
the wrong place. Here, a name that is similar to a known option is an error that names this option.
Any other unknown name only causes a warning, because Spark adds its own entries to the same map.
Spark 4.2 adds four (`_SPARKS`), and a version or platform that adds a fifth must not break every
query.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from typing import Final, Literal

from thalweg.config import IgnoredOptionWarning, unknown_option

Side = Literal["read", "write"]

READ: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "taskMemory",
    "includeHeaders",
    "columns",
    "pushFilters",
    "groupIdPrefix",
    "commitGroupId",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
# The connector documents includeHeaders for both. The sink writes the column headers in any case.
WRITE: Final = (
    "topic",
    "includeHeaders",
    "delivery.guarantee",
    "delivery.decisionTopic",
    "delivery.lostTransactions",
    "taskMemory",
    "transactional.id.prefix",
)
# Entries that load(path), load([paths]), start(path), queryName() and checkpointLocation add, and
# options of Spark that it passes to the sink, too.
_SPARKS: Final = (
    "path",
    "paths",
    "queryname",
    "checkpointlocation",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
    "_asyncprogresstrackingoverridesinksupportcheck",
)
_NO_EFFECT: Final = {"groupidprefix": "the consumers of thalweg's source do not join a group"}

_CLOSE: Final = 0.75  # ratio of difflib: one or two wrong letters, or a missing word


def check_names(names: Iterable[str], side: Side) -> None:
    """Refuses names that must be mistakes, and warns of other names without effect.

    Args:
        names: The names of the given options, in lower case.
        side: Whether they are options of a read or of a write.

    Raises:
        ValueError: For the first mistake. The message names the nearest option.
    """
    ours, others = (READ, WRITE) if side == "read" else (WRITE, READ)
    known = {name.lower() for name in ours} | set(_SPARKS)
    elsewhere = {name.lower(): name for name in others}
    for name in names:
        if name.startswith("kafka."):
            _check_client_option(name, side)
        elif name in _NO_EFFECT:
            _warn(f"option '{name}' is accepted and ignored: {_NO_EFFECT[name]}")
        elif name in known:
            continue
        elif name in elsewhere:
            other = "write" if side == "read" else "read"
            _warn(f"option '{elsewhere[name]}' is ignored: it is an option of a {other}")
        else:
            nearest = _nearest(name, ours, side)
            if nearest is not None:
                raise ValueError(f"Option '{name}' is not known: did you mean '{nearest}'?")
            _warn(
                f"option '{name}' is ignored: thalweg and its client have no such option. Remove"
                " it, or check its name"
            )


def _check_client_option(name: str, side: Side) -> None:
    if side == "read" and name.replace("_", ".") == "kafka.group.id":
        _warn(
            f"option '{name}' has no effect: the query does not join a group. To start at the"
            " offsets of a group, or to commit to it, set 'commitGroupId'"
        )
    problem = unknown_option("c" if side == "read" else "p", name.removeprefix("kafka."))
    if problem is not None:
        raise ValueError(f"Option '{name}' is not an option of the client: {problem}")


def _nearest(name: str, ours: Iterable[str], side: Side) -> str | None:
    """Returns the option that the user probably meant, or None."""
    if unknown_option("c" if side == "read" else "p", name) is None:
        return f"kafka.{name}"
    by_lower = {each.lower(): each for each in (*ours, "kafka.bootstrap.servers")}
    close = difflib.get_close_matches(name, by_lower, n=1, cutoff=_CLOSE)
    return by_lower[close[0]] if close else None


def _warn(text: str) -> None:
    # It is shown on the driver's stderr, although Spark creates readers and writers in a worker.
    warnings.warn(text, IgnoredOptionWarning, stacklevel=2)
