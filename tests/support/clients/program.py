"""The command line that the programs of all clients share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.support.records import Record, read_records, write_records

IDLE_LIMIT_S = 60.0


def main(
    produce: Callable[[argparse.Namespace, Iterable[Record]], None],
    consume: Callable[[argparse.Namespace], Iterator[Record]],
) -> None:
    """Runs the function that the command line selects.

    `produce` sends all records with `options.codec` and returns when all are acknowledged.
    `consume` yields `options.count` records from all partitions of the topic, from the beginning.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["produce", "consume"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--produce", nargs=2, action="append", metavar=("CODEC", "FILE"))
    parser.add_argument("--file", type=Path)
    parser.add_argument("--count", type=int, default=0)
    options = parser.parse_args()
    if options.role == "produce":
        for codec, file in options.produce:
            options.codec = codec
            produce(options, read_records(Path(file)))
    else:
        count = write_records(options.file, consume(options))
        if count != options.count:
            raise SystemExit(f"{count} records of {options.count}")


class Patience:
    """Ends a wait for records that do not arrive."""

    def __init__(self, limit: float = IDLE_LIMIT_S) -> None:
        self.limit = limit
        self.last = time.monotonic()

    def note(self, got: object) -> None:
        """Notes what the last poll returned.

        Raises:
            TimeoutError: nothing has arrived for too long.
        """
        now = time.monotonic()
        if got:
            self.last = now
        elif now - self.last > self.limit:
            raise TimeoutError(f"no record for {self.limit} s")
