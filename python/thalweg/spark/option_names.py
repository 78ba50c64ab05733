"""Names of the source's and the sink's options: which are known, and what becomes of others.

    a misspelt one of ours, a client option without "kafka.", an unknown "kafka." one ──> refused
    another of Spark's, another side's, any other ────────────────────────────────────> a warning

Spark's own connector ignores whatever it does not know, so that `startingOffset` reads from the
wrong place in silence. Here a name that is close to one of ours is an error that says which. One
that is not is warned of only: Spark puts entries of its own into the same map. Spark 4.2 puts four
there (`_SPARKS`); a version or a platform that adds a fifth must not break every query.

What this module does not do: look at values.
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
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
# The connector's pages have includeHeaders for both; headers are written wherever they are.
WRITE: Final = ("topic", "includeHeaders")
# What load(path), load([paths]), start(path), queryName() and the checkpoint's option leave there.
_SPARKS: Final = ("path", "paths", "queryname", "checkpointlocation")
_NO_EFFECT: Final = {"groupidprefix": "no consumer of thalweg's source joins or names a group"}

_CLOSE: Final = 0.75  # of difflib's ratio: one or two letters amiss, or a word left out


def check_names(names: Iterable[str], side: Side) -> None:
    """Refuses names that are surely mistakes; warns of others that have no effect.

    Args:
        names: Of the options given, in lower case.
        side: What they were given to.

    Raises:
        ValueError: For the first mistake, with the nearest name.
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
            _warn(f"option '{elsewhere[name]}' is ignored: it is one of a {other}")
        else:
            nearest = _nearest(name, ours, side)
            if nearest is not None:
                raise ValueError(f"Option '{name}' is not known: did you mean '{nearest}'?")
            _warn(f"option '{name}' is ignored: neither thalweg nor the client has it")


def _check_client_option(name: str, side: Side) -> None:
    problem = unknown_option("c" if side == "read" else "p", name.removeprefix("kafka."))
    if problem is not None:
        raise ValueError(f"Option '{name}' is not one of the client's: {problem}")


def _nearest(name: str, ours: Iterable[str], side: Side) -> str | None:
    """The name that was meant, if that can be told."""
    if unknown_option("c" if side == "read" else "p", name) is None:
        return f"kafka.{name}"
    by_lower = {each.lower(): each for each in (*ours, "kafka.bootstrap.servers")}
    close = difflib.get_close_matches(name, by_lower, n=1, cutoff=_CLOSE)
    return by_lower[close[0]] if close else None


def _warn(text: str) -> None:
    # It reaches the driver's stderr, though Spark makes readers and writers in a worker.
    warnings.warn(text, IgnoredOptionWarning, stacklevel=2)
