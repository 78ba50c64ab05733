"""The option `taskMemory`: how much memory the client of a task uses, outside of the JVM's heap.

| part of a task | of a read | of a write |
|---|---|---|
| fixed | 4 MiB | |
| buffer of the client | what is left: fetched records | half: records without acknowledgement |
| Arrow batches | 4 batches, each at most an eighth | half: the rows that Spark passes to the task |

The interpreter with its libraries needs about 120 MiB more. Without the option, a read needs about
112 MiB, and a write about 64 MiB. One batch of a broker may always exceed a limit, so that a task
can continue. The size of Spark's own batches of rows is a setting of Spark
(`spark.sql.execution.arrow.maxRecordsPerBatch`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

NAME: Final = "taskMemory"
_MIB: Final = 1 << 20
# The largest batch that brokers accept by default has 1 MiB, and several must fit.
LEAST: Final = 16 * _MIB
BATCH_BYTES: Final = 16 * _MIB
# A task often reads only one partition, so it cannot fetch several in parallel.
_PARTITION_BYTES: Final = 8 * _MIB
_FIXED: Final = 4 * _MIB
_BATCHES: Final = 4  # one that is filled, one that Spark reads, two that are kept for reuse
_UNITS: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_FETCHES: Final = "kafka.fetch.buffer.memory", "kafka.max.partition.fetch.bytes"
_ALIASES: Final = {"kafka.fetch.message.max.bytes": "kafka.max.partition.fetch.bytes"}


class ReadMemory(NamedTuple):
    """The limits of a task that reads: options of its client, and the size of Arrow batches."""

    client: dict[str, str]
    batch_bytes: int


def read_memory(given: Mapping[str, str]) -> ReadMemory:
    """Returns the limits of a task that reads.

    Args:
        given: All options of the read, with names in lower case.

    Raises:
        ValueError: If the option is wrong, or other options set the same limits.
    """
    total = _parsed(given, *_FETCHES)
    if total is None:
        return ReadMemory({"max.partition.fetch.bytes": str(_PARTITION_BYTES)}, BATCH_BYTES)
    usable = total - _FIXED
    batch = min(BATCH_BYTES, usable // (2 * _BATCHES))
    buffer = usable - _BATCHES * batch
    fetch = min(_PARTITION_BYTES, buffer // 8)
    client = {"fetch.buffer.memory": str(buffer), "max.partition.fetch.bytes": str(fetch)}
    return ReadMemory(client, batch)


def write_memory(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the client of a task that writes.

    Args:
        given: All options of the write, with names in lower case.

    Raises:
        ValueError: If the option is wrong, or another option sets the same limit.
    """
    total = _parsed(given, "kafka.buffer.memory")
    return {} if total is None else {"buffer.memory": str(total // 2)}


def _parsed(given: Mapping[str, str], *contradicting: str) -> int | None:
    value = given.get(NAME.lower())
    if value is None:
        return None
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*(?:([kmg])b?|b)?\s*", value, re.IGNORECASE)
    if found is None:
        raise ValueError(
            f"Option '{NAME}' must be a number of bytes, or a number with k, m or g such as 64m,"
            f" got '{value}'"
        )
    total = int(found[1]) * _UNITS[(found[2] or "b").lower()]
    if total < LEAST:
        raise ValueError(
            f"Option '{NAME}' must be at least {LEAST // _MIB}m, got '{value}': with less, the"
            " client could not hold several batches of a broker"
        )
    for name in given:
        dotted = name.replace("_", ".")
        if _ALIASES.get(dotted, dotted) in contradicting:
            raise ValueError(f"Option '{NAME}' sets '{name}', too: omit one of them")
    return total
