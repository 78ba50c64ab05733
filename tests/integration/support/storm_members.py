"""A program that runs members of one group, a thread each, which follow commands on its input.

    python -m tests.integration.support.storm_members BOOTSTRAP TOPIC GROUP PROTOCOL OPTIONS FILE

OPTIONS are further options of the consumers, as JSON. The input has lines "join N", "leave N"
(closes) and "stall N" (never polls again, and does not close). The program ends when its input
ends, and may be killed at any time. Each member writes what it does in lines
"time kind member numbers...", where time is monotonic and in ns. tests/support/groups/history.py
describes the kinds.

Members with odd numbers use auto-commit. The others commit after each poll and before they give up
partitions.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from tests.support.groups.history import HEARTBEAT_MS, MAX_POLL_INTERVAL_MS
from thalweg import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from thalweg.errors import CommitFailedError, RebalanceInProgressError
from thalweg.interceptor import ConsumerInterceptor

# Of classic members. Those of KIP-848 have the broker's, which may be shorter.
SESSION_MS = 12_000
AUTO_COMMIT_MS = 200
POLL_MS = 100


class Journal:
    """The file of all members of this process. A kill never leaves a partial line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, kind: str, member: int, rows: Iterable[Iterable[int]] = ((),)) -> None:
        """Writes a line for each row, all with the same time."""
        now = time.monotonic_ns()
        lines = [" ".join(map(str, (now, kind, member, *row))) + "\n" for row in rows]
        with self._lock:
            self._file.write("".join(lines))
            self._file.flush()


class Member(ConsumerRebalanceListener, ConsumerInterceptor):
    """One consumer and its thread."""

    def __init__(
        self, number: int, journal: Journal, topic: str, config: Mapping[str, Any]
    ) -> None:
        self._number, self._journal, self._topic = number, journal, topic
        self._auto = number % 2 == 1
        self._config = {
            **config,
            "enable_auto_commit": self._auto,
            "auto_commit_interval_ms": AUTO_COMMIT_MS,
            "interceptor_classes": [self],
        }
        self.leaves, self.stalls = threading.Event(), threading.Event()
        # A daemon thread, because a member that stalls never ends.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with KafkaConsumer.from_config(self._config) as consumer:
            self._consumer = consumer
            self._write("S")
            consumer.subscribe([self._topic], listener=self)
            polled_ns = time.monotonic_ns()
            while not self.leaves.is_set() and not self.stalls.is_set():
                found = consumer.poll(POLL_MS)
                polled_ns = time.monotonic_ns()
                self._read(found)  # and commits, which may take a while
            if self.stalls.is_set():
                self._write("Z", (time.monotonic_ns() - polled_ns) // 1_000_000)
                threading.Event().wait()
            self._write("X")
        self._write("E")

    def _write(self, kind: str, *numbers: int) -> None:
        self._journal.write(kind, self._number, [numbers])

    def _read(self, found: Mapping[TopicPartition, list[Any]]) -> None:
        rows = []
        now_ms = time.time() * 1000
        for where, records in found.items():
            offsets = [each.offset for each in records]
            if offsets != list(range(offsets[0], offsets[-1] + 1)):
                raise SystemExit(f"not in order, or gaps: {where} {offsets}")
            waited_ms = max(0, int(now_ms - records[0].timestamp))
            rows.append((where.partition, offsets[0], offsets[-1], waited_ms))
        if rows:
            self._journal.write("R", self._number, rows)
            if not self._auto:
                self._commit()

    def _commit(self) -> None:
        # During a rebalance a commit may fail. A later commit covers it, from this or another
        # member.
        with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
            self._consumer.commit()

    # ------------------------------------------------------------------ listener and interceptor

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        rows = [(where.partition, at.offset) for where, at in offsets.items()]
        self._journal.write("C", self._number, rows)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._tell("A", self._consumer.assignment())

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        try:
            if not self._auto:
                self._commit()
        finally:  # the partitions are revoked even if the commit failed
            self._tell("V", revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._tell("L", lost)

    def _tell(self, kind: str, partitions: Iterable[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        self._write(kind, generation, *sorted(each.partition for each in partitions))


def main(bootstrap: str, topic: str, group: str, protocol: str, options: str, path: str) -> None:
    config: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "default_api_timeout_ms": 20_000,
    }
    if protocol == "classic":
        config |= {
            "partition_assignment_strategy": "cooperative-sticky",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
        }
    config |= json.loads(options)
    members: dict[int, Member] = {}
    with open(path, "w", encoding="utf-8") as file:
        journal = Journal(file)
        for line in sys.stdin:
            what, number = line.split()
            match what:
                case "join":
                    members[int(number)] = Member(int(number), journal, topic, config)
                case "leave":
                    members[int(number)].leaves.set()
                case "stall":
                    members[int(number)].stalls.set()
        end(list(members.values()))


def end(members: list[Member]) -> None:
    """Makes all members leave, except those that stall."""
    staying = [each for each in members if not each.stalls.is_set()]
    for each in staying:
        each.leaves.set()
    for each in staying:
        each.thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
